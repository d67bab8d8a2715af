package captcha

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// A campaign is a kind of browser in a network that appears to solve by machine: right, quick and many answers that look
// alike. Its passes are worth the least that any pass is worth, while those of its neighbours with other browsers keep
// their worth; what it has earned can be taken back by the operator, or by rule (AlarmConfig.Revoke).

// Campaign is one that goes on, with its counts.
type Campaign struct {
	// Name is the network and, in sixteen hexadecimal digits, the hash of the User-Agent's family.
	Name string `json:"name"`
	ChallengeCount
}

// campaignName names the solvers of a network that use one kind of browser.
func campaignName(n netip.Prefix, agent uint64) string {
	digits := strconv.FormatUint(agent, 16)
	return n.String() + " " + strings.Repeat("0", 16-len(digits)) + digits
}

// campaign returns the counts of the solvers who look like this one.
func (t *tally) campaign(n netip.Prefix, agent uint64, at time.Time) ChallengeCount {
	name := campaignName(n, agent)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(at)
	var sum tallied
	for _, s := range [...]span{t.was, t.now} {
		sum.add(s[ofCampaign][name])
	}
	return sum.row()
}

// isCampaign reports whether the solvers who look like this one appear to be machines.
func (c *Captcha) isCampaign(n netip.Prefix, agent uint64, at time.Time) bool {
	count := c.tally.campaign(n, agent, at)
	return count.machines(&c.cfg.Alarm)
}

// revokeEvery is how often the passes of a campaign are taken back while it goes on.
const revokeEvery = time.Minute

// noteCampaign takes back, if the configuration says so, what a campaign has earned.
func (c *Captcha) noteCampaign(n netip.Prefix, agent uint64, at time.Time) {
	if !c.cfg.Alarm.Revoke || c.revoke == nil || agent == 0 || !c.isCampaign(n, agent, at) {
		return
	}
	if c.revokes.take(c.revokes.addrKey(n.Addr(), agent), at) > 0 {
		return
	}
	c.log.Warn().Str("campaign", campaignName(n, agent)).Msg("machines solve: their passes are revoked")
	if err := c.revoke(n, agent, at); err != nil {
		c.log.Error().Err(err).Msg("revoke the passes of a campaign")
	}
}
