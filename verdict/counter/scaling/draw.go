package scaling

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// keys draws counters.
type keys struct {
	law  string
	pool uint64
	r    *rand.Rand
}

// draw returns the next counter's number.
func (k *keys) draw() uint64 {
	switch k.law {
	case uniform:
		return k.r.Uint64N(k.pool)
	case zipf: // the inverse of the law's distribution, taken as continuous, as the benchmarks draw
		return min(uint64(math.Exp(k.r.Float64()*math.Log(float64(k.pool)+1)))-1, k.pool-1)
	default: // of so many that none comes twice
		return k.r.Uint64()
	}
}

// distinct is the expected number of different counters among n draws.
func (k *keys) distinct(n float64) float64 {
	pool := float64(k.pool)
	switch k.law {
	case uniform:
		return -pool * math.Expm1(-n/pool)
	case zipf:
		return zipfDistinct(n, pool)
	default:
		return n
	}
}

// zipfDistinct adds, over all counters, the chance of being drawn at all: one by one for the first ones, in small steps of
// the logarithm of the rank for the others.
func zipfDistinct(n, pool float64) (sum float64) {
	const head, steps = 10_000, 10_000
	all := math.Log(pool + 1)
	for i := 1.0; i <= min(head, pool); i++ {
		sum -= math.Expm1(-n * math.Log1p(1/i) / all)
	}
	if pool <= head {
		return sum
	}
	from := math.Log(head + 1)
	width := (all - from) / steps
	for i := range steps {
		rank := math.Exp(from + (float64(i)+0.5)*width)
		sum -= math.Expm1(-n/rank/all) * rank * width
	}
	return sum
}

// shard returns a counter's shard by its hash.
func shard(key uint64, shards int) int {
	x := key + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	hi, _ := bits.Mul64(x^x>>31, uint64(shards)) //nolint:gosec // not negative
	return int(hi)                               //nolint:gosec // less than shards
}
