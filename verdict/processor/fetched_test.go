package processor

import (
	"fmt"
	"math"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// part requests a part of a page with an answer of this status.
func (w *walk) part(path string, status uint16, agent uint64) {
	w.at = w.at.Add(50 * time.Millisecond)
	e := event(w.at, w.n, w.subs...)
	e.Page, e.Static, e.Type, e.Method, e.Status, e.Agent = false, true, verdict.TypePart, 'G', status, agent
	e.Path, e.Target = hashPath(path), hashPath(path)
	e.Claim, e.Mode = client.ParseClaim([]byte(firefox)), verdict.Enforce
	w.p.Process(e)
}

// reading loads pages that share four parts and have one of their own; kept says that the client's cache has the shared ones
// once it has loaded them.
func (w *walk) reading(pages int, kept bool, after time.Duration, status uint16) {
	for i := range pages {
		w.load(fmt.Sprint("/item/", i), "", after)
		for k := range 4 {
			if i == 0 || !kept {
				w.part(fmt.Sprint("/static/", k), status, 1)
			}
		}
		w.part(fmt.Sprint("/pictures/", i), 200, 1)
	}
}

func (w *walk) again() float32 {
	e := event(w.at, w.n, w.subs...)
	r := w.p.service(0)
	c := evidence{e: e, t: w.p.trailOf(e.Subjects[0]), usual: r.people.told(), again: r.people.again()}
	return partsAgain(&c)
}

// TestPartsAgain: who begins anew with each page loads the parts again that others have kept. Nothing is said of that before it is known
// what people do, nor where people do it too; and it is none to ask whether a part has changed, to come back hours later, to load one
// that renews itself, or to share an address with somebody who has another browser.
func TestPartsAgain(t *testing.T) {
	for _, site := range []struct {
		keeps bool // lets browsers keep parts
		fresh float32
	}{{true, 4 / 1.5}, {false, 0}} {
		p := newProcessorFor(t, &villager{}, nil)
		at := time.Unix(1.8e9, 0)
		first := &walk{p: p, n: 1, at: at}
		first.reading(12, false, time.Minute, 200)
		if got := first.again(); got == got {
			t.Errorf("keeps %v: %.2f before anybody is known", site.keeps, got)
		}
		for i := range 20 {
			w := &walk{p: p, n: 1000 + 256*i, at: at, subs: []identity.Subject{cookie(i)}}
			w.reading(8, site.keeps, time.Minute, 200)
		}
		at = at.Add(15 * time.Minute)
		new := func(n int) *walk { return &walk{p: p, n: n, at: at} }
		fresh, person, asks, returns, renews, two := new(2), new(3), new(4), new(5), new(6), new(7)
		fresh.reading(12, false, time.Minute, 200)
		person.reading(12, true, time.Minute, 200)
		asks.reading(12, false, time.Minute, 304)
		returns.reading(12, false, 2*time.Hour, 200)
		for i := range 4 {
			renews.load(fmt.Sprint("/item/", i), "", 10*time.Minute)
			for range 40 {
				renews.part(fmt.Sprint("/camera/", i), 200, 1)
			}
			two.load(fmt.Sprint("/item/", i), "", time.Minute)
			if i < 2 {
				two.part("/static/1", 200, uint64(1+i))
			}
		}
		if got := fresh.again(); math.Abs(float64(got-site.fresh)) > 0.3 {
			t.Errorf("keeps %v: who begins anew with each page: %.2f, want %.2f", site.keeps, got, site.fresh)
		}
		c := evidence{e: &verdict.Event{Advised: true}, t: p.trailOf(event(at, 2).Subjects[0]), usual: 2, again: 0}
		if got := partsAgain(&c); got == got {
			t.Errorf("behind a balancer: %.2f", got)
		}
		for name, w := range map[string]*walk{"a person": person, "asks": asks, "returns": returns, "renews": renews, "two": two} {
			if got := w.again(); got != 0 {
				t.Errorf("keeps %v: %s: %.2f", site.keeps, name, got)
			}
		}
	}
}

// TestStrangersDoNotDecideWhatIsLoadedAgain: robots that load everything again make nobody used to that who is known.
func TestStrangersDoNotDecideWhatIsLoadedAgain(t *testing.T) {
	var p people
	vote := func(n int, established bool, value float32) {
		p.voteMedian(&p.repeats, &p.repeatsOf, vote{network: uint64(n)*0x9e3779b97f4a7c15 | 1, at: 1.8e9, established: established, value: value})
	}
	for i := range fewVotes - 1 {
		vote(i, true, 0)
	}
	if got := p.again(); got == got {
		t.Errorf("known after %d networks: %v", fewVotes-1, got)
	}
	vote(fewVotes, true, 0)
	for i := range 1000 {
		vote(100+i, false, 5)
	}
	if got := p.again(); got != 0 {
		t.Errorf("people load %v parts again, say strangers", got)
	}
}
