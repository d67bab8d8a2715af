package captcha

import (
	"bytes"
	"context"
	"net/netip"
	"time"

	"antirobot/bounded"
	"antirobot/captcha/outcomes"
	"antirobot/identity"
	"antirobot/spravka"
)

// The devices by which challenges are counted, as in outcomes.Devices.
const (
	deviceDesk   = "desk"
	devicePhone  = "phone"
	deviceTablet = "tablet"
	deviceOther  = "other"
)

// deviceMarks are words of User-Agents, the more telling first: whoever claims to be Android without being mobile is a tablet.
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

// deviceOf returns what a User-Agent says of its device, of its first 512 bytes. An iPad that claims to be a Mac is taken for one.
func deviceOf(agent []byte) string {
	agent = agent[:min(len(agent), 512)]
	for i := range deviceMarks {
		if bytes.Contains(agent, []byte(deviceMarks[i].mark)) {
			return deviceMarks[i].device
		}
	}
	return deviceOther
}

// watch counts the outcomes of challenges, and finds campaigns in them.
type watch struct {
	*core
	pages   *pages
	tally   *outcomes.Tally
	revoke  func(net netip.Prefix, agent uint64, at time.Time) error
	revokes *bounded.Rate // campaigns whose passes were taken back
}

// who returns what q's challenge is counted by. A partner's request says nothing of its user's browser.
func (wt *watch) who(q *Request, shown way, partner bool) outcomes.Who {
	w := outcomes.Who{Way: shown.String(), Language: wt.pages.language(q, nil).Tag, Device: deviceOther, Net: q.ID.Net, Agent: agentOf(q)}
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

// noteTried counts an answer; an empty one, one that was not checked, and one to no key of ours do not count.
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
	w.Net = identity.NetOf(r.key.addr) // whoever answers from elsewhere, the pass is theirs
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

// noteLoaded counts a challenge whose picture, sound or part is sent, once: not the digits beside another step.
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

// CameBack counts the solvers who use their passes for the first time, within an hour: passes are those of a request that goes
// on to its service. It is called for each such request, takes no lock and allocates nothing unless there is something to count.
// Only passes that were earned at this gateway are known.
func (c *Captcha) CameBack(passes []spravka.Pass) {
	if n := c.watch.tally.CameBack(passes, c.now); n > 0 {
		c.count.returned.Add(n)
	}
}

// Challenges returns the outcomes of the challenges of the last hour or two.
func (c *Captcha) Challenges() outcomes.Challenges {
	return c.watch.tally.Challenges(c.now(), c.cfg.Alarm.Solved)
}

// Share exchanges answers with the other gateways of the store until ctx ends: whether machines solve is judged on all of them.
func (c *Captcha) Share(ctx context.Context) {
	c.watch.tally.Share(ctx, c.store, c.now, c.count.failures.Inc)
}
