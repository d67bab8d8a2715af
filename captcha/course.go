package captcha

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/spravka"
)

// who is what a challenge is counted by.
type who struct {
	way, lang, device string
	net               netip.Prefix
	agent             uint64
	shape             string // empty: not known
}

// The devices by which challenges are counted.
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

// who returns what q's challenge is counted by. A partner's request says nothing of its user's browser.
func (c *Captcha) who(q *Request, way string, partner bool) who {
	w := who{way: way, lang: c.language(q, nil).Tag, device: deviceOther, net: q.ID.Net, agent: agentOf(q)}
	if !partner {
		w.device = deviceOf(q.View.Get("User-Agent"))
	}
	return w
}

const (
	loadedKeys  = 1 << 16 // challenges whose picture or sound was sent, remembered so that each counts once
	awaitedMost = 1 << 12 // passes that were earned of late and not used yet; a power of two
)

// noteLoaded counts a challenge whose picture, sound or part is sent, once.
func (c *Captcha) noteLoaded(q *Request, k *key, at time.Time) {
	if k.kind == moveCode || k.kind == movingCode && k.secret[0] > 0 || !c.tally.loaded.Add(k.nonce, at) {
		return
	}
	w := c.who(q, k.way(k.shown()), false)
	w.net = identity.NetOf(k.addr)
	c.count.loaded.Inc()
	c.tally.count(at, &w, ChallengeCount{Loaded: 1})
}

// awaited is a pass that was earned here and has not been used.
type awaited struct {
	id  [16]byte
	who who
	at  time.Time
}

// awaitedTable holds passes by the hash of their ID, which is random; a later one takes the place of an earlier one, which is then
// not counted. Looking one up takes no lock.
type awaitedTable [awaitedMost]atomic.Pointer[awaited]

func (t *awaitedTable) place(id *[16]byte) *atomic.Pointer[awaited] {
	return &t[binary.BigEndian.Uint16(id[:])%awaitedMost]
}

// noteEarned waits for the first use of a pass.
func (c *Captcha) noteEarned(p *spravka.Pass, w *who, at time.Time) {
	c.tally.awaited.place(&p.ID).Store(&awaited{p.ID, *w, at})
}

// CameBack counts the solvers who use their passes for the first time, within an hour: passes are those of a request that goes
// on to its service. It is called for each such request, takes no lock and allocates nothing unless there is something to count.
// Only passes that were earned at this gateway are known.
func (c *Captcha) CameBack(passes []spravka.Pass) {
	for i := range passes {
		place := c.tally.awaited.place(&passes[i].ID)
		a := place.Load()
		if a == nil || a.id != passes[i].ID || !place.CompareAndSwap(a, nil) {
			continue
		}
		at := c.now()
		if at.Sub(a.at) > tallySpan {
			continue
		}
		c.count.returned.Inc()
		c.tally.count(at, &a.who, ChallengeCount{CameBack: 1})
	}
}
