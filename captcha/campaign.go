package captcha

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"antirobot/request"
)

// A campaign across networks is a shape: clients with the same handshake, the same header fields and the same kind of browser.
// People share shapes with machines, so only those of its answers are worth the least that are quick themselves.
//
// A campaign is a kind of browser in a network that appears to solve by machine: right, quick and many answers that look
// alike. Its passes are worth the least that any pass is worth, while those of its neighbours with other browsers keep
// their worth; what it has earned can be taken back by the operator, or by rule (AlarmConfig.Revoke).

// campaignName names the solvers of a network that use one kind of browser.
func campaignName(n netip.Prefix, agent uint64) string {
	digits := strconv.FormatUint(agent, 16)
	return n.String() + " " + strings.Repeat("0", 16-len(digits)) + digits
}

// shapeName names the clients that look like this one, wherever they come from: by how they begin a connection, which fields
// they send, and what browser they say they are.
func shapeName(q *Request) string { return nameOfShape(shapeOf(q)) }

func nameOfShape(shape uint64) string {
	digits := strconv.FormatUint(shape, 16)
	return "shape " + strings.Repeat("0", 16-len(digits)) + digits
}

// shapeOf is the hash of a shape; it is never 0.
func shapeOf(q *Request) uint64 {
	b := append(make([]byte, 0, 512), q.View.JA4...)
	b = append(append(b, 0), q.View.Frames...)
	for i := range q.View.Fields {
		switch name := q.View.Fields[i].Name; {
		case request.EqualFold(name, "Cookie"), request.EqualFold(name, "X-Forwarded-For"): // not of the client's making
		default:
			b = request.AppendLower(append(b, 0), name)
		}
	}
	return max(1, request.Hash(binary.BigEndian.AppendUint64(b, agentOf(q))))
}

// quick reports whether an answer looks like a machine's by itself.
func (c *Captcha) quick(r *result) bool {
	return r.robot || r.opened && r.key.read() && r.took < c.cfg.Alarm.Quick
}

// isShaped reports whether the solvers of the client's shape appear to be machines.
func (c *Captcha) isShaped(q *Request, k *key, at time.Time) bool {
	if k.partner != 0 {
		return false
	}
	count := c.tally.of(ofShape, shapeName(q), at)
	return count.machines(&c.cfg.Alarm)
}

// campaign returns the counts of the solvers who look like this one.
func (t *tally) campaign(n netip.Prefix, agent uint64, at time.Time) ChallengeCount {
	return t.of(ofCampaign, campaignName(n, agent), at)
}

func (t *tally) of(kind tallyOf, name string, at time.Time) ChallengeCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(at)
	sum := t.was[kind][name]
	now, others := t.now[kind][name], t.elsewhere(kind, name)
	sum.add(&now)
	sum.add(&others)
	return sum
}

// isCampaign reports whether the solvers who look like this one appear to be machines.
func (c *Captcha) isCampaign(n netip.Prefix, agent uint64, at time.Time) bool {
	count := c.tally.campaign(n, agent, at)
	return count.machines(&c.cfg.Alarm)
}

// revokeEvery is how often the passes of a campaign are taken back while it goes on.
const revokeEvery = time.Minute

// noteCampaign takes back, if the configuration says so, what a campaign has earned: a kind of browser in a network, or with the
// zero Prefix the clients of a shape, as far as they answered as machines do.
func (c *Captcha) noteCampaign(n netip.Prefix, agent uint64, at time.Time) {
	if !c.cfg.Alarm.Revoke || c.revoke == nil || agent == 0 {
		return
	}
	kind, name := ofShape, nameOfShape(agent)
	if n.IsValid() {
		kind, name = ofCampaign, campaignName(n, agent)
	}
	if count := c.tally.of(kind, name, at); !count.machines(&c.cfg.Alarm) || c.revokes.Take(c.revokes.AddrKey(n.Addr(), agent), at) > 0 {
		return
	}
	c.log.Warn().Str("campaign", name).Msg("machines solve: their passes are revoked")
	if err := c.revoke(n, agent, at); err != nil {
		c.log.Error().Err(err).Msg("revoke the passes of a campaign")
	}
}
