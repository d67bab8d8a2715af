package learn

import "math"

type regression struct {
	weights []float32
	bias    float64
}

const (
	regressionBits   = 18
	regressionRounds = 10
	regressionRate   = 0.2
	regressionFolds  = 3
	// mislabelled is the share of wrong labels assumed.
	mislabelled = 0.02
)

type example struct {
	features []uint32
	strong   int
	bad      bool
	fold     int // each fold has both kinds
}

func newExample(features []uint64, strong int, bad bool, number int) example {
	e := example{make([]uint32, len(features)), strong, bad, number % regressionFolds}
	for i, f := range features {
		e.features[i] = place(f)
	}
	return e
}

func place(feature uint64) uint32 { return uint32(feature) & (1<<regressionBits - 1) }

func shares(features, strong int) (word, gram float64) {
	return 2 / math.Sqrt(float64(strong)+1), 1 / math.Sqrt(float64(features-strong)+1)
}

func (m *regression) margin(e *example) float64 {
	word, gram := shares(len(e.features), e.strong)
	var words, grams float32
	for _, f := range e.features[:e.strong] {
		words += m.weights[f]
	}
	for _, f := range e.features[e.strong:] {
		grams += m.weights[f]
	}
	return m.bias + word*float64(words) + gram*float64(grams)
}

// regress fits a regression to the examples without one fold (-1: none) by AdaGrad, so that rare features are
// learnt as well.
func regress(examples []example, order []int, without, bits int) *regression {
	m := &regression{weights: make([]float32, 1<<bits)}
	moved, biasMoved := make([]float32, 1<<bits), 0.0
	for range regressionRounds {
		for _, k := range order {
			e := &examples[k]
			if e.fold == without {
				continue
			}
			wrong := sigmoid(m.margin(e)) - mislabelled
			if e.bad {
				wrong -= 1 - 2*mislabelled
			}
			if math.Abs(wrong) < 1e-3 {
				continue
			}
			word, gram := shares(len(e.features), e.strong)
			m.step(moved, e.features[:e.strong], wrong*word)
			m.step(moved, e.features[e.strong:], wrong*gram)
			biasMoved += wrong * wrong
			m.bias -= regressionRate * wrong / math.Sqrt(biasMoved+1e-8)
		}
	}
	return m
}

func (m *regression) step(moved []float32, features []uint32, gradient float64) {
	g := float32(gradient)
	for _, f := range features {
		moved[f] += g * g
		m.weights[f] -= regressionRate * g / float32(math.Sqrt(float64(moved[f])+1e-8))
	}
}
