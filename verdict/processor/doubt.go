package processor

import (
	"time"

	"antirobot/verdict"
	"antirobot/verdict/formula"
)

// doubtFor is how long a doubt lasts if nothing more is learnt about its subject.
const doubtFor = time.Hour

// doubt records that a subject may be a robot, and takes that back when its score has sunk. v holds the factors of the
// evaluation.
func (p *Processor) doubt(e *verdict.Event, r *rates, score float32, model *formula.Model, v *vector) {
	doubted := score > r.Unsure && !p.spares(e.Subjects[e.N-1].ID)
	before, ok := p.markDoubt(e, doubted)
	if !ok || !doubted && !before {
		return
	}
	d := verdict.Doubt{Subject: e.Subjects[0], Group: r.Group}
	if doubted {
		x := v.x[:len(factors)]
		d.Until, d.Score = e.At.Add(doubtFor), score
		strongest(&d.Factors, x, model.Explain(v.amounts[:], x))
	}
	p.keeper.Doubt(&d)
}

// markDoubt records in the session whether there is a doubt, and returns whether there was one; false if the subject has
// been here too briefly to be judged.
func (p *Processor) markDoubt(e *verdict.Event, doubted bool) (before, ok bool) {
	sh, h := p.sessions.Lock(e.Subjects[0])
	defer sh.Unlock()
	s := sh.Find(h, e.Subjects[0])
	if s == nil || hasty(s, e.At) {
		return false, false
	}
	before = s.flags&flagDoubted != 0
	s.flags &^= flagDoubted
	if doubted {
		s.flags |= flagDoubted
	}
	return before, true
}

// A score says little of a browser that opens all its tabs at once: it counts once the subject has been here for a moment, or has
// read more than such a browser opens.
const (
	firstLook      = 3 // seconds
	firstDocuments = 32
)

// hasty reports whether it is too early to score a subject.
func hasty(s *session, at time.Time) bool {
	return at.Unix()-int64(s.first) < firstLook && s.documents < firstDocuments
}
