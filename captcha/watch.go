package captcha

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	"antirobot/bounded"
	"antirobot/captcha/outcomes"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
)

// AlarmConfig says when a network appears to solve by machine.
type AlarmConfig struct {
	// Solved is the least number of right answers that a network gives within the hour or two.
	Solved int64 `mapstructure:"solved"`
	// Revoke revokes the passes of a campaign while it goes on: of a kind of browser in a network, and the quick
	// answers of a shape.
	Revoke bool `mapstructure:"revoke"`
}

// quickAnswer is the time within which people cannot read and type the digits.
const quickAnswer = 2500 * time.Millisecond

// The devices of outcomes.Devices.
const (
	deviceDesk   = "desk"
	devicePhone  = "phone"
	deviceTablet = "tablet"
	deviceOther  = "other"
)

// deviceMarks are words of User-Agents, the more telling first.
var deviceMarks = []struct{ mark, device string }{
	{"iPad", deviceTablet},
	{"Tablet", deviceTablet},
	{"Mobile", devicePhone},
	{"iPhone", devicePhone},
	{"iPod", devicePhone},
	{"Opera Mini", devicePhone},
	{"Android", deviceTablet},
	{"Windows", deviceDesk},
	{"Macintosh", deviceDesk},
	{"CrOS", deviceDesk},
	{"X11", deviceDesk},
	{"Linux", deviceDesk},
}

// deviceOf returns the device in the first 512 bytes of a User-Agent. An iPad that claims to be a Mac counts as one.
func deviceOf(agent []byte) string {
	agent = agent[:min(len(agent), 512)]
	for i := range deviceMarks {
		if bytes.Contains(agent, []byte(deviceMarks[i].mark)) {
			return deviceMarks[i].device
		}
	}
	return deviceOther
}

// watch counts the outcomes of challenges, and finds campaigns in them: kinds of browser in a network, or shapes of
// clients in all networks, that appear to solve by machine. Their passes are worth the floor, and can be revoked by
// the operator or by rule (AlarmConfig.Revoke). People share shapes with machines, so only a shape's quick answers
// are affected.
type watch struct {
	*core
	pages   *pages
	tally   *outcomes.Tally
	revoke  func(net netip.Prefix, agent uint64, at time.Time) error
	revokes *bounded.Rate // campaigns whose passes were taken back
}

func (wt *watch) who(q *Request, shown way, partner bool) outcomes.Who {
	w := outcomes.Who{
		Way: shown.String(), Language: wt.pages.language(q, nil).Tag, Device: deviceOther, Net: q.ID.Net,
		Agent: agentOf(q),
	}
	if !partner {
		w.Device = deviceOf(q.View.Get("User-Agent"))
	}
	return w
}

func (wt *watch) noteShown(q *Request, shown way, at time.Time) {
	w := wt.who(q, shown, q.Partner != nil) // without a shape: who only looks sends other fields
	more := outcomes.Count{Shown: 1}
	if shown == wayWork { // which the script of a loaded page asks for
		more.Loaded = 1
	}
	wt.tally.Count(at, &w, more)
}

// noteTried counts an answer, unless it is empty, unchecked, or to no key of ours.
func (wt *watch) noteTried(q *Request, r *result, at time.Time) {
	if !r.opened || r.key.kind == moveCode {
		return
	}
	switch r.state {
	case stateSolved, stateFailed, stateUsed:
	default:
		return
	}
	w := wt.who(q, r.key.way, q.Partner != nil || r.key.partner != 0)
	w.Net = identity.NetOf(r.key.addr) // the network that the pass belongs to
	w.Shape = shapeOf(q)
	if r.key.partner != 0 {
		w.Agent, w.Shape = 0, 0
	} else if r.quick() {
		defer wt.noteCampaign(netip.Prefix{}, shapeOf(q), at)
	}
	defer wt.noteCampaign(w.Net, w.Agent, at)
	more := outcomes.Count{Tried: 1}
	if r.state == stateSolved {
		wt.tally.Earned(&r.pass.ID, &w, at)
		more.Solved, more.Times = 1, outcomes.Took(r.took)
		if r.quick() {
			more.Quick = 1
		}
	}
	wt.tally.Count(at, &w, more)
}

