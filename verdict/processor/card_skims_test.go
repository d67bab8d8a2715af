//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package processor

import "testing"

// TestSkims: who skims is quick and rather even, and that is no sign; a program that is as quick is more even, and who is quicker has not looked.
func TestSkims(t *testing.T) {
	at := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0.2, "targets": 30, "session_pages": 44, "load_share": 0.9, "cookie_dropped_share": 0, "revisit_share": 0.2, "target_share": 0.6,
		"stay_typical": 2.1, "stay_spread": 0.4, "stay_spread_most": 0.55, "stay_longest": 5, "stay_longest_ratio": 2.4, "stay_long_share": 0,
	}
	if skims := at.raw(t); skims >= 0 {
		t.Errorf("who skims is above the threshold: %.2f", skims)
	}
	for name, other := range map[string]known{
		"a program's pause": {"stay_spread": 0.3}, "quicker than one looks": {"stay_typical": 1}, "reads": {"stay_typical": 4}, "pauses at random": {"stay_spread": 0.6}, "takes all there is": {"revisit_share": 0.05},
	} {
		if by := at.and(other).raw(t) - at.raw(t); by < 1.4 {
			t.Errorf("%s: %.2f more", name, by)
		}
	}
}
