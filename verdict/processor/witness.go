package processor

import (
	"math"

	"antirobot/request"
	"antirobot/verdict"
)

// testimony is what pages have said of the browser of a subject, see request.Evidence. The zero value is that of a
// subject whose pages have said nothing: without a script, that is, or not yet.
type testimony struct {
	actions uint16 // of all kinds
	probes  request.Probes
	kinds   uint8 // one bit for each kind of action
	spread  uint8 // in sixteenths, plus one; 0: unknown
	flags   uint8
}

const (
	testimonyKnown uint8 = 1 << iota
	testimonyLanguage
)

// witness takes what a page says of its browser. It counts as nothing else: it is no page and no call.
func (p *Processor) witness(e *verdict.Event) {
	if !judged(e) || !e.Evidence.Known {
		return
	}
	sh, h := p.sessions.lock(e.Subjects[0])
	defer sh.mu.Unlock()
	s, _ := p.sessions.open(sh, h, e.Subjects[0])
	s.testimony.take(&e.Evidence)
}

// take adds evidence of one more page. What a probe has found once stays.
func (t *testimony) take(e *request.Evidence) {
	t.flags |= testimonyKnown
	if e.Language {
		t.flags |= testimonyLanguage
	}
	t.probes |= e.Probes
	for i, n := range e.Counts {
		t.actions = uint16(min(int(t.actions)+int(n), math.MaxUint16))
		if n > 0 {
			t.kinds |= 1 << i
		}
	}
	if e.Spread >= 0 {
		t.spread = uint8(min(e.Spread*16, 254)) + 1
	}
}

// witnessed makes factors unknown where no page has said anything, and at an address of several clients, of which one
// has.
func witnessed(f func(t *testimony) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if t := &c.s.testimony; t.flags&testimonyKnown != 0 && c.s.agentCount() <= 1 {
			return f(t)
		}
		return nan
	}
}
