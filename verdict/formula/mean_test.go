package formula

import (
	"math"
	"testing"
)

// TestMean: of equal moments it is what each of them is; a late one counts for more than an early one.
func TestMean(t *testing.T) {
	mean := func(raw ...float64) float64 {
		var m Mean
		for _, x := range raw {
			m.Add(x)
		}
		return m.LogOdds()
	}
	if got := mean(-2, -2, -2); math.Abs(got+2) > 1e-12 {
		t.Errorf("three times -2: %v", got)
	}
	if got := mean(0, 3); math.Abs(got-2) > 1e-12 {
		t.Errorf("0, 3: %v, not 2", got)
	}
	if early, late := mean(4, -1, -1, -1), mean(-1, -1, -1, 4); late <= early {
		t.Errorf("4 at first: %v, at last: %v", early, late)
	}
	if got := mean(); !math.IsNaN(got) {
		t.Errorf("without moments: %v", got)
	}
}
