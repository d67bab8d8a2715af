package processor

import (
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/verdict"
	"antirobot/verdict/formula"
)

// doubter is a keeper that records doubts.
type doubter struct {
	bench
	doubts []verdict.Doubt
}

func (d *doubter) Doubt(x *verdict.Doubt) { d.doubts = append(d.doubts, *x) }

// TestDoubtComesAndGoes: a score between the two thresholds is a doubt that says what counted; one that is low again
// takes it back, once; a very young session has none.
func TestDoubtComesAndGoes(t *testing.T) {
	k := &doubter{}
	p := newProcessorFor(t, k, nil)
	know(t, p, []*verdict.Settings{{Name: "shop", Threshold: 0.5, Unsure: 0.3}})
	m, err := formula.Load([]byte("version: x\nbias: -0.6\nfactors: [{name: robots_txt, bins: [{is: 1, weight: -3}]}, {name: pages_1h, bins: [{from: 1, weight: 0.1}]}]"), FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	p.formula = live(t, m, metrics.NewSet())
	e := event(time.Unix(1772700000, 0), 1)
	p.Process(e)
	for range 4 {
		e.At = e.At.Add(evaluateAfter * time.Second)
		p.Process(e)
	}
	if len(k.doubts) == 0 || k.doubts[0].Subject != e.Subjects[0] || k.doubts[0].Until.IsZero() || k.doubts[0].Factors[0].Name != "pages_1h" {
		t.Fatalf("%+v", k.doubts)
	}
	sh, h := p.sessions.Lock(e.Subjects[0])
	sh.Find(h, e.Subjects[0]).flags |= flagRobots
	sh.Unlock()
	k.doubts = nil
	for range 3 {
		e.At = e.At.Add(evaluateAfter * time.Second)
		p.Process(e)
	}
	if len(k.doubts) != 1 || !k.doubts[0].Until.IsZero() {
		t.Errorf("%+v", k.doubts)
	}
}
