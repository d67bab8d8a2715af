package processor

import (
	"math"
	"reflect"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/formula"
	"antirobot/verdict/label"
)

// Shadow is other settings that judge beside those in force, and stop nobody: whom they would newly stop, and whom newly let through,
// is counted.
type Shadow struct {
	Model  *formula.Model         // nil: the one in use
	Places map[uint16]ShadowPlace // by the numbers of their settings; what has none is judged as it is
}

// ShadowPlace is how the settings of a service or a path would judge.
type ShadowPlace struct {
	Threshold float32
	Limits    []verdict.Limit // those with a window of the limits in force are counted
}

// shadow is a Shadow with what was counted.
type shadow struct {
	since  time.Time
	terms  []shadowTerms // by the numbers of settings
	models [2]string     // the versions of the model in force, and of the other one
	model  *formula.Model
	judged atomic.Int64
	of     *table[identity.Subject, shadowed]
}

// shadowTerms are the thresholds and limits of some settings, those in force first.
type shadowTerms struct {
	threshold [2]float32
	limits    [2][verdict.MaxLimits]float32 // pages in the windows of the limits in force
	calls     float32                       // by which they are multiplied for calls
	uncounted bool                          // there is a limit of another window
}

// shadowed is what is known of a subject while a shadow judges.
type shadowed struct {
	visit   Tally // of the other model
	at      uint32
	stopped [2]bool // by the settings in force, and by the others
	pages   uint32  // that would be stopped, or no longer
	score   [2]float32
}

// shadowPart is how many sessions there may be for each subject that a shadow keeps.
const shadowPart = 4

// UseShadow has other settings judge beside those in force from now on; nil ends that. What was counted stays if neither these nor those
// have changed. It is called after other settings or models were put into use.
func (p *Processor) UseShadow(s *Shadow, at time.Time) {
	if s == nil || p.formula == nil {
		p.shadow.Store(nil)
		return
	}
	next := &shadow{since: at, model: s.Model, terms: p.shadowTerms(s)}
	inForce := p.formula.Model()
	if next.model == nil || next.model.Version() == inForce.Version() {
		next.model = nil
		next.models = [2]string{inForce.Version(), inForce.Version()}
	} else {
		next.models = [2]string{inForce.Version(), s.Model.Version()}
	}
	if old := p.shadow.Load(); old != nil && old.models == next.models && reflect.DeepEqual(old.terms, next.terms) {
		return
	}
	next.of = newTable[identity.Subject, shadowed](max(tableShards, p.cfg.MaxSessions/shadowPart), p.sessions.hash).by(p.clock)
	p.shadow.Store(next)
}

func (p *Processor) shadowTerms(s *Shadow) []shadowTerms {
	services := p.services.Load()
	if services == nil {
		return nil
	}
	all := make([]shadowTerms, len(*services))
	for i, r := range *services {
		if r == nil {
			continue
		}
		t := &all[i]
		place, ok := s.Places[uint16(i)] //nolint:gosec // numbers of settings are of that size
		if !ok {
			place = ShadowPlace{r.Threshold, r.Settings.Limits}
		}
		t.threshold, t.calls = [2]float32{r.Threshold, place.Threshold}, max(r.CallFactor, 1)
		found := 0
		for k := range r.limits {
			t.limits[0][k], t.limits[1][k] = float32(r.limits[k].Requests), float32(math.Inf(1))
			for _, l := range place.Limits {
				if l.Window == r.limits[k].Window {
					t.limits[1][k] = min(t.limits[1][k], float32(l.Requests))
					found++
				}
			}
		}
		t.uncounted = found < len(place.Limits)
	}
	return all
}

// termsOf returns the terms by which an event is judged twice; nil if it is not: the gateway itself has answered, and what comes of that
// says nothing about other settings.
func (sh *shadow) termsOf(e *verdict.Event) *shadowTerms {
	if sh == nil || int(e.Service) >= len(sh.terms) || e.Mode == verdict.Enforce && (e.Verdict == verdict.Robot || e.Kind != verdict.EventRequest) {
		return nil
	}
	return &sh.terms[e.Service]
}

// shadowScore compares what the factors of a subject mean under the settings in force, where they came to score, and under the others.
func (p *Processor) shadowScore(e *verdict.Event, s *session, score float32, x []float32) {
	sh := p.shadow.Load()
	t := sh.termsOf(e)
	if t == nil {
		return
	}
	sh.judged.Add(1)
	scores := [2]float32{score, score}
	if sh.model != nil {
		scores[1] = sh.weigh(&p.cfg.Visit, e, s, x)
	}
	var over [2]bool
	for i := range over {
		bar, ripe := p.bar(s, t.threshold[i], e.At)
		over[i] = ripe && scores[i] > bar
	}
	if (over[0] || over[1]) && !p.spares(e.Subjects[e.N-1].ID) {
		sh.note(e, e.Subjects[0], over, scores)
	}
}

