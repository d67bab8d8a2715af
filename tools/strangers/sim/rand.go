package sim

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// Rand is a source of draws with the distributions that behaviour needs.
type Rand struct{ *rand.Rand }

// hash folds its arguments into a well mixed number.
func hash(parts ...any) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		fmt.Fprint(h, p, "|")
	}
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// hn is a fixed number in [0,n) that belongs to its arguments.
func hn(n int, parts ...any) int { return int(hash(parts...) % uint64(n)) }

// hf is a fixed number in [0,1) that belongs to its arguments.
func hf(parts ...any) float64 { return float64(hash(parts...)>>11) / (1 << 53) }

func newRand(parts ...any) *Rand {
	return &Rand{rand.New(rand.NewPCG(hash(parts...), hash("b", hash(parts...))))}
}

// logN draws from a log-normal with this median.
func (r *Rand) logN(median, sd float64) float64 { return median * math.Exp(sd*r.NormFloat64()) }

// weib draws from a Weibull; k below 1 is negative ageing.
func (r *Rand) weib(k, scale float64) float64 {
	return scale * math.Pow(-math.Log(1-r.Float64()), 1/k)
}

// u draws uniformly from [a,b).
func (r *Rand) u(a, b float64) float64 { return a + (b-a)*r.Float64() }

// n draws a whole number from a to b, both included.
func (r *Rand) n(a, b int) int {
	if b <= a {
		return a
	}
	return a + r.IntN(b-a+1)
}

// p is true with probability p.
func (r *Rand) p(p float64) bool { return r.Float64() < p }

// g draws a Gaussian that is never below low.
func (r *Rand) g(mean, sd, low float64) float64 { return math.Max(low, mean+sd*r.NormFloat64()) }

// exp draws an exponential with this mean.
func (r *Rand) exp(mean float64) float64 { return mean * r.ExpFloat64() }

// geo draws a geometric count of at least 1 with this mean.
func (r *Rand) geo(mean float64) int {
	if mean <= 1 {
		return 1
	}
	return 1 + int(math.Log(1-r.Float64())/math.Log(1-1/mean))
}

// zipf draws a rank in [0,n) whose weight falls about as 1/(rank+q)^s.
func (r *Rand) zipf(n int, s float64) int {
	const q = 2.0
	u := r.Float64()
	var x float64
	if math.Abs(s-1) < 1e-6 {
		x = q * math.Pow((float64(n)+q)/q, u)
	} else {
		a, b := math.Pow(q, 1-s), math.Pow(float64(n)+q, 1-s)
		x = math.Pow(a+u*(b-a), 1/(1-s))
	}
	return min(n-1, max(0, int(x-q)))
}

func pick[T any](r *Rand, xs []T) T { return xs[r.IntN(len(xs))] }

// weighted draws an index by weight.
func (r *Rand) weighted(w []float64) int {
	sum := 0.0
	for _, x := range w {
		sum += x
	}
	u := r.Float64() * sum
	for i, x := range w {
		if u -= x; u < 0 {
			return i
		}
	}
	return len(w) - 1
}

func clamp(x, a, b float64) float64 { return math.Max(a, math.Min(b, x)) }