// noteLoaded counts a challenge once when its picture, sound or part is sent: not the digits next to another step.
func (wt *watch) noteLoaded(q *Request, k *key, at time.Time) {
	beside := k.kind == digitsCode && k.way > wayXML
	if beside || k.kind == moveCode || k.kind == movingCode && k.secret[0] > 0 || !wt.tally.Loads(k.nonce, at) {
		return
	}
	w := wt.who(q, k.way, false)
	w.Net = identity.NetOf(k.addr)
	wt.count.loaded.Inc()
	wt.tally.Count(at, &w, outcomes.Count{Loaded: 1})
}

// shapeOf is the hash of a client's handshake, header fields and kind of browser; never 0.
func shapeOf(q *Request) uint64 {
	b := append(make([]byte, 0, 512), q.View.JA4...)
	b = append(append(b, 0), q.View.Frames...)
	for i := range q.View.Fields {
		switch name := q.View.Fields[i].Name; {
		case request.EqualFold(name, "Cookie"),
			request.EqualFold(name, "X-Forwarded-For"): // not of the client's making
		default:
			b = request.AppendLower(append(b, 0), name)
		}
	}
	return max(1, request.Hash(binary.BigEndian.AppendUint64(b, agentOf(q))))
}

func (wt *watch) isShaped(q *Request, k *key, at time.Time) bool {
	return k.partner == 0 && wt.tally.Machines(outcomes.Shape(shapeOf(q)), wt.cfg.Alarm.Solved, at)
}

func (wt *watch) isCampaign(n netip.Prefix, agent uint64, at time.Time) bool {
	return wt.tally.Machines(outcomes.Campaign(n, agent), wt.cfg.Alarm.Solved, at)
}

const revokeEvery = time.Minute

// noteCampaign revokes, if so configured, the passes of a campaign: a kind of browser in a network, or with the zero
// Prefix the quick answers of a shape.
func (wt *watch) noteCampaign(n netip.Prefix, agent uint64, at time.Time) {
	if !wt.cfg.Alarm.Revoke || wt.revoke == nil || agent == 0 {
		return
	}
	name := outcomes.Shape(agent)
	if n.IsValid() {
		name = outcomes.Campaign(n, agent)
	}
	if !wt.tally.Machines(name, wt.cfg.Alarm.Solved, at) ||
		wt.revokes.Take(wt.revokes.AddrKey(n.Addr(), agent), at) > 0 {
		return
	}
	wt.log.Warn().Str("campaign", name.String()).Msg("machines solve: their passes are revoked")
	if err := wt.revoke(n, agent, at); err != nil {
		wt.log.Error().Err(err).Msg("revoke the passes of a campaign")
	}
}

// CameBack counts the solvers who use their passes for the first time, within an hour: passes are those of a request
// that goes on to its service. It takes no lock and allocates nothing unless there is something to count. Only passes
// that were earned at this gateway are known.
func (c *Captcha) CameBack(passes []spravka.Pass) {
	if n := c.watch.tally.CameBack(passes, c.now); n > 0 {
		c.count.returned.Add(n)
	}
}

// Challenges returns the outcomes of the challenges of the last hour or two.
func (c *Captcha) Challenges() outcomes.Challenges {
	return c.watch.tally.Challenges(c.now(), c.cfg.Alarm.Solved)
}

// Share exchanges answers with the other gateways of the store until ctx ends: campaigns are recognized across all of
// them.
func (c *Captcha) Share(ctx context.Context) {
	c.watch.tally.Share(ctx, c.store, c.now, c.count.failures.Inc)
}
