//go:build !race

package processor

import (
	"fmt"
	"testing"
	"time"

	"antirobot/verdict"
)

// pagesUntilAsked is how many pages are read before the first question.
func pagesUntilAsked(t *testing.T, edit func(*Config), parts int, address func(n int) [16]byte) (int, verdict.Question) {
	t.Helper()
	p, a := newAsker(t, edit)
	at := time.Unix(1.8e9, 0)
	for n := range 20_000 {
		at = at.Add(50 * time.Millisecond)
		p.Process(reading(at, n, address(n)))
		for i := range parts {
			p.Process(picture(reading(at, 1_000_000+n*parts+i, address(n))))
		}
		if len(a.questions) > 0 {
			return n, a.questions[0]
		}
	}
	return 20_000, verdict.Question{}
}

// TestBudgetOfAnAddress: bare pages cost more than pages with their parts, and neither gets anybody banned.
func TestBudgetOfAnAddress(t *testing.T) {
	bare, q := pagesUntilAsked(t, nil, 0, one)
	if bare < 20 || bare > 100 || q.Prefix.Bits != 128 {
		t.Errorf("asked after %d bare pages at %d bits", bare, q.Prefix.Bits)
	}
	known := func(c *Config) { c.Budget.KnownFrom = 0 }
	whole, _ := pagesUntilAsked(t, known, 4, one)
	if whole < 2*bare || whole > 400 {
		t.Errorf("asked after %d whole pages, %d bare ones", whole, bare)
	}
	if n, _ := pagesUntilAsked(t, nil, 4, one); n < 10*whole {
		t.Errorf("asked after %d whole pages where nobody is known yet: an office may be new", n)
	}
}

// TestAddressNearsItsBudget: gateways hear of it once, when half is used, so that its browsers' prefetches cost nothing more.
func TestAddressNearsItsBudget(t *testing.T) {
	p, a := newAsker(t, nil)
	at, nearAfter := time.Unix(1.8e9, 0), 0
	n := 0
	for ; n < 1000 && len(a.questions) == 0; n++ {
		at = at.Add(50 * time.Millisecond)
		p.Process(reading(at, n, one(n)))
		if nearAfter == 0 && len(a.near) > 0 {
			nearAfter = n + 1
		}
	}
	if len(a.near) != 1 || a.near[0].Bits != 128 || nearAfter < n/3 || nearAfter > n*2/3 {
		t.Errorf("near %v after %d of %d pages", a.near, nearAfter, n)
	}
}

// TestBudgetOfANetwork: using another address for each page buys no more than the network's budget.
func TestBudgetOfANetwork(t *testing.T) {
	household, _ := pagesUntilAsked(t, nil, 0, one)
	for bits, at := range map[uint8]int{56: 7, 48: 6, 32: 4} {
		n, q := pagesUntilAsked(t, nil, 0, func(n int) [16]byte {
			id := [16]byte{0x2a, 0x05, 0xd0, 0x14}
			id[at], id[at+1] = byte(n), byte(n>>8)
			if at == 7 {
				id[8] = 0
			}
			return id
		})
		if n > 8*household+16 || q.Prefix.Bits > 64 {
			t.Errorf("/%d: asked after %d pages at %d bits; an address after %d", bits, n, q.Prefix.Bits, household)
		}
	}
}

// TestNamesBuyNothing: User-Agents and cookie jars don't change the budget of an address.
func TestNamesBuyNothing(t *testing.T) {
	p, a := newAsker(t, nil)
	at := time.Unix(1.8e9, 0)
	n := 0
	for ; n < 1000 && len(a.questions) == 0; n++ {
		e := reading(at.Add(time.Duration(n)*time.Second), n, one(n))
		e.Agent = uint64(1 + n)
		e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], cookie(n), 2
		p.Process(e)
	}
	if n > 100 {
		t.Errorf("asked after %d pages under as many names", n)
	}
}

// TestEstablishedAreAskedLast: visitors whom the site knows may keep reading when strangers beside them are asked.
func TestEstablishedAreAskedLast(t *testing.T) {
	p, a := newAsker(t, nil)
	at := time.Unix(1.8e9, 0)
	for n := range 100 {
		p.Process(reading(at.Add(time.Duration(n)*time.Second), n, one(n)))
	}
	if len(a.questions) == 0 || a.questions[0].All {
		t.Fatalf("strangers: %+v", a.questions)
	}
	after := func(stands bool, returned int) int {
		t.Helper()
		p, a = newAsker(t, nil)
		a.stands, a.returned = stands, returned
		for n := range 2000 {
			p.Process(reading(at.Add(time.Duration(n)*time.Second), n, one(n)))
			if len(a.questions) == 0 {
				continue
			}
			if n < 75 || !a.questions[0].All {
				t.Errorf("%d who have come back are asked after %d pages: %+v", returned, n, a.questions)
			}
			return n
		}
		t.Fatalf("%d who have come back are never asked", returned)
		return 0
	}
	if few, many := after(true, 1), after(false, 5); many < 2*few {
		t.Errorf("five who have come back are asked after %d pages, one that is established after %d", many, few)
	}
}

// TestPollIsNoReading: a page whose script polls every three seconds, all day, at forty desks.
func TestPollIsNoReading(t *testing.T) {
	p, a := newAsker(t, nil)
	at := time.Unix(1.8e9, 0)
	for n := range 40 * 1200 * 8 {
		e := reading(at.Add(time.Duration(n)*75*time.Millisecond), 7, one(0))
		e.Page = false
		e.Answered(200, []byte("application/json"), 100, 0)
		p.Process(e)
	}
	if len(a.questions) > 0 {
		t.Errorf("asked: %+v", a.questions[0])
	}
}

// TestFloodChangesNoBaseline: an attacker with a hundred addresses and 300,000 requests changes no baseline.
func TestFloodChangesNoBaseline(t *testing.T) {
	var known people
	at := time.Unix(1.8e9, 0)
	for i := range uint64(20) {
		known.vote(vote{network: i*2 + 1, at: at.Unix(), established: true, value: 5})
		known.met(i*0x9e3779b97f4a7c15, at)
	}
	before, _ := known.usual()
	for n := range 300_000 {
		known.vote(vote{network: uint64(1000+n%100)*2 + 1, at: at.Unix(), value: []float32{0, 12}[n%2]})
	}
	if after, has := known.usual(); after != before || !has {
		t.Errorf("a page of people had %v parts and has %v (%v)", before, after, has)
	}
	if !known.settled(at, 20) {
		t.Error("the site has forgotten its people")
	}
}

// TestBudgetConfig checks that mistakes are reported.
func TestBudgetConfig(t *testing.T) {
	c := defaultBudgetConfig()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Hour, c.Bare, c.MaxNetworks = 1, 0, 1
	if err := c.Validate(); err == nil || len(fmt.Sprint(err)) < 60 {
		t.Error(err)
	}
}
