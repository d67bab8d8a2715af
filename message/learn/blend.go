package learn

import (
	"cmp"
	"math"
	"slices"

	"antirobot/rules"
)

type inputs [blendInputs]float64

const blendInputs = 4

type blend struct{ weights inputs }

func firstBlend() *blend { return &blend{inputs{0, 0.5, 0, 0.5}} }

func (l *blend) sum(in inputs) (z float64) {
	for i, w := range l.weights {
		z += w * in[i]
	}
	return z
}

const (
	// LeastGood good texts are needed: the least that can be fitted without harm to good texts.
	LeastGood = 25
	// LeastBad bad texts are needed.
	LeastBad = 10
	// doubtfulGood lowers the log odds by ln(1+doubtfulGood/n) for n good texts.
	doubtfulGood = 150
	sampleSize   = 4096
	sampleText   = 1024
)

// textSample keeps the texts with the least hashes: an even choice, whatever the order, and the same on every
// gateway.
type textSample struct {
	texts []hashedText
}

type hashedText struct {
	hash uint64
	text string
}

func (s *textSample) add(text string) {
	t := hashedText{hash: rules.Mix(hashString(text)), text: rules.Clip(text, sampleText)}
	at, again := slices.BinarySearchFunc(s.texts, t, func(a, b hashedText) int { return cmp.Compare(a.hash, b.hash) })
	if again || at == sampleSize {
		return
	}
	s.texts = slices.Insert(s.texts, at, t)
	s.texts = s.texts[:min(len(s.texts), sampleSize)]
}

type judgedSample struct {
	in     inputs
	bad    bool
	weight float64
}

func fit(samples []judgedSample) *blend {
	const rounds = 12
	first := firstBlend()
	l := *first
	for range rounds {
		var gradient inputs
		var hessian [blendInputs]inputs
		for i := range gradient {
			gradient[i] = ridge * (l.weights[i] - first.weights[i])
			hessian[i][i] = ridge
		}
		for _, s := range samples {
			p := sigmoid(l.sum(s.in))
			wrong := p
			if s.bad {
				wrong--
			}
			for i := range gradient {
				gradient[i] += s.weight * wrong * s.in[i]
				for j := range gradient {
					hessian[i][j] += s.weight * p * (1 - p) * s.in[i] * s.in[j]
				}
			}
		}
		step := solve(hessian, gradient)
		next, lower := l, false
		for scale := 1.0; scale > 1e-3 && !lower; scale /= 2 { // a whole step may overshoot
			for i := range step {
				next.weights[i] = l.weights[i] - scale*step[i]
			}
			lower = next.loss(samples, first) < l.loss(samples, first)
		}
		if !lower {
			break
		}
		l = next
	}
	return &l
}

const ridge = 1.0

func (l *blend) loss(samples []judgedSample, first *blend) (sum float64) {
	for i, w := range l.weights {
		sum += ridge / 2 * (w - first.weights[i]) * (w - first.weights[i])
	}
	for _, s := range samples {
		z := l.sum(s.in)
		if s.bad {
			z = -z
		}
		sum += s.weight * (max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))) // ln(1+e^z)
	}
	return sum
}

func solve(a [blendInputs]inputs, b inputs) (x inputs) {
	for i := range b {
		for j := i + 1; j < len(b); j++ {
			f := a[j][i] / a[i][i]
			for k := i; k < len(b); k++ {
				a[j][k] -= f * a[i][k]
			}
			b[j] -= f * b[i]
		}
	}
	for i := len(b) - 1; i >= 0; i-- {
		x[i] = b[i]
		for k := i + 1; k < len(b); k++ {
			x[i] -= a[i][k] * x[k]
		}
		x[i] /= a[i][i]
	}
	return x
}
