package tally

import (
	"math"
	"testing"
)

// TestFading: the series gives what the exponential gives, to the last bit of a float32.
func TestFading(t *testing.T) {
	for _, age := range []float64{0, 0.001, 0.0097, 0.01, 1, 3.5, 3600, 1e6} {
		want := float32(math.Exp(-age / 10))
		if got := Fading(age, 10); math.Abs(float64(got-want)) > 6e-8 {
			t.Errorf("after %v seconds %v, want %v", age, got, want)
		}
	}
}
