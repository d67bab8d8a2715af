package verdict

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"time"

	"antirobot/identity"
)

// The passes of a campaign, a kind of browser in a network, or a shape of clients that answer as machines do, are revoked
// together. The revocation stands among those of
// single passes, under a key that no pass has, until no pass that it concerns can still be valid: campaignLife after the
// moment up to which it concerns them.

// campaignLife is longer than any pass lives.
const campaignLife = 401 * 24 * time.Hour

// campaignKey is the key of a campaign among the revocations; agent 0 is every kind of browser in the network.
func campaignKey(net, agent uint64) (k revokedKey) {
	const odd = 0x9e3779b97f4a7c15 // the golden ratio: spreads what is no hash of its own
	copy(k[:], campaignMark)
	binary.BigEndian.PutUint64(k[len(campaignMark):], net^bits.RotateLeft64(agent*odd, 32))
	return k
}

// campaignMark begins the keys of campaigns. The IDs of passes are random: one in 2^64 begins like this.
const campaignMark = "campaign"

// RevokeCampaign makes all passes invalid that a kind of browser (the hash of its User-Agent's family, 0: any) has earned in
// a network, a /24 or /48, until at; with the zero Prefix, all that clients of a shape (agent is its hash) have earned by answering
// as machines do. As for RevokePass, an error concerns the store only.
func (c *Cacher) RevokeCampaign(ctx context.Context, n netip.Prefix, agent uint64, at time.Time) error {
	net := uint64(0)
	switch {
	case n == netip.Prefix{} && agent == 0:
		return errors.New("revoke a campaign: it has neither a network nor a shape")
	case n == netip.Prefix{}:
	case n != identity.NetOf(n.Addr()):
		return errors.New("revoke a campaign: its network is neither a /24 nor a /48")
	default:
		net = identity.NetKey(n)
	}
	key := campaignKey(net, agent)
	if err := c.revoked.put(key, at.Add(campaignLife).UnixNano()); err != nil {
		return fmt.Errorf("revoke a campaign: %w", err)
	}
	c.revoked.campaigns.Store(true)
	return c.revoked.behind.Now(ctx, key)
}

// RevokedCampaign reports whether what a kind of browser in a network (its NetKey) had earned by then (unix seconds) was
// revoked. It takes no lock and allocates nothing.
func (c *Cacher) RevokedCampaign(net, agent uint64, born int64) bool {
	if !c.revoked.campaigns.Load() {
		return false
	}
	for _, key := range [...]revokedKey{campaignKey(net, agent), campaignKey(net, 0)} {
		m := c.revoked.ids[key[15]%revocationShards].Load()
		if m == nil {
			continue
		}
		if until, ok := (*m)[key]; ok && time.Unix(born, 0).Add(campaignLife).UnixNano() <= until {
			return true
		}
	}
	return false
}
