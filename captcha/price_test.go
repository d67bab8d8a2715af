package captcha

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"antirobot/identity"
)

// TestPitfall11PassesAreLimited: the worth of a pass falls gradually with what its address and network earned, and rises
// again. Beyond twenty in an hour an address gets one pass per moment; visitors are told before doing any work, and nobody
// waits longer than three minutes. Another address of the network pays for its neighbour, another network does not.
func TestPitfall11PassesAreLimited(t *testing.T) {
	e := newEnv(t, nil)
	e.clock.Store(start.Truncate(24 * time.Hour).Add(24 * time.Hour).UnixNano())
	_, spare := e.visit("https://example.com/")
	last := uint32(1000)
	for i := range 20 {
		a := e.solve()
		if a.Outcome != OutcomeSolved {
			t.Fatalf("pass %d: outcome %d", i+1, a.Outcome)
		}
		if want := uint32(min(100, 400/(i+1))); a.Pass.Allowance != want {
			t.Errorf("pass %d: allowance %d, want %d", i+1, a.Pass.Allowance, want)
		}
		if a.Pass.Allowance > last {
			t.Errorf("pass %d is worth more than the one before", i+1)
		}
		last = a.Pass.Allowance
		e.pass(time.Second)
	}
	a := e.c.Page(e.request("GET", "https://example.com/showcaptcha"))
	wait, _ := strconv.Atoi(a.Get("Retry-After"))
	if a.Status != 429 || a.Outcome != OutcomeLimited || wait < 1 || wait > 23 || !bytes.Contains(a.Body, []byte("not banned")) {
		t.Errorf("the page: status %d, Retry-After %q", a.Status, a.Get("Retry-After"))
	}
	a = e.submit(spare, e.answerOf(spare.Get("key")))
	if a.Status != 429 || cookies(&a)["spravka"] != "" || a.Get("Retry-After") == "" {
		t.Errorf("the answer: status %d", a.Status)
	}
	if a := e.solve(from("203.0.113.8")); a.Outcome != OutcomeSolved || a.Pass.Allowance != 19 {
		t.Errorf("a neighbour: outcome %d, allowance %d", a.Outcome, a.Pass.Allowance)
	}
	if a := e.solve(from("198.51.100.1")); a.Outcome != OutcomeSolved || a.Pass.Allowance != 100 {
		t.Errorf("another network: outcome %d, allowance %d", a.Outcome, a.Pass.Allowance)
	}
	late := 0
	for n := 0; n < 3600; n += 10 { // somebody who takes everything there is
		a := e.c.Page(e.request("GET", "https://example.com/showcaptcha"))
		if wait, _ := strconv.Atoi(a.Get("Retry-After")); wait > 180 {
			t.Fatalf("told to wait %d s", wait)
		}
		if a.Status == 200 {
			if a := e.solve(); a.Outcome != OutcomeSolved || a.Pass.Allowance < 5 {
				t.Fatalf("late pass %d: outcome %d, allowance %d", late+1, a.Outcome, a.Pass.Allowance)
			}
			late++
		}
		e.pass(10 * time.Second)
	}
	if late < 20 || late > 45 {
		t.Errorf("%d passes in the hour after", late)
	}
	e.pass(2 * time.Hour)
	if a := e.solve(); a.Pass.Allowance < 5 || a.Pass.Allowance > 20 {
		t.Errorf("when the hour is forgotten: allowance %d", a.Pass.Allowance)
	}
	e.pass(48 * time.Hour)
	if a := e.solve(); a.Pass.Allowance != 100 {
		t.Errorf("when the day is: allowance %d", a.Pass.Allowance)
	}
}

// TestPriceHasNoStep: when an hour or a day turns, the price for a steady earner does not change.
func TestPriceHasNoStep(t *testing.T) {
	e := newEnv(t, nil)
	var last uint32
	for n := range 40 * 6 {
		a := e.solve()
		if a.Outcome != OutcomeSolved {
			t.Fatalf("pass %d: outcome %d", n+1, a.Outcome)
		}
		if got := a.Pass.Allowance; n > 24*6 && (got > last+1 || got+1 < last) {
			t.Errorf("pass %d: allowance %d after %d", n+1, got, last)
		}
		last = a.Pass.Allowance
		e.pass(10 * time.Minute)
	}
}

type company int

func (c company) EstablishedAt([16]byte) int { return int(c) }

// TestOfficesPayLittle: where the site knows many visitors, many more passes are allowed.
func TestOfficesPayLittle(t *testing.T) {
	worth := func(known int) (least uint32, waits int) {
		e := newEnv(t, nil)
		e.c.visitors = company(known)
		least = 1000
		for range 40 {
			if a := e.c.Page(e.request("GET", "https://example.com/showcaptcha")); a.Status == 429 {
				waits++
				continue
			}
			a := e.solve()
			least = min(least, a.Pass.Allowance)
			e.pass(time.Second)
		}
		return least, waits
	}
	if least, waits := worth(32); waits != 0 || least < 30 {
		t.Errorf("an office of 32: %d waited, the least is worth %d", waits, least)
	}
	if least, waits := worth(0); waits == 0 || least > 20 {
		t.Errorf("strangers: %d waited, the least is worth %d", waits, least)
	}
}

// TestPassesAtOnceAreCounted: concurrent answers count each other.
func TestPassesAtOnceAreCounted(t *testing.T) {
	e := newEnv(t, func(c *Config, _ *ServiceConfig, _ *identity.ServiceConfig) { c.PassesPerHour = 4 })
	nodes := []*Captcha{e.c, e.newCaptcha(e.c.cfg)}
	var queries []*Request
	for range 30 {
		_, fields := e.visit("https://example.com/")
		fields.Set("rep", e.answerOf(fields.Get("key")))
		queries = append(queries, e.request("POST", "https://example.com/checkcaptcha", body("application/x-www-form-urlencoded", fields.Encode())))
	}
	outcomes := make(chan Outcome, len(queries))
	for i, q := range queries {
		go func() {
			a := nodes[i%2].Check(q)
			outcomes <- a.Outcome
		}()
	}
	solved := 0
	for range queries {
		if <-outcomes == OutcomeSolved {
			solved++
		}
	}
	if solved < 4 || solved > 4+moments+1 {
		t.Errorf("%d passes at once", solved)
	}
}

// TestSolverOfADay: what a robot that reads every picture instantly earns from one address, and from all of a /24.
func TestSolverOfADay(t *testing.T) {
	day := func(addresses int) (units, passes int) {
		e := newEnv(t, nil)
		for range 24 * 60 * 2 {
			for n := range addresses {
				at := from("203.0.113." + strconv.Itoa(n+1))
				for e.c.Page(e.request("GET", "https://example.com/showcaptcha", at)).Status == 200 {
					units += int(e.solve(at).Pass.Allowance)
					passes++
				}
			}
			e.pass(30 * time.Second)
		}
		return units, passes
	}
	units, passes := day(1)
	t.Logf("one address: %d documents by %d passes in its first day", units, passes)
	if units > 6000 {
		t.Errorf("one address earned %d documents", units)
	}
}
