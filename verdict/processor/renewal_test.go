package processor

import (
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/identity"
	"antirobot/verdict/formula"
)

// harvest is a number of robots that arrive alike, each in a network of its own, and are banned there.
type harvest struct {
	p  *Processor
	at time.Time
}

func newHarvest(t *testing.T, robots int) *harvest {
	t.Helper()
	m, err := formula.Load([]byte("version: t\nbias: 2\nfactors: []\n"), FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	h := &harvest{at: time.Unix(1.8e9, 0)}
	h.p, _ = newProcessor(t, nil)
	h.p.formula = live(t, m, metrics.NewSet())
	for n := range robots {
		h.reads(n, 0, 4)
	}
	return h
}

// reads lets the n-th robot open pages, with the pass of a number, 0: without, and returns its subject.
func (h *harvest) reads(n int, pass byte, pages int) (sub identity.Subject) {
	for range pages {
		h.at = h.at.Add(20 * time.Second)
		e := newcomer7(h.at, n)
		if pass > 0 {
			e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], identity.Subject{Kind: identity.KindSpravka, ID: [16]byte{pass, byte(n)}}, 2
		}
		e.Path, e.PathShape = uint64(h.at.Unix())<<32, 9
		e.Answered(200, []byte("text/html"), 1000, 0)
		h.p.Process(e)
		sub = e.Subjects[0]
	}
	return sub
}

// pages is how many pages are known of a subject.
func (h *harvest) pages(sub identity.Subject) int {
	v, _ := h.p.Session(sub, h.at)
	return int(v.Pages)
}

// TestAPassOfOneOfManyGoesOn: who was banned as one of many who arrive alike does not begin anew with another pass, nor with the
// one after it, hours after the others came; who was banned with two others does, and so does a pass that has been used before.
func TestAPassOfOneOfManyGoesOn(t *testing.T) {
	for robots, known := range map[int]int{12: 4, 2: 0} {
		h := newHarvest(t, robots)
		if got := h.pages(h.reads(1, 1, 1)); got != known+1 {
			t.Errorf("of %d robots: %d pages are known of one with a new pass, want %d", robots, got, known+1)
		}
		h.at = h.at.Add(12 * time.Hour)
		if got := h.pages(h.reads(1, 2, 1)); got != known+known/4+1 {
			t.Errorf("of %d robots: %d pages are known of one with the next pass, want %d", robots, got, known+known/4+1)
		}
	}
	h := newHarvest(t, 1)
	used := h.reads(1, 1, 1)
	for n := range 12 {
		h.reads(n+2, 0, 4)
	}
	if h.reads(1, 0, 4); h.pages(used) != 1 {
		t.Fatalf("%d pages are known of a pass with one", h.pages(used))
	}
	if got := h.pages(h.reads(1, 1, 1)); got != 2 {
		t.Errorf("%d pages are known of a pass with two", got)
	}
}

// TestAPassWhereOthersReadBeginsAnew: at an address where much more is read than by the robot that was banned there, and after bans are forgotten.
func TestAPassWhereOthersReadBeginsAnew(t *testing.T) {
	h := newHarvest(t, 12)
	r := h.p.service(0)
	e := newcomer7(h.at, 1)
	h.p.onBudget(e, r, func(b *budget) { b.docs += 200 })
	if got := h.pages(h.reads(1, 1, 1)); got != 1 {
		t.Errorf("%d pages are known of a new pass of somebody behind a large address", got)
	}
	h.at = h.at.Add(h.p.cfg.Forget + time.Hour)
	if got := h.pages(h.reads(2, 1, 1)); got != 1 {
		t.Errorf("%d pages are known of a new pass of somebody who was banned the day before", got)
	}
}

// TestRenewalsAreBounded: whoever is banned last is remembered, and of the others no more than there is room for.
func TestRenewalsAreBounded(t *testing.T) {
	var r renewals
	at := time.Unix(1.8e9, 0)
	remembered := 0
	for n := range 4 * renewalPlaces {
		e := newcomer7(at.Add(time.Duration(n)*time.Second), n)
		r.put(e)
		if x, ok := r.last(e, 60); !ok || x.subject != e.Subjects[0] {
			t.Fatalf("the last one of %d: %+v, %v", n+1, x, ok)
		}
	}
	for n := range 4 * renewalPlaces {
		if _, ok := r.last(newcomer7(at, n), 1<<30); ok {
			remembered++
		}
	}
	if remembered > renewalPlaces || remembered < renewalPlaces*3/4 {
		t.Errorf("%d are remembered", remembered)
	}
	vouched := event(at, 1, identity.Subject{Kind: identity.KindL, ID: [16]byte{1}})
	if r.put(vouched); func() bool { _, ok := r.last(vouched, 60); return ok }() {
		t.Error("a login is remembered")
	}
}
