package processor

import (
	"sync"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/cohorts"
)

// A pass is a subject of its own, so that whoever earns one begins anew. A robot that answers reads some pages for nothing with each: it is judged
// once there are as many as of somebody who is new. So while nearly all who arrive as a banned client did are robots, from many networks, the next pass
// of that client goes on where the judgement ended, for as long as bans are remembered. Who arrives like nobody else, or where more than robots read,
// begins anew.

const (
	renewalPlaces = 8192
	renewalTries  = 4
	renewalRobots = 0.4 // share of what is read at an address that is robots', at least: one ban says half at first
)

// renewals remembers the last subject of a client of an address that was banned. Where many are, the oldest of a few gives way. Safe for
// concurrent use; the zero value is ready for use.
type renewals struct {
	mu     sync.Mutex
	places *[renewalPlaces]renewal
}

type renewal struct {
	who     uint64 // address and User-Agent
	subject identity.Subject
	many    bool   // it is one of many robots who arrive alike
	at      uint32 // unix seconds
}

// find returns the place of a client; nil if there is none. The caller holds the lock.
func (t *renewals) find(who uint64) *renewal {
	for i := range uint64(renewalTries) {
		if x := t.place(who, i); x.who == who {
			return x
		}
	}
	return nil
}

func (t *renewals) place(who, i uint64) *renewal { return &t.places[(who>>32+i)%renewalPlaces] }

// put records that the subject of an event is banned.
func (t *renewals) put(e *verdict.Event) {
	if e.Subjects[0].Kind.Vouched() || e.Subjects[e.N-1].Kind != identity.KindIP {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.places == nil {
		t.places = new([renewalPlaces]renewal)
	}
	who := cohorts.Client(e)
	x := t.find(who)
	if x == nil {
		x = t.place(who, 0)
		for i := range uint64(renewalTries) {
			if o := t.place(who, i); o.at < x.at {
				x = o
			}
		}
		*x = renewal{who: who}
	}
	x.subject, x.at = e.Subjects[0], uint32(e.At.Unix()) //nolint:gosec // until 2106
}

// last returns a copy of what is remembered of the client of an event; false if it was not banned within so many seconds.
func (t *renewals) last(e *verdict.Event, within int64) (renewal, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.places == nil {
		return renewal{}, false
	}
	x := t.find(cohorts.Client(e))
	if x == nil || e.At.Unix()-int64(x.at) >= within {
		return renewal{}, false
	}
	return *x, true
}

// joins records that a client is one of many.
func (t *renewals) joins(who uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.find(who); x != nil {
		x.many = true
	}
}

// renew lets a pass that is used for the first time go on where its client was banned.
func (p *Processor) renew(e *verdict.Event, r *rates) {
	pass, addr := e.Subjects[0], e.Subjects[e.N-1]
	if pass.Kind != identity.KindSpravka || addr.Kind != identity.KindIP {
		return
	}
	x, ok := p.renewals.last(e, int64(p.cfg.Forget.Seconds()))
	if !ok || x.subject == pass || p.hasRead(pass) {
		return
	}
	if !x.many {
		if p.robotsAt(addr.ID, r, e.At) < renewalRobots || !r.people.cohorts.AreRobots(x.who, e.At.UnixMilli()) {
			return
		}
		p.renewals.joins(x.who)
	}
	p.resume(pass, x.subject)
}

// hasRead reports whether pages of a subject are known.
func (p *Processor) hasRead(sub identity.Subject) bool {
	sh, h := p.sessions.Lock(sub)
	defer sh.Unlock()
	s := sh.Find(h, sub)
	return s != nil && s.pages > 0
}

// resume gives a subject what is known of another one.
func (p *Processor) resume(sub, of identity.Subject) {
	sh, h := p.sessions.Lock(of)
	old := sh.Find(h, of)
	if old == nil {
		sh.Unlock()
		return
	}
	s := *old
	sh.Unlock()
	sh, h = p.sessions.Lock(sub)
	x, _ := p.sessions.Open(sh, h, sub)
	*x = s
	sh.Unlock()
	if t := p.trailOf(of); t.loads > 0 {
		sh, h := p.trails.Lock(sub)
		x, _ := p.trails.Open(sh, h, sub)
		*x = t
		sh.Unlock()
	}
}
