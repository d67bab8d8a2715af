package captcha

import (
	"bytes"
	"html"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"antirobot/identity"
)

// wait is how long the page tells a visitor to wait; 0: it has a challenge.
func (e *env) wait(opts ...opt) time.Duration {
	e.t.Helper()
	a := e.c.Page(e.request("GET", "https://example.com/showcaptcha", opts...))
	if a.Status == 200 {
		return 0
	}
	n, err := strconv.Atoi(a.Get("Retry-After"))
	if a.Status != 429 || a.Outcome != OutcomeLimited || err != nil || n < 1 ||
		!bytes.Contains(a.Body, []byte("not banned")) {
		e.t.Fatalf("the page: status %d, Retry-After %q", a.Status, a.Get("Retry-After"))
	}
	return time.Duration(n) * time.Second
}

// TestPitfall11PassesAreLimited: the worth of a pass falls gradually with what its address earned, to ten pages, and
// rises again. After twenty an address gets one pass per moment, which grows; visitors are told before doing any work,
// and nobody waits longer than the longest wait. Another address of the network pays little for its neighbour, another
// network nothing.
func TestPitfall11PassesAreLimited(t *testing.T) {
	e := newEnv(t, digitsOnly)
	e.clock.Store(start.Truncate(24 * time.Hour).Add(24 * time.Hour).UnixNano())
	_, spare := e.visit("https://example.com/")
	var got []uint32
	for range 20 {
		got = append(got, e.solve().Pass.Allowance)
		e.pass(time.Second)
	}
	if want := []uint32{100, 50, 25, 12, 10}; !slices.Equal(got[:len(want)], want) ||
		slices.Max(got[len(want):]) != 10 || got[19] != 10 {
		t.Errorf("passes are worth %v", got)
	}
	e.exhaust(time.Minute)
	a := e.submit(spare, e.answerOf(spare.Get("key")))
	wait, err := strconv.Atoi(a.Get("Retry-After"))
	if a.Status != 429 || cookies(&a)["spravka"] != "" || err != nil {
		t.Errorf("the answer: status %d", a.Status)
	}
	again := html.UnescapeString(between(t, string(a.Body), `class="go" href="`, `"`))
	e.pass(time.Duration(wait) * time.Second) // when its turn has come, the same answer counts, once
	for _, want := range []Outcome{OutcomeSolved, OutcomeNone} {
		if a := e.c.Check(e.request("GET", "https://example.com"+again)); a.Outcome != want ||
			a.Get("Location") != "https://example.com/" {
			t.Errorf("the same answer in time: status %d, outcome %d, to %s", a.Status, a.Outcome, a.Get("Location"))
		}
	}
	e.pass(20 * time.Minute)
	if a := e.c.Check(e.request("GET", "https://example.com"+again)); a.Outcome == OutcomeSolved {
		t.Error("an answer counts twice")
	}
	if a := e.solve(from("203.0.113.8")); a.Outcome != OutcomeSolved || a.Pass.Allowance < 70 {
		t.Errorf("a neighbour: outcome %d, allowance %d", a.Outcome, a.Pass.Allowance)
	}
	if a := e.solve(from("198.51.100.1")); a.Outcome != OutcomeSolved || a.Pass.Allowance != 100 {
		t.Errorf("another network: outcome %d, allowance %d", a.Outcome, a.Pass.Allowance)
	}
	late := 0
	for n := 0; n < 6*3600; n += 10 { // somebody who takes everything there is
		w := e.wait()
		if w > time.Hour {
			t.Fatalf("told to wait %v", w)
		}
		if w == 0 {
			if a := e.solveIn(reading); a.Outcome != OutcomeSolved || a.Pass.Allowance != 10 {
				t.Fatalf("late pass %d: outcome %d, allowance %d", late+1, a.Outcome, a.Pass.Allowance)
			}
			late++
		}
		e.pass(10 * time.Second)
	}
	if late < 12 || late > 45 {
		t.Errorf("%d passes in the six hours after", late)
	}
	e.pass(48 * time.Hour)
	if a := e.solve(); a.Pass.Allowance != 100 {
		t.Errorf("when the day is forgotten: allowance %d", a.Pass.Allowance)
	}
}

