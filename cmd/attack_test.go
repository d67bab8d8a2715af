package cmd

import (
	"testing"
	"time"

	"antirobot/admin"
)

// TestAttackWords: who switches it on is told that nobody is asked yet because the share grows.
func TestAttackWords(t *testing.T) {
	until := time.Date(2026, 11, 28, 4, 33, 51, 0, time.UTC)
	f := func(share float64, easing bool, want string) {
		t.Helper()
		if got := attackWords(&admin.AttackState{On: true, Until: until, Share: share, Easing: easing}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(0, false, "under attack until 2026-11-28 04:33:51 UTC: 0 % of the visitors whom the site does not know are asked now, and more and more until all of them are")
	f(1, true, "easing off until 2026-11-28 04:33:51 UTC: 100 % of the visitors whom the site does not know are still asked")
	f(1, false, "under attack until 2026-11-28 04:33:51 UTC: 100 % of the visitors whom the site does not know are asked")
}
