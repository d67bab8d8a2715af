package verdict

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/store/behind"
	"antirobot/verdict/bans"
	"antirobot/verdict/replicate"
)

const (
	revocationShards = 64
	revokedPrefix    = "revoked/"
	revocationTopic  = "revocations"
	// campaignMark begins the keys of campaigns. The IDs of passes are random: one in 2^64 begins like this.
	campaignMark = "campaign"
	// campaignLife is longer than any pass lives.
	campaignLife = 401 * 24 * time.Hour
)

var errRevocation = errors.New("malformed revocation")

// revokedKey names one revocation: the ID of a pass, or a campaign; the zero value means all passes that were created
// before a time.
type revokedKey [16]byte

// Revocations knows which passes are no longer valid, by ID, by creation time, and by campaign. Looking one up takes no
// lock: the maps are replaced, never changed. Safe for concurrent use.
//
// A campaign is the passes of a kind of browser in a network, or of a shape of clients that answer as machines do. Its
// revocation stands among those of single passes until campaignLife after the moment up to which it holds.
type Revocations struct {
	*clock
	max       int
	losses    *store.Losses
	local     *atomic.Pointer[store.LocalLog]
	writes    *behind.Writer[revokedKey]
	mu        sync.Mutex // of writers
	n         int
	campaigns atomic.Bool  // there are campaigns among the IDs
	before    atomic.Int64 // unix seconds: passes that were created earlier are revoked
	ids       [revocationShards]atomic.Pointer[map[revokedKey]int64]
}

// campaignKey is the key of a campaign; agent 0 is every kind of browser in the network.
func campaignKey(net, agent uint64) (k revokedKey) {
	const odd = 0x9e3779b97f4a7c15 // the golden ratio: spreads what is no hash of its own
	copy(k[:], campaignMark)
	binary.BigEndian.PutUint64(k[len(campaignMark):], net^bits.RotateLeft64(agent*odd, 32))
	return k
}

// RevokePass makes the pass invalid from now on and for ttl, which should be at least the rest of its life. The revocation
// is in force when RevokePass returns, even if the store fails; the error then says so, and the write is retried.
func (r *Revocations) RevokePass(ctx context.Context, id [16]byte, ttl time.Duration) error {
	if id == (revokedKey{}) || ttl <= 0 {
		return errors.New("revoke a pass: no ID, or no time to live")
	}
	return r.revoke(ctx, "revoke a pass", id, r.now().Add(ttl))
}

// RevokePassesBornBefore makes all passes created before a time invalid. It can't be undone. As for RevokePass, an
// error concerns the store only.
func (r *Revocations) RevokePassesBornBefore(ctx context.Context, at time.Time) error {
	if at.After(r.now()) {
		return errors.New("revoke passes: the time is in the future")
	}
	r.raise(at.Unix())
	return r.writes.Now(ctx, revokedKey{})
}

// RevokeCampaign makes all passes invalid that a kind of browser (the hash of its User-Agent's family, 0: any) has earned
// in a network, a /24 or /48, until at; with the zero Prefix, all that clients of a shape (agent is its hash) have earned by
// answering as machines do. As for RevokePass, an error concerns the store only.
func (r *Revocations) RevokeCampaign(ctx context.Context, n netip.Prefix, agent uint64, at time.Time) error {
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
	return r.revoke(ctx, "revoke a campaign", campaignKey(net, agent), at.Add(campaignLife))
}

func (r *Revocations) revoke(ctx context.Context, what string, key revokedKey, until time.Time) error {
	if err := r.put(key, until.UnixNano()); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return r.writes.Now(ctx, key)
}

// Revoked reports whether a pass with this ID and creation time (unix seconds) is no longer valid. It takes no lock and
// allocates nothing.
func (r *Revocations) Revoked(id [16]byte, born int64) bool {
	return born < r.before.Load() || r.now().UnixNano() < r.until(id)
}

// RevokedCampaign reports whether the passes that a kind of browser in a network (its NetKey) had earned by then (unix
// seconds) were revoked. It takes no lock and allocates nothing.
func (r *Revocations) RevokedCampaign(net, agent uint64, born int64) bool {
	if !r.campaigns.Load() {
		return false
	}
	ends := time.Unix(born, 0).Add(campaignLife).UnixNano()
	return ends <= r.until(campaignKey(net, agent)) || ends <= r.until(campaignKey(net, 0))
}

// until returns until when a key is revoked (unix nanoseconds); 0: it is not.
func (r *Revocations) until(id revokedKey) int64 {
	// The IDs are random, so any of their bits spread them evenly.
	if m := r.ids[id[15]%revocationShards].Load(); m != nil {
		return (*m)[id]
	}
	return 0
}

