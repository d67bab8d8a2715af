package captcha

import (
	"encoding/binary"
	"net/netip"
	"time"

	"antirobot/captcha/outcomes"
	"antirobot/request"
)

// AlarmConfig says when a network appears to solve by machine.
type AlarmConfig struct {
	// Solved is the least number of right answers that a network gives within the hour or two.
	Solved int64 `mapstructure:"solved"`
	// Revoke takes back the passes of a campaign while it goes on: of the kind of browser in the network, not of its
	// neighbours; of a shape those that quick answers have earned.
	Revoke bool `mapstructure:"revoke"`
}

// quickAnswer is the time within which nobody can read and type the digits.
const quickAnswer = 2500 * time.Millisecond

// A campaign across networks is a shape: clients with the same handshake, the same header fields and the same kind of browser.
// People share shapes with machines, so only those of its answers are worth the least that are quick themselves.
//
// A campaign is a kind of browser in a network that appears to solve by machine: right, quick and many answers that look
// alike. Its passes are worth the least that any pass is worth, while those of its neighbours with other browsers keep
// their worth; what it has earned can be taken back by the operator, or by rule (AlarmConfig.Revoke).

// shapeOf is the hash of the clients that look like this one, wherever they come from: by how they begin a connection, which fields
// they send, and what browser they say they are. It is never 0.
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
func (r *result) quick() bool {
	return r.robot || r.opened && r.key.read() && r.took < quickAnswer
}

// isShaped reports whether the solvers of the client's shape appear to be machines.
func (wt *watch) isShaped(q *Request, k *key, at time.Time) bool {
	return k.partner == 0 && wt.tally.Machines(outcomes.Shape(shapeOf(q)), wt.cfg.Alarm.Solved, at)
}

// isCampaign reports whether the solvers who look like this one appear to be machines.
func (wt *watch) isCampaign(n netip.Prefix, agent uint64, at time.Time) bool {
	return wt.tally.Machines(outcomes.Campaign(n, agent), wt.cfg.Alarm.Solved, at)
}

// revokeEvery is how often the passes of a campaign are taken back while it goes on.
const revokeEvery = time.Minute

// noteCampaign takes back, if the configuration says so, what a campaign has earned: a kind of browser in a network, or with the
// zero Prefix the clients of a shape, as far as they answered as machines do.
func (wt *watch) noteCampaign(n netip.Prefix, agent uint64, at time.Time) {
	if !wt.cfg.Alarm.Revoke || wt.revoke == nil || agent == 0 {
		return
	}
	name := outcomes.Shape(agent)
	if n.IsValid() {
		name = outcomes.Campaign(n, agent)
	}
	if !wt.tally.Machines(name, wt.cfg.Alarm.Solved, at) || wt.revokes.Take(wt.revokes.AddrKey(n.Addr(), agent), at) > 0 {
		return
	}
	wt.log.Warn().Str("campaign", name.String()).Msg("machines solve: their passes are revoked")
	if err := wt.revoke(n, agent, at); err != nil {
		wt.log.Error().Err(err).Msg("revoke the passes of a campaign")
	}
}
