// Package learn tells good texts from bad ones by marked texts.
//
// Invariants:
//  1. A learner may be asked and taught at the same time; asking takes no lock.
//  2. Its memory is bounded and does not depend on the order of teaching.
//  3. The caller keeps the texts.
package learn

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Learner is the algorithm of a model. Score and Explain are safe for concurrent use with Train.
type Learner interface {
	// Score returns how bad text looks, 0 to 1; more than 0.5 is bad. A text of unknown words is not.
	Score(text string) float64
	// Train learns a text, of which MaxText bytes count. Fit must follow it, or the last of several.
	Train(text string, good bool)
	Fit()
	// Ready reports whether it knows enough to judge.
	Ready() bool
	// Explain returns the features that weighed, the strongest first.
	Explain(text string) []Spoke
	Size() Size
}

// Spoke is a feature of a text and its weight, positive for bad.
type Spoke struct {
	Token  string
	Weight float64
}

// Size is how much a learner knows.
type Size struct {
	Good, Bad uint32
	Features  int
}

// The kinds of learners.
const (
	Default  = "default"
	Robinson = "robinson"
)

// New returns an empty learner of at most maxFeatures.
func New(kind string, maxFeatures int) Learner {
	if kind == Robinson {
		return newRobinson(maxFeatures)
	}
	return newBayes(maxFeatures)
}

// MaxText bytes of a text are learnt.
const MaxText = 8192

func strongest(out []Spoke) []Spoke {
	slices.SortFunc(out, func(a, b Spoke) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight)), strings.Compare(a.Token, b.Token))
	})
	return out
}
