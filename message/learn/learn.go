// Package learn tells good texts from bad ones by texts that people marked.
//
// Invariants:
//  1. A learner may be asked and taught at the same time; asking takes no lock.
//  2. What it knows is bounded, and does not depend on the order in which it was taught.
//  3. It is memory alone: whoever owns it keeps its state and the texts.
package learn

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
)

// Learner is the algorithm of a model. Score and Explain are safe for concurrent use with Train.
type Learner interface {
	// Score returns how bad text looks, 0 to 1; more than 0.5 is bad. A text of unknown words is not.
	Score(text string) float64
	Train(text string, good bool)
	// Ready says whether it knows enough to judge; before, no text is bad.
	Ready() bool
	// Explain returns what spoke, the strongest first.
	Explain(text string) []Spoke
	// AppendState appends all that the learner knows; LoadState is its inverse, on a new learner.
	AppendState(dst []byte) []byte
	LoadState(src []byte) error
	Size() Size
}

// Spoke is a token of a text and what it says: its weight is positive for bad.
type Spoke struct {
	Token     string
	Weight    float64
	Good, Bad uint32 // in how many texts of each kind it was seen
}

// Size is how much a learner knows.
type Size struct {
	Good, Bad uint32 // texts
	Features  int
	Bytes     int64 // of memory
}

// The kinds of learners.
const (
	Default  = "default"
	Robinson = "robinson"
)

// New returns a learner of a kind that knows nothing, and never knows more than maxFeatures.
func New(kind string, maxFeatures int) Learner {
	if kind == Robinson {
		return newRobinson(maxFeatures)
	}
	return newBayes(maxFeatures)
}

const stateVersion = 2

// ErrState is returned for a state that no learner wrote.
var ErrState = errors.New("the model's state is not readable")

func strongest(out []Spoke) []Spoke {
	slices.SortFunc(out, func(a, b Spoke) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight)), strings.Compare(a.Token, b.Token))
	})
	return out
}
