package processor

import (
	"antirobot/request"
	"antirobot/verdict"
)

// testimony is what pages have said of the browser of a subject, see request.Evidence. The zero value is that of a
// subject whose pages have said nothing: without a script, that is, or not yet.
type testimony struct {
	probes request.Probes
	known  bool
}

// witness takes what a page says of its browser. It counts as nothing else: it is no page and no call.
func (p *Processor) witness(e *verdict.Event, r *rates) {
	if !judged(e) || !e.Evidence.Known {
		return
	}
	r.fieldsOf(e).Hear(e, p.keeper.IsKnown(e))
	sh, h := p.sessions.Lock(e.Subjects[0])
	defer sh.Unlock()
	s, _ := p.sessions.Open(sh, h, e.Subjects[0])
	s.testimony.take(&e.Evidence)
}

// take adds evidence of one more page. What a probe has found once stays.
func (t *testimony) take(e *request.Evidence) {
	t.known = true
	t.probes |= e.Probes
}

// witnessed makes factors unknown where no page has said anything, and at an address of several clients, of which one
// has.
func witnessed(f func(t *testimony) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if t := &c.s.testimony; t.known && c.s.agentCount() <= 1 {
			return f(t)
		}
		return nan
	}
}

// probed is what a probe has found, unknown where most browsers of the service fail it.
func probed(bit request.Probes) func(*evidence) float32 {
	found := witnessed(func(t *testimony) float32 { return truth(t.probes&bit != 0) })
	return func(c *evidence) float32 {
		if c.lost.Probes&bit != 0 {
			return nan
		}
		return found(c)
	}
}