// put revokes a key in memory until a time (unix nanoseconds).
func (r *Revocations) put(id revokedKey, until int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.ids[id[15]%revocationShards]
	next := make(map[revokedKey]int64)
	if old := p.Load(); old != nil {
		if was, known := (*old)[id]; known && was >= until {
			return nil
		}
		at := r.horizon().UnixNano()
		next = maps.Clone(*old)
		maps.DeleteFunc(next, func(_ revokedKey, until int64) bool { return until <= at })
		r.n -= len(*old) - len(next)
	}
	if _, known := next[id]; !known {
		if r.n >= r.max {
			return bans.ErrFull
		}
		r.n++
	}
	next[id] = until
	p.Store(&next)
	if string(id[:len(campaignMark)]) == campaignMark {
		r.campaigns.Store(true)
	}
	r.log(id, until)
	return nil
}

// raise revokes all passes that were created before a time.
func (r *Revocations) raise(before int64) {
	for {
		old := r.before.Load()
		if before <= old {
			return
		}
		if r.before.CompareAndSwap(old, before) {
			r.log(revokedKey{}, before)
			return
		}
	}
}

// revocation is a record of the store and of the feed.
type revocation struct {
	id  revokedKey
	val uint64 // its end in unix nanoseconds; with the zero key the creation time in unix seconds
}

func (x *revocation) code(c *replicate.Codec) {
	c.Fixed(x.id[:])
	replicate.Uint(c, &x.val)
}

func (x *revocation) record() []byte {
	c := replicate.Writer(nil, 0)
	x.code(c)
	return c.Bytes()
}

func (r *Revocations) log(id revokedKey, val int64) {
	if l := r.local.Load(); l != nil {
		l.Append(revocationRecord(id, val))
	}
}

func revocationRecord(id revokedKey, val int64) store.Logged {
	x := revocation{id, uint64(val)} //nolint:gosec // read back as it is
	return store.Logged{Key: append([]byte(revokedPrefix), id[:]...), Val: x.record()}
}

// write writes one revocation to the store as memory has it, and tells the other nodes.
func (r *Revocations) write(ctx context.Context, id revokedKey) error {
	val, ttl := r.before.Load(), time.Duration(0)
	if id != (revokedKey{}) {
		val = r.until(id)
		if ttl = time.Unix(0, val).Sub(r.now()); ttl <= 0 {
			return nil
		}
	}
	if val == 0 {
		return nil
	}
	rec := revocationRecord(id, val)
	if err := r.st.Put(ctx, rec.Key, rec.Val, ttl); err != nil {
		return fmt.Errorf("write revocation: %w", err)
	}
	if !r.st.Shared() {
		return nil
	}
	if err := r.st.Append(ctx, revocationTopic, rec.Val); err != nil {
		return fmt.Errorf("announce revocation: %w", err)
	}
	return nil
}

// heard takes a revocation from the feed.
func (r *Revocations) heard(msg []byte) error {
	_, err := r.apply(msg)
	return err
}

func (r *Revocations) apply(record []byte) (x revocation, err error) {
	c := replicate.Reader(record, 0)
	x.code(c)
	switch {
	case !c.OK():
		return x, errRevocation
	case x.id == (revokedKey{}):
		r.raise(int64(x.val)) //nolint:gosec // as it was written
		return x, nil
	}
	return x, r.put(x.id, int64(x.val)) //nolint:gosec // as it was written
}

// scan reads all revocations from the store, and writes back those that it has lost: a revocation is never undone.
func (r *Revocations) scan(ctx context.Context) error {
	found := map[revokedKey]uint64{}
	err := store.ScanKept(ctx, r.st, []byte(revokedPrefix), func(_, v []byte, _ time.Duration) error {
		x, err := r.apply(v)
		found[x.id] = x.val
		return err
	})
	if err != nil {
		return fmt.Errorf("read revocations: %w", err)
	}
	if !r.st.Shared() {
		return nil
	}
	var lost []revokedKey
	soon := r.now().Add(endsSoon).UnixNano()
	_ = r.each(func(id revokedKey, val int64) error { // this func returns no error
		got, ok := found[id]
		all := id == revokedKey{}
		if (all && int64(got) < val || !all && !ok && val > soon) && !r.writes.Pending(id) { //nolint:gosec // as it was written
			lost = append(lost, id)
		}
		return nil
	})
	n, err := behind.Restore(ctx, lost, func(ctx context.Context, id revokedKey) (bool, error) {
		return true, r.write(ctx, id)
	})
	r.losses.Note("revocations", int(n))
	return err
}

// each calls f with each revocation: its end in unix nanoseconds, or for the zero key the creation time in unix seconds.
func (r *Revocations) each(f func(id revokedKey, val int64) error) error {
	if before := r.before.Load(); before > 0 {
		if err := f(revokedKey{}, before); err != nil {
			return err
		}
	}
	at := r.now().UnixNano()
	for i := range r.ids {
		m := r.ids[i].Load()
		if m == nil {
			continue
		}
		for id, until := range *m {
			if until > at {
				if err := f(id, until); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
