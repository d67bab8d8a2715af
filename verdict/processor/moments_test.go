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
	var f fit
	var xs, ys []float64
	for range 200 {
		x := rng.ExpFloat64()
		y := 2*x + rng.NormFloat64()
		xs, ys = append(xs, x), append(ys, y)
		m.add(float32(x))
		f.add(float32(x), float32(y))
	}
	mean := func(list []float64, f func(v float64) float64) (sum float64) {
		for _, v := range list {
			sum += f(v) / float64(len(list))
		}
		return sum
	}
	mx, my := mean(xs, func(v float64) float64 { return v }), mean(ys, func(v float64) float64 { return v })
	sx := math.Sqrt(mean(xs, func(v float64) float64 { return (v - mx) * (v - mx) }))
	sy := math.Sqrt(mean(ys, func(v float64) float64 { return (v - my) * (v - my) }))
	skew := mean(xs, func(v float64) float64 { return math.Pow((v-mx)/sx, 3) })
	var both float64
	for i := range xs {
		both += (xs[i] - mx) / sx * (ys[i] - my) / sy / float64(len(xs))
	}
	for what, pair := range map[string][2]float64{
		"mean": {float64(m.mean), mx}, "spread": {float64(m.spread()), sx}, "skew": {float64(m.skew()), skew}, "correlation": {float64(f.correlation()), both},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-3 {
			t.Errorf("%s is %v, is said to be %v", what, pair[1], pair[0])
		}
	}
}
