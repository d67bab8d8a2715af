package processor

import "math"

// moments are the count, mean, spread and skew of a number, by the last few hundred values (Welford, 1962; Terriberry, 2007).
type moments struct {
	n            uint16
	mean, m2, m3 float32
}

const mostMoments = 512

func (m *moments) add(x float32) {
	if m.n == mostMoments {
		m.n, m.m2, m.m3 = m.n/2, m.m2/2, m.m3/2
	}
	m.n++
	n := float32(m.n)
	d := x - m.mean
	dn := d / n
	t := d * dn * (n - 1)
	m.mean += dn
	m.m3 += t*dn*(n-2) - 3*dn*m.m2
	m.m2 += t
}

func (m *moments) spread() float32 { return float32(math.Sqrt(float64(max(m.m2, 0) / float32(m.n)))) }

// skew is the third standardised moment; NaN where nothing differs.
func (m *moments) skew() float32 {
	if !(m.m2 > 1e-6) {
		return nan
	}
	return float32(math.Sqrt(float64(m.n))) * m.m3 / float32(math.Pow(float64(m.m2), 1.5))
}

// fit is the correlation of two quantities.
type fit struct {
	n                uint16
	x, y, xx, yy, xy float32
}

func (f *fit) add(x, y float32) {
	if f.n == mostMoments {
		f.n, f.xx, f.yy, f.xy = f.n/2, f.xx/2, f.yy/2, f.xy/2
	}
	f.n++
	dx, dy := x-f.x, y-f.y
	f.x += dx / float32(f.n)
	f.y += dy / float32(f.n)
	f.xx += dx * (x - f.x)
	f.yy += dy * (y - f.y)
	f.xy += dx * (y - f.y)
}

func (f *fit) correlation() float32 {
	if !(f.xx > 1e-6 && f.yy > 1e-6) {
		return nan
	}
	return f.xy / float32(math.Sqrt(float64(f.xx)*float64(f.yy)))
}

// spreadMost is the upper end of the one-sided interval of the spread: the standard error of its logarithm is 1/√2n.
func (m *moments) spreadMost() float32 {
	return m.spread() * float32(math.Exp(1.645/math.Sqrt(2*float64(m.n))))
}