// weigh returns the score of a visit under the other model, and keeps it.
func (sh *shadow) weigh(cfg *VisitConfig, e *verdict.Event, s *session, x []float32) float32 {
	shard, h := sh.of.lock(e.Subjects[0])
	defer shard.mu.Unlock()
	of, _ := sh.of.open(shard, h, e.Subjects[0])
	of.at = uint32(e.At.Unix())
	return of.visit.add(cfg, sh.model, sh.model.Raw(x), s.pages, e.At)
}

// shadowPace compares the counts of a subject's pages, or calls, with the limits in force and with the others.
func (p *Processor) shadowPace(k paceKey, sub identity.Subject, e *verdict.Event, s *session, seen *[verdict.MaxLimits]float32, limits int) {
	sh := p.shadow.Load()
	t := sh.termsOf(e)
	if t == nil {
		return
	}
	factor, times := float32(1), float32(0)
	if k.calls {
		factor = t.calls
	}
	var over [2]bool
	for i := range limits {
		for way := range over {
			if most := t.limits[way][i] * factor; seen[i] > most {
				if times == 0 {
					times = p.times(k, s.agentCount(), e.Subjects[e.N-1].ID)
				}
				over[way] = over[way] || seen[i] > most*times
			}
		}
	}
	if (over[0] || over[1]) && !p.spares(e.Subjects[e.N-1].ID) {
		sh.note(e, sub, over, [2]float32{})
	}
}

// note records by which settings a subject would be stopped now, and its scores.
func (sh *shadow) note(e *verdict.Event, sub identity.Subject, over [2]bool, scores [2]float32) {
	shard, h := sh.of.lock(sub)
	defer shard.mu.Unlock()
	of, _ := sh.of.open(shard, h, sub)
	of.at = uint32(e.At.Unix())
	for i := range over {
		of.stopped[i] = of.stopped[i] || over[i]
		of.score[i] = max(of.score[i], scores[i])
	}
}

// shadowPage counts a request of a subject for whom the shadow makes a difference.
func (p *Processor) shadowPage(e *verdict.Event) {
	sh := p.shadow.Load()
	if sh == nil {
		return
	}
	free := e.Verdict == verdict.Robot && (e.Cause == verdict.CauseBan || e.Cause == verdict.CauseDoubt)
	if !free && e.Verdict == verdict.Robot {
		return
	}
	for _, sub := range [...]identity.Subject{e.Subjects[0], e.Subjects[e.N-1]} {
		shard, h := sh.of.lock(sub)
		of := shard.find(h, sub)
		counts := of != nil && of.stopped[0] == free && of.stopped[1] != free
		if counts {
			inc(&of.pages)
		}
		shard.mu.Unlock()
		if counts {
			return
		}
	}
}

// sweep forgets subjects that are long gone and for whom nothing would differ.
func (sh *shadow) sweep(now int64) {
	if sh != nil {
		sh.of.sweep(func(_ identity.Subject, s *shadowed) bool {
			return s.stopped[0] == s.stopped[1] && now-int64(s.at) > sessionIdle
		})
	}
}

// ShadowCount is what a shadow has judged.
type ShadowCount struct {
	Since     time.Time
	Model     string // the version of the model
	Judged    int64  // evaluations, each made twice
	Both      int    // subjects that are stopped either way
	Full      bool   // some subjects had to be forgotten
	Uncounted bool   // a limit has a window that no limit in force has: it stops nobody here
}

// Shadowed is a subject for whom the shadow makes a difference.
type Shadowed struct {
	Subject identity.Subject
	Free    bool       // it is stopped, and would not be; otherwise the reverse
	Score   [2]float32 // the highest, with the settings in force and with the others
	Pages   uint32     // requests that would be stopped, or no longer
	Solved  bool       // it has solved a challenge
	Mark    label.Mark // what is said of it
}

// Shadowed calls f with each subject for whom the shadow makes a difference; false if no shadow judges.
func (p *Processor) Shadowed(f func(s *Shadowed)) (c ShadowCount, ok bool) {
	sh := p.shadow.Load()
	if sh == nil {
		return c, false
	}
	c = ShadowCount{Since: sh.since, Model: sh.models[1], Judged: sh.judged.Load(), Full: sh.of.evicted.Load() > 0}
	for i := range sh.terms {
		c.Uncounted = c.Uncounted || sh.terms[i].uncounted
	}
	var all []Shadowed
	sh.of.all(func(sub identity.Subject, s *shadowed) {
		switch {
		case s.stopped[0] != s.stopped[1]:
			all = append(all, Shadowed{Subject: sub, Free: s.stopped[0], Score: s.score, Pages: s.pages})
		case s.stopped[0]:
			c.Both++
		}
	})
	for i := range all {
		s := &all[i]
		shard, h := p.sessions.lock(s.Subject)
		if known := shard.find(h, s.Subject); known != nil {
			s.Solved = known.solved > 0
		}
		shard.mu.Unlock()
		if p.labels != nil {
			s.Mark = p.labels.Of(s.Subject)
		}
		f(s)
	}
	return c, true
}
