package captcha

import (
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestWorkGrows: earlier passes of an address and of its network raise the price of the next one, up to a bound.
func TestWorkGrows(t *testing.T) {
	cfg := DefaultConfig()
	for _, c := range []struct{ earned, want int64 }{
		{0, 200_000},
		{1, 250_000},
		{4, 400_000},
		{19, 1_150_000},
		{36, 2_000_000},
		{1 << 60, 2_000_000},
	} {
		if got := cfg.workPrice(float64(c.earned)); got != c.want {
			t.Errorf("after %d: %d, wanted %d", c.earned, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Float64Range(0, 1<<40).Draw(t, "earned")
		price := cfg.workPrice(n)
		if price < cfg.Work.Hashes || price > workGrowth*cfg.Work.Hashes || price > cfg.workPrice(n+1) {
			t.Fatalf("price %d", price)
		}
	})
	e := working(t)
	first, _ := e.askWork()
	for range 4 {
		o, _ := e.askWork()
		if a := e.answerWork(o.Captcha.Key, o.Captcha.Work.toil(t)); a.Outcome != OutcomeSolved {
			t.Fatalf("%s", a.Body)
		}
	}
	if o, _ := e.askWork(); o.Captcha.Work.Below*2 != first.Captcha.Work.Below {
		t.Errorf("after four passes a part is one of %d, at first one of %d", o.Captcha.Work.Below,
			first.Captcha.Work.Below)
	}
	if o, _ := e.askWork(from("198.51.100.1")); o.Captcha.Work.Below != first.Captcha.Work.Below {
		t.Error("another network pays for this one")
	}
}

// TestPitfall12WorkIsNotHoarded: a client that collects cheap challenges and answers them together, in parallel on two
// nodes, gets few passes at that price, and never more than an address may earn.
func TestPitfall12WorkIsNotHoarded(t *testing.T) {
	e := working(t)
	nodes := []*Captcha{e.c, e.newCaptcha(e.c.cfg)}
	hoard := func(opts ...opt) (keys, reps []string) {
		for range 24 {
			o, _ := e.askWork(opts...)
			keys, reps = append(keys, o.Captcha.Key), append(reps, o.Captcha.Work.toil(t))
		}
		return keys, reps
	}
	// A quarter more for each pass: more than twice the price after the fourth.
	keys, reps := hoard(from("198.51.100.1"))
	inTurn := 0
	for i := range keys {
		if a := e.answerWork(keys[i], reps[i], from("198.51.100.1")); a.Outcome == OutcomeSolved {
			inTurn++
		}
	}
	if inTurn != 5 {
		t.Errorf("%d passes at the first price, one after the other", inTurn)
	}
	keys, reps = hoard()
	var wg sync.WaitGroup
	outcomes := make(chan Outcome, len(keys))
	for i := range keys {
		q := e.request("POST", "https://example.com/checkcaptcha",
			form("key", keys[i], "rep", reps[i], "format", "json"))
		wg.Go(func() {
			a := nodes[i%2].Check(q)
			outcomes <- a.Outcome
		})
	}
	wg.Wait()
	close(outcomes)
	solved := 0
	for o := range outcomes {
		if o == OutcomeSolved {
			solved++
		}
	}
	if solved > 5 { // fewer, if they are counted before the first is checked
		t.Errorf("%d passes at the first price, all at once", solved)
	}
	if _, a := e.askWork(); a.Status != 429 || a.Get("Retry-After") == "" || a.Outcome != OutcomeLimited {
		t.Errorf("asks for work that can earn nothing: %d %v", a.Status, a.Header)
	}
}

// TestPitfall12AskingForWorkIsLimited: asking costs reads of the store, and has the same rate as answers.
func TestPitfall12AskingForWorkIsLimited(t *testing.T) {
	e := working(t, func(b *bounds) { b.checks = rate{6, 3} })
	var got []int
	for range 4 {
		_, a := e.askWork()
		got = append(got, a.Status)
	}
	if fmt.Sprint(got) != "[200 200 200 429]" {
		t.Errorf("statuses %v", got)
	}
}
