package processor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMoments compares the running figures with those of the whole list.
func TestMoments(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var m moments
	var xs []float64
	for range 200 {
		x := rng.ExpFloat64()
		xs = append(xs, x)
		m.add(float32(x))
	}
	mean := func(list []float64, f func(v float64) float64) (sum float64) {
		for _, v := range list {
			sum += f(v) / float64(len(list))
		}
		return sum
	}
	mx := mean(xs, func(v float64) float64 { return v })
	sx := math.Sqrt(mean(xs, func(v float64) float64 { return (v - mx) * (v - mx) }))
	for what, pair := range map[string][2]float64{
		"mean": {float64(m.mean), mx}, "spread": {float64(m.spread()), sx},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-3 {
			t.Errorf("%s is %v, is said to be %v", what, pair[1], pair[0])
		}
	}
}
