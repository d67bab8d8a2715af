package processor

import (
	"math"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// evaluateAfter is how many seconds after an evaluation the next page triggers another, whatever the number of pages.
const evaluateAfter = 15

// due reports whether the subject should be evaluated with this page: with the second, fourth, eighth and so on, when
// some time has passed since the last evaluation, and when patience ends with this page.
func (s *session) due(e *verdict.Event, ripe bool) bool {
	return s.pages >= 2 && (s.pages >= s.nextEval || uint32(e.At.Unix())-s.evalAt >= evaluateAfter || ripe)
}

// plan records that the subject is being evaluated.
func (s *session) plan(e *verdict.Event) {
	s.evalAt = uint32(e.At.Unix())
	if s.pages >= s.nextEval {
		s.nextEval = uint32(min(2*uint64(s.pages), math.MaxUint32))
	}
}

// fill adds what memory holds about the company of an event.
func (p *Processor) fill(c *evidence, r *rates) {
	c.usual = r.people.told()
	c.t = p.trailOf(c.e.Subjects[0])
	c.settled = p.keeper.KnownAt(c.e.Subjects[c.e.N-1].ID)
	c.lost = r.fieldsOf(c.e).Lost(c.e.At.Unix())
}

// scores reports whether evaluations have a reader.
func (p *Processor) scores() bool {
	return p.formula.Scores() || p.observer != nil || p.training != nil || p.learner != nil
}

// evaluate scores the subject by the operator's formula, and bans it if the score exceeds the threshold of the service. A program
// that does not lie is limited instead.
func (p *Processor) evaluate(e *verdict.Event, r *rates, s *session) {
	if e.Partner || !p.scores() {
		return
	}
	p.evaluations.Inc()
	v := p.vectors.Get().(*vector)
	defer p.vectors.Put(v)
	v.scene = evidence{e: e, s: *s}
	p.fill(&v.scene, r)
	x := v.measure(false)
	v.scene.e = nil
	p.teach(e, r, s, x)
	score, model := p.formula.Score(x, r.Threshold)
	if p.training != nil && !e.Again {
		p.training.Observe(e.Subjects[0], e.Service, e.At, x, score)
	}
	if p.observer != nil {
		p.observer(e.Subjects[0], e.Service, e.At, x, score)
	}
	if model == nil {
		return
	}
	p.keepScore(e.Subjects[0], score)
	if !mayBeBanned(e, s) {
		return
	}
	if hasty(s, e.At) || !(score > r.Threshold) {
		p.doubt(e, r, score, model, v)
		return
	}
	length, ok := p.nextBan(e, r, score)
	if !ok {
		p.doubt(e, r, score, model, v)
		return
	}
	b := bans.Ban{
		Subject: e.Subjects[0], Until: e.At.Add(length), Made: e.At, Source: bans.SourceProcessor,
		Score: score, Threshold: r.Threshold, Model: model.Version(),
	}
	strongest(&b.Factors, x, model.Explain(v.amounts[:], x))
	b.Reason = reason(&b.Factors)
	p.ban(b, e)
}

// keepScore records the score of a subject.
func (p *Processor) keepScore(sub identity.Subject, score float32) {
	sh, h := p.sessions.Lock(sub)
	defer sh.Unlock()
	if s := sh.Find(h, sub); s != nil {
		s.score = score
	}
}

// nextBan returns the length of the ban for this score; false if there is none.
func (p *Processor) nextBan(e *verdict.Event, r *rates, score float32) (time.Duration, bool) {
	if p.spares(e.Subjects[e.N-1].ID) {
		p.spare(e.Subjects[0], e.At)
		return 0, false
	}
	sh, h := p.sessions.Lock(e.Subjects[0])
	defer sh.Unlock()
	s := sh.Find(h, e.Subjects[0])
	if s == nil {
		return 0, false
	}
	length, ok := s.lastBan.next(e.At, p.growth(p.cfg.Ban, e))
	if !ok && !(s.bannedScore > r.Threshold) {
		length, ok = s.lastBan.ahead(e.At), true // the ban that is left holds elsewhere only
	}
	if ok {
		s.bannedScore, s.score = score, score
		s.flags &^= flagForged | flagDecoy // each deed leads to one ban
	}
	return length, ok
}

// strongest sets dst, which is empty, to the factors that contributed most to a score.
func strongest(dst *[bans.MaxFactors]bans.Factor, x, amounts []float32) {
	last := len(dst) - 1
	for i, a := range amounts[:len(x)] {
		if !(a > dst[last].Amount) || math.IsNaN(float64(x[i])) || math.IsInf(float64(x[i]), 0) {
			continue
		}
		n := last
		for ; n > 0 && a > dst[n-1].Amount; n-- {
			dst[n] = dst[n-1]
		}
		dst[n] = bans.Factor{Name: factors[i].Name, Value: x[i], Amount: a}
	}
}

// reason names the factors of a ban.
func reason(of *[bans.MaxFactors]bans.Factor) string {
	text := "formula"
	for i := range of {
		if of[i].Name != "" {
			text += [...]string{": ", ", ", ", "}[min(i, 2)] + of[i].Name
		}
	}
	return text
}

// Score implements verdict.Scorer, before the answer and before the event: the score of the cheap factors, or 1 if the
// subject is over a limit at this moment, before its ban has been made or after the table of bans lost it. The current
// request is not counted yet: it becomes an event later.
func (p *Processor) Score(d *verdict.Decision, v *request.View, id *identity.Identity, s *verdict.Settings) float32 {
	r := p.service(s.Index)
	if r == nil || id.N == 0 {
		return 0
	}
	winner, addr := id.Subjects[0], id.Subjects[id.N-1]
	if p.spares(addr.ID) {
		return 0
	}
	sh, h := p.sessions.Lock(winner)
	var known session
	if k := sh.Find(h, winner); k != nil {
		known = *k
	}
	sh.Unlock()
	known.fade(v.At)
	for _, calls := range [...]bool{false, true} {
		if p.over(paceKey{role: roleSubject, kind: winner.Kind, service: s.Index, id: winner.ID, calls: calls}, addr.ID, v.At, r, known.agentCount()) {
			return 1
		}
		if winner.Kind != identity.KindIP && !winner.Kind.Vouched() &&
			p.over(paceKey{role: roleCrowd, service: s.Index, id: addr.ID, calls: calls}, addr.ID, v.At, r, 1) {
			return 1
		}
	}
	w := p.vectors.Get().(*vector)
	defer p.vectors.Put(w)
	e := &w.event
	if d.Event(e, v, id, s); !mayBeBanned(e, &known) {
		return 0
	}
	if f := p.facts(e, r, &known); f.Of() != nil {
		return 1
	}
	m := p.formula.Model()
	if m == nil {
		return 0
	}
	w.scene = evidence{e: e, s: known}
	p.fill(&w.scene, r)
	x := w.measure(true)
	w.scene.e = nil
	return m.Score(x)
}

func (p *Processor) over(k paceKey, addr [16]byte, at time.Time, r *rates, agents int) bool {
	var seen [verdict.MaxLimits]float32
	limits := r.limitsOf(k)
	total, ok := p.paces.read(k, at, limits, &seen)
	if !ok || total <= 2 {
		return false
	}
	for i := range limits {
		if n := float32(limits[i].Requests); seen[i] > n && seen[i] > n*p.times(k, agents, addr) {
			return true
		}
	}
	return false
}
