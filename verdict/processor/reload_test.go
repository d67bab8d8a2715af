package processor

import (
	"math"
	"testing"
	"time"
)

// TestReloads: of somebody who leaves a page open that reloads itself, whether the reload names it as its Referer or not, the factors of
// the way, of hours and of the time on pages say what they say of the same person on a page that doesn't, also where the page's script asks for
// something in between. It is seen that pages are loaded again.
func TestReloads(t *testing.T) {
	p, _ := newProcessor(t, nil)
	page := func(i int) string { return "/item/" + string(rune('a'+i)) }
	pauses := [...]time.Duration{20 * time.Second, 3 * time.Second, 12 * time.Minute, 70 * time.Second, 5 * time.Second, 40 * time.Minute}
	reader := func(n int, from func(page string) string, calls bool) map[string]float32 {
		w := &walk{p: p, n: n, at: time.Unix(1.8e9, 0)}
		stay := func(page string, d time.Duration) time.Duration {
			for ; from != nil && d > 50*time.Second; d -= 50 * time.Second {
				if calls {
					w.call("/news", page)
				}
				w.load(page, from(page), 50*time.Second)
			}
			return d
		}
		after := time.Duration(0)
		for i := range 14 {
			w.load(page(i), page(max(i-1-i%3, 0)), after)
			after = stay(page(i), pauses[i%len(pauses)])
			if i == 7 {
				after = stay(page(i), 13*time.Hour)
			}
		}
		w.load(page(14), page(13), after)
		return w.factors()
	}
	quiet := reader(1, nil, false)
	for n, from := range []func(string) string{func(page string) string { return page }, func(string) string { return "" }} {
		open, polls := reader(2+n, from, false), reader(4+n, from, true)
		for _, name := range []string{
			"awake", "visits", "return_typical", "visit_hours", "visit_longest",
			"stay_typical", "stay_spread", "stay_longest", "stay_long_share", "gap_spread", "gap_least",
			"branch_share", "jump_share", "entry_share", "entry_within", "fan", "count_share",
		} {
			want, known := quiet[name]
			if got, also := open[name]; known != also || math.Abs(float64(got-want)) > 1e-4 {
				t.Errorf("%d: %s is %v (%v), and %v (%v) on pages that don't reload themselves", n, name, got, also, want, known)
			}
			if name == "count_share" { // calls are no reading, but something is awake
				continue
			}
			if got, also := polls[name]; known != also || math.Abs(float64(got-want)) > 1e-4 {
				t.Errorf("%d: %s is %v (%v) with calls, and %v (%v) on pages that don't reload themselves", n, name, got, also, want, known)
			}
		}
		if got := open["revisit_share"]; got < 0.9 {
			t.Errorf("%d: revisit_share is %v", n, got)
		}
		if got := open["pages_1d"]; got < 500 {
			t.Errorf("%d: %v pages in a day", n, got)
		}
	}
	again := &walk{p: p, n: 9, at: time.Unix(1.8e9, 0)} // who comes back for a page has gone
	board := &walk{p: p, n: 10, at: again.at}           // and has not while its script goes on calling
	for range 20 {
		again.load("/item", "", time.Hour)
		board.load("/item", "", 10*time.Minute)
		for range 5 {
			board.at = board.at.Add(10 * time.Minute)
			board.call("/news", "/item")
		}
	}
	if of := again.factors(); of["visits"] < 19 || of["awake"] < 17 {
		t.Errorf("the same page each hour: %v visits, awake for %v hours", of["visits"], of["awake"])
	}
	if of := board.factors(); of["visits"] > 1 || of["awake"] > 1 {
		t.Errorf("a board whose page loads itself each hour: %v visits, awake for %v hours", of["visits"], of["awake"])
	}
}
