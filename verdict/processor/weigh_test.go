package processor

import (
	"math"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/verdict/formula"
)

// TestVisitAddsUp: one odd moment of a long visit is no verdict, the same score at every moment is one; weak evidence
// takes more pages than strong; a subject that was away for days starts over.
func TestVisitAddsUp(t *testing.T) {
	card := func(text string) *formula.Model {
		m, err := formula.Load([]byte("version: t\nbias: -4\nfactors: "+text+"\n"), FactorNames())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	p, b := newProcessor(t, nil)
	calm, odd := card("[]"), card("[{name: session_pages, bins: [{from: 1, weight: 6}]}]")
	inUse := live(t, calm, metrics.NewSet())
	p.formula = inUse
	at := time.Unix(1.8e9, 0)
	pages := func(n int, gap time.Duration) {
		for range n {
			at = at.Add(gap)
			p.Process(event(at, 1))
		}
	}
	const slow = 20 * time.Second // each page triggers an evaluation
	pages(100, slow)
	change(t, inUse, odd)
	pages(5, slow)
	change(t, inUse, calm)
	pages(20, slow)
	if len(b.bans) != 0 {
		t.Fatalf("a moment of a long visit is a verdict: %v", b.bans)
	}
	change(t, inUse, odd)
	pages(60, slow)
	if len(b.bans) == 0 {
		t.Fatal("an odd visit is none")
	}
	until := func(weight string) (n int) {
		p, b := newProcessor(t, nil)
		p.formula = live(t, card("[{name: session_pages, bins: [{from: 1, weight: "+weight+"}]}]"), metrics.NewSet())
		for n = 1; len(b.bans) == 0 && n < 200; n++ {
			at = at.Add(slow)
			p.Process(event(at, 2))
		}
		return n
	}
	if strong, weak := until("9"), until("4.5"); strong > 4 || weak < 2*strong || weak > 60 {
		t.Errorf("strong evidence needs %d pages, weak %d", strong, weak)
	}
	s := session{pages: 50, weight: 3, span: 49, judgedAt: 49, weighedAt: uint32(at.Unix())}
	soon, _ := s.weigh(&p.cfg.Visit, calm, 3, at.Add(time.Minute))
	late, span := s.weigh(&p.cfg.Visit, calm, 3, at.Add(96*time.Hour))
	if fresh := float32(-4 + 7*(1-math.Exp(-1/1.5))); soon != 3 || late > fresh+0.01 || span > 1.1 {
		t.Errorf("after a minute %v, after four days %v of %v pages", soon, late, span)
	}
}
