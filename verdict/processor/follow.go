package processor

import (
	"antirobot/identity"
	"antirobot/verdict"
)

// follow adds an event to the trail of its subject, if the subject has a session already.
func (p *Processor) follow(e *verdict.Event, r *rates, s *session, now whereabouts) {
	if s.pages < 2 || e.Partner || now.framed {
		return
	}
	load := e.Page && (!e.Type.Data() || !e.Claim.Family.Browser()) && (e.Status < 300 || e.Status >= 400 || e.Status == 304)
	if !load && e.Series != 0 {
		p.count(e)
	}
	if now.moved {
		p.shows(e, r)
	}
	if !load {
		return
	}
	p.walk(e, r, now.here)
}

// count is follow for a call with a number: who counts through numbers may do so without opening pages.
func (p *Processor) count(e *verdict.Event) {
	sh, h := p.trails.Lock(e.Subjects[0])
	defer sh.Unlock()
	if t, _ := p.trails.Open(sh, h, e.Subjects[0]); !e.Stopped() {
		t.step(e, false)
	}
}

// walk is follow for a page load; here says that its subject may still be on its last page, so that the same one again is a reload.
func (p *Processor) walk(e *verdict.Event, r *rates, here bool) {
	stopped := e.Stopped()
	sh, h := p.trails.Lock(e.Subjects[0])
	defer sh.Unlock()
	t, _ := p.trails.Open(sh, h, e.Subjects[0])
	t.announced(e)
	if t.reloads(e, here) {
		t.reload(e)
		return
	}
	turned := t.turnsPage(e)
	if !stopped {
		t.step(e, turned)
	}
	got := !stopped && e.Status < 400 // a page, to stay on
	unseen := !t.has(uint32(e.Path))
	if stayed := t.load(e, unseen, turned); stayed == stayed {
		t.dwell.Stay(&r.people.kinds, stayed)
	}
	var kind uint64
	if got {
		kind = e.PathShape
	}
	t.dwell.Open(kind)
}

// trailOf returns a copy of a subject's trail; an empty one if there is none.
func (p *Processor) trailOf(sub identity.Subject) (t trail) {
	sh, h := p.trails.Lock(sub)
	defer sh.Unlock()
	if known := sh.Find(h, sub); known != nil {
		t = *known
	}
	return t
}
