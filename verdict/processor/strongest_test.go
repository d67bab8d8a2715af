package processor

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"antirobot/verdict/bans"
)

// TestStrongest: those that add the most, in that order, the first in the table before others that add as much; none that takes off, or
// whose value is not known.
func TestStrongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "factors")
		value := rapid.SampledFrom([]float32{1, 2, nan, float32(math.Inf(1))})
		x := rapid.SliceOfN(value, n, n).Draw(t, "values")
		amounts := rapid.SliceOfN(rapid.SampledFrom([]float32{-1, 0, 1, 2, 3, nan}), n, n).Draw(t, "amounts")
		var want, got [bans.MaxFactors]bans.Factor
		left := slices.Clone(amounts)
		for k := range want {
			best := -1
			for i, a := range left {
				if x[i] <= 2 && a > 0 && (best < 0 || a > left[best]) {
					best = i
				}
			}
			if best < 0 {
				break
			}
			want[k] = bans.Factor{Name: factors[best].Name, Value: x[best], Amount: left[best]}
			left[best] = 0
		}
		if strongest(&got, x, amounts); got != want {
			t.Errorf("%v of %v: %v, want %v", amounts, x, got, want)
		}
	})
}
