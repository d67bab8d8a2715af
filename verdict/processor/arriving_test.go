package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// outside is a page that a browser opens from outside: the n-th visitor, and whether it says where it comes from.
func outside(at time.Time, n int, told bool) *verdict.Event {
	e := event(at, n*256)
	e.Claim, e.Referer, e.Page = client.ParseClaim([]byte(firefox)), client.RefererNone, true
	if told {
		e.Referer = client.RefererForeign
	}
	return e
}

// newcomer7 is the n-th newcomer, in a network of its own, with one browser.
func newcomer7(at time.Time, n int) *verdict.Event {
	e := outside(at, n, false)
	e.Method, e.Agent, e.Shape, e.Language, e.PathShape = 'G', 7, 5, 3, 9
	return e
}

// TestWherePeopleAreMet: a newcomer who loads parts of the page, or answers, is known at its address, until somebody is banned there.
func TestWherePeopleAreMet(t *testing.T) {
	p, keeper := newProcessor(t, nil)
	know(t, p, []*verdict.Settings{{Name: "shop"}})
	r, at := p.service(0), time.Unix(1.8e9, 0)
	reads, answers, withholds := newcomer7(at, 1), newcomer7(at, 2), newcomer7(at, 3)
	p.arrive(reads, r, false)
	p.arrive(withholds, r, false)
	p.arrive(answers, r, false)
	if len(keeper.met) != 0 {
		t.Fatal("whoever arrives is a person")
	}
	part := *reads
	part.Page, part.Referer = false, client.RefererSame
	for range 2 {
		p.loads(&part, r)
	}
	p.answer(answers, r)
	silent := *withholds // the site wants no Referers of its own
	silent.Page, silent.Referer, silent.Site = false, client.RefererNone, client.SiteSame
	for range 2 {
		p.loads(&silent, r)
	}
	for _, e := range []*verdict.Event{reads, answers, withholds} {
		if !keeper.met[e.Subjects[0].ID] {
			t.Errorf("%v is not known", e.Subjects[0])
		}
	}
	p.unmask(reads)
	if keeper.met[reads.Subjects[0].ID] {
		t.Error("the address of a robot is still known as a person's")
	}
}

// TestNothingToTellCostsNothing: pages and parts, of which nothing follows, allocate nothing.
func TestNothingToTellCostsNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p, _ := newProcessor(t, nil)
	know(t, p, []*verdict.Settings{{Name: "shop"}})
	r := p.service(0)
	e := newcomer7(time.Unix(1.8e9, 0), 1)
	p.arrive(e, r, false)
	if n := testing.AllocsPerRun(100, func() {
		p.arrive(e, r, false)
		p.loads(e, r)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
