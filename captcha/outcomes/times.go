package outcomes

import (
	"math"
	"time"
)

// Times counts answers by duration: the first up to an eighth of a second, each further one up to a fifth (2^¼) more,
// up to the longest. It is never changed in place, so that counts can be copied.
type Times []uint32

const (
	shortest  = 0.125 // seconds
	perOctave = 4
	mostTimes = 1 + 14*perOctave // up to 34 minutes; a key can be answered for 30
)

// Took is the Times of one answer.
func Took(d time.Duration) Times {
	i := 0
	if s := d.Seconds(); s > shortest {
		i = min(1+int(perOctave*math.Log2(s/shortest)), mostTimes-1)
	}
	t := make(Times, i+1)
	t[i] = 1
	return t
}

// plus returns the sum of both, cut off at mostTimes.
func (t Times) plus(more Times) Times {
	sum := make(Times, min(max(len(t), len(more)), mostTimes))
	for i := range sum {
		if i < len(t) {
			sum[i] += t[i]
		}
		if i < len(more) {
			sum[i] += more[i]
		}
	}
	return sum
}

// quantile returns the seconds within which a share of the answers came, within a tenth; 0 without answers.
func (t Times) quantile(share float64) float64 {
	left := 0.0
	for _, n := range t {
		left += share * float64(n)
	}
	for i, n := range t {
		if left -= float64(n); n > 0 && left <= 0 {
			middle := shortest * math.Exp2((float64(i)-0.5)/perOctave)
			return math.Round(middle*10) / 10
		}
	}
	return 0
}
