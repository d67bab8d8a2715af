package console

import "testing"

func TestAxis(t *testing.T) {
	for top, want := range map[float64]float64{1: 2, 2: 2, 2.5: 4, 9: 10, 10: 20, 41: 60, 99: 100, 5021: 6000, 9999: 10000} {
		if got := axis(top); got != want {
			t.Errorf("axis to %g ends at %g, want %g", top, got, want)
		}
	}
}
