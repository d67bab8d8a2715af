package processor

import "math"

// moments are the count, mean and spread of a number, by the last few hundred values (Welford, 1962).
type moments struct {
	n        uint16
	mean, m2 float32
}

const mostMoments = 512

func (m *moments) add(x float32) {
	if m.n == mostMoments {
		m.n, m.m2 = m.n/2, m.m2/2
	}
	m.n++
	d := x - m.mean
	m.mean += d / float32(m.n)
	m.m2 += d * (x - m.mean)
}

func (m *moments) spread() float32 { return float32(math.Sqrt(float64(max(m.m2, 0) / float32(m.n)))) }

// spreadMost is the upper end of the one-sided interval of the spread: the standard error of its logarithm is 1/√2n.
func (m *moments) spreadMost() float32 {
	return m.spread() * float32(math.Exp(1.645/math.Sqrt(2*float64(m.n))))
}
