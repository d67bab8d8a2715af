package verdict

import (
	"fmt"
	"testing"
	"time"

	"antirobot/verdict/bans"
)

// TestSpentPassFollowsThePeople: what a spent pass stands in for on a day is what nearly all of the site's people read in one, between
// the bounds of the configuration, and less by as much as the pass was worth less; what is known of another site changes nothing.
func TestSpentPassFollowsThePeople(t *testing.T) {
	f := func(allowance uint32, known func(y *payer), want int) {
		t.Helper()
		y := newPayer(t, allowance, 20, "192.0.2.1")
		y.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Source, b.Score, b.Until = bans.SourceProcessor, 1, y.now().Add(time.Hour) })
		if known != nil {
			known(y)
		}
		for i := range allowance {
			if d := y.get("192.0.2.1", fmt.Sprint("/paid/", i), "text/html", ""); !d.Paid {
				t.Fatalf("page %d is not paid", i)
			}
		}
		n := 0
		for y.get("192.0.2.1", fmt.Sprint("/stood/", n), "text/html", "").Verdict == Human && n < 1000 {
			n++
		}
		if n != want {
			t.Errorf("a pass of %d stands in for %d documents, want %d", allowance, n, want)
		}
	}
	people := func(docs uint32) func(*payer) {
		return func(y *payer) { y.Portion(y.s.Group, docs, y.now()) }
	}
	f(100, nil, 20)
	f(100, people(7), 20)
	f(100, people(45), 45)
	f(100, people(500), 60)
	f(20, nil, 4)
	f(20, people(45), 9)
	f(100, func(y *payer) { y.Portion(y.s.Group+1, 45, y.now()) }, 20)
	f(100, func(y *payer) { y.Portion(y.s.Group, 45, y.now().Add(-30*24*time.Hour)) }, 20)
}
