package processor

import (
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/formula"
)

const (
	byPages = "version: a\nbias: -4\nfactors: [{name: session_pages, bins: [{from: 4, below: 16, weight: 4.85}, {from: 16, weight: 9}]}]"
	strict  = "version: b\nbias: -4\nfactors: [{name: session_pages, bins: [{from: 2, weight: 9}]}]"
)

// shadowWorld is a processor whose card scores 0.7 from the fourth page on, and 0.99 from the sixteenth.
type shadowWorld struct {
	t  *testing.T
	p  *Processor
	at time.Time
}

func newShadowWorld(t *testing.T) *shadowWorld {
	w := &shadowWorld{t: t, at: time.Unix(1772700000, 0)}
	w.p = newProcessorFor(t, &bench{}, func(c *Config) { c.Visit.Most, c.Visit.Least = 0, 0 })
	w.p.formula = live(t, w.model(byPages), metrics.NewSet())
	w.inForce(0.9)
	return w
}

func (w *shadowWorld) model(card string) *formula.Model {
	m, err := formula.Load([]byte(card), FactorNames())
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *shadowWorld) inForce(threshold float32) {
	know(w.t, w.p, []*verdict.Settings{{Name: "shop", Threshold: threshold, Limits: []verdict.Limit{{Window: time.Minute, Requests: 300, Ban: time.Hour}}}})
}

func (w *shadowWorld) beside(threshold float32, model *formula.Model, limits ...verdict.Limit) {
	w.p.UseShadow(&Shadow{Model: model, Places: map[uint16]ShadowPlace{0: {threshold, limits}}}, w.at)
}

// pages sends pages of a visitor, a second apart.
func (w *shadowWorld) pages(n, count int, v verdict.Verdict) {
	for range count {
		e := event(w.at, n)
		if e.Verdict = v; v == verdict.Robot {
			e.Cause = verdict.CauseBan
		}
		w.p.Process(e)
		w.at = w.at.Add(time.Second)
	}
}

// differ returns those for whom the shadow makes a difference.
func (w *shadowWorld) differ() (map[identity.Subject]Shadowed, ShadowCount) {
	w.t.Helper()
	all := map[identity.Subject]Shadowed{}
	c, ok := w.p.Shadowed(func(s *Shadowed) { all[s.Subject] = *s })
	if !ok {
		w.t.Fatal("no shadow judges")
	}
	return all, c
}

func who(n int) identity.Subject { return event(time.Time{}, n).Subjects[0] }

// TestShadowCountsWhoDiffers: a lower threshold beside the one in force stops whom that lets through, and counts the requests from then
// on; who is stopped either way is not among them, and what was counted outlives a reload that changes nothing.
func TestShadowCountsWhoDiffers(t *testing.T) {
	w := newShadowWorld(t)
	if _, ok := w.p.Shadowed(nil); ok {
		t.Error("a shadow judges that nobody asked for")
	}
	limit := verdict.Limit{Window: time.Minute, Requests: 300}
	w.beside(0.5, nil, limit)
	w.pages(1, 10, verdict.Human)
	w.pages(2, 40, verdict.Human)
	w.pages(3, 3, verdict.Human)
	solved := event(w.at, 1)
	solved.Kind, solved.Mode = verdict.EventSolved, verdict.Observe
	w.p.Process(solved)
	w.beside(0.5, nil, limit)
	all, c := w.differ()
	s := all[who(1)]
	if len(all) != 1 || s.Free || s.Pages != 6 || !s.Solved || s.Score != [2]float32{s.Score[0], s.Score[0]} || s.Score[0] < 0.69 || s.Score[0] > 0.71 {
		t.Errorf("%+v", all)
	}
	if c.Both != 1 || c.Judged == 0 || c.Full || c.Uncounted || c.Model != "a" && c.Model[:2] != "a-" {
		t.Errorf("%+v", c)
	}
	w.inForce(0.8) // the same shadow means something else now
	w.beside(0.5, nil, limit)
	if all, c := w.differ(); len(all) != 0 || c.Judged != 0 {
		t.Errorf("%+v, %+v", all, c)
	}
	w.p.UseShadow(nil, w.at)
	if _, ok := w.p.Shadowed(nil); ok {
		t.Error("the shadow has not ended")
	}
}

// TestShadowFrees: who is stopped and would not be is newly free; what they do once they are stopped, such as ignoring the challenge,
// does not count against them.
func TestShadowFrees(t *testing.T) {
	w := newShadowWorld(t)
	w.inForce(0.5)
	w.beside(0.9, nil, verdict.Limit{Window: time.Minute, Requests: 300})
	w.pages(1, 5, verdict.Human)
	w.pages(1, 40, verdict.Robot)
	if all, _ := w.differ(); len(all) != 1 || !all[who(1)].Free || all[who(1)].Pages != 40 {
		t.Errorf("%+v", all)
	}
}

// TestShadowOfModelAndLimits: another model adds up visits of its own, a lower limit stops by the same counts, and one of a window that
// is not counted is named.
func TestShadowOfModelAndLimits(t *testing.T) {
	w := newShadowWorld(t)
	w.beside(0.9, w.model(strict), verdict.Limit{Window: time.Minute, Requests: 300})
	w.pages(1, 3, verdict.Human)
	all, c := w.differ()
	if s := all[who(1)]; len(all) != 1 || s.Free || s.Score[0] > 0.1 || s.Score[1] < 0.9 || c.Model != w.model(strict).Version() {
		t.Errorf("%+v, %+v", all, c)
	}
	w.beside(0.9, nil, verdict.Limit{Window: time.Minute, Requests: 10}, verdict.Limit{Window: 5 * time.Minute, Requests: 3})
	w.pages(2, 10, verdict.Human)
	if all, c := w.differ(); len(all) != 0 || !c.Uncounted {
		t.Errorf("%+v, %+v", all, c)
	}
	w.pages(2, 2, verdict.Human)
	if all, _ := w.differ(); len(all) != 1 || all[who(2)].Free || all[who(2)].Pages != 1 {
		t.Errorf("%+v", all)
	}
}