// digitsOnly asks for no moving picture, whatever an address has earned.
func digitsOnly(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Steps.Top = "digits" }

// exhaust earns passes until an address has to wait for so long.
func (e *env) exhaust(least time.Duration) {
	e.t.Helper()
	for range 100 {
		w := e.wait()
		if w >= least {
			return
		}
		e.pass(w + reading)
		e.solveIn(0)
	}
	e.t.Fatalf("nobody waits for %v", least)
}

// TestTheNextPassIsDearer: after twenty passes of an hour there is still a picture, the hardest, and its answer is
// taken at once; the interval to the next grows from what it takes to read, without a leap, and falls again.
func TestTheNextPassIsDearer(t *testing.T) {
	e := newEnv(t, digitsOnly)
	e.clock.Store(start.Truncate(24 * time.Hour).Add(24 * time.Hour).UnixNano())
	for n := range 21 {
		if w := e.wait(); w != 0 {
			t.Fatalf("pass %d: told to wait %v", n+1, w)
		}
		_, fields := e.visit("https://example.com/")
		k, _, err := e.c.issuer.open(e.request("GET", "https://example.com/"), fields.Get("key"), e.now())
		if want := uint8(min(n/passesPerLevel, maxLevel)); err != nil || k.level+1 < want ||
			k.level > want { //nolint:gosec // at most maxLevel
			t.Errorf("pass %d is asked for in level %d, %v, want %d", n+1, k.level, err, want)
		}
		if a := e.solveIn(time.Duration(n%2) * reading); a.Outcome != OutcomeSolved {
			t.Fatalf("pass %d: outcome %d", n+1, a.Outcome)
		}
		e.pass(10 * time.Second)
	}
	for n := range 5 { // whoever is shown a picture may answer it when it is read, and before
		e.pass(e.wait())
		if a := e.solveIn(time.Duration(n%2) * time.Second); a.Outcome != OutcomeSolved {
			t.Errorf("in its turn: outcome %d", a.Outcome)
		}
	}
	last := reading
	for n := range 30 {
		m := e.c.cfg.intervalOf(float64(20 + n))
		square := float64(n+1) / float64(max(n, 1))
		if n == 0 && m > reading || n > 0 && (m < last || float64(m) > 1.01*square*square*float64(last)) ||
			n == 29 && m != e.c.cfg.LongestWait {
			t.Errorf("after %d passes of a day one comes each %v, before each %v", 20+n, m, last)
		}
		last = m
	}
	e.pass(20 * time.Hour)
	if w := e.wait(); w > time.Minute {
		t.Errorf("the day after: told to wait %v", w)
	}
}

// company is how many established visitors the addresses and the networks have.
type company struct{ address, network int }

func (c company) KnownIn(n netip.Prefix) int {
	if n.IsSingleIP() || n.Bits() == 64 {
		return c.address
	}
	return c.network
}

// TestPassesAtOnceAreCounted: concurrent answers count each other.
func TestPassesAtOnceAreCounted(t *testing.T) {
	e := newEnv(t, func(c *Config, _ *ServiceConfig, _ *identity.ServiceConfig) { c.PassesPerDay = 4 })
	nodes := []*Captcha{e.c, e.newCaptcha(e.c.cfg)}
	var queries []*Request
	for range 30 {
		_, fields := e.visit("https://example.com/")
		fields.Set("rep", e.answerOf(fields.Get("key")))
		queries = append(queries, e.request("POST", "https://example.com/checkcaptcha",
			body("application/x-www-form-urlencoded", fields.Encode())))
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
	if solved < 4 || solved > 5 {
		t.Errorf("%d passes at once", solved)
	}
}
