package client

import (
	"math"
	"testing"
	"time"
)

// TestLag: a byte holds a time to a few per cent, and what is not known is no time.
func TestLag(t *testing.T) {
	for _, d := range []time.Duration{time.Microsecond, 300 * time.Microsecond, 2 * time.Millisecond, 40 * time.Millisecond, 250 * time.Millisecond, 9 * time.Second} {
		got, want := float64(LagOf(d).Milliseconds()), float64(d)/float64(time.Millisecond)
		if math.Abs(got-want) > 0.03*(1+want) {
			t.Errorf("%v: %v ms", d, got)
		}
	}
	if LagOf(0) != 0 || LagOf(-time.Second) != 0 || LagOf(time.Hour) != math.MaxUint8 {
		t.Error("the ends")
	}
}
