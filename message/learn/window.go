package learn

import (
	"iter"
	"math"
)

// A text is judged as a whole and by windows of some words, so that what is bad in it can't be drowned in good words.
const (
	windowStep = 8 // words
	// windowSteps make a window. Half of it is the same as of the next.
	windowSteps = 3
	// windowLeast is the number of words from which on there are windows.
	windowLeast = 48
	// windowDoubt is what a window's log odds are lowered by: the worst of many windows looks worse than the text is.
	windowDoubt = 0.5
)

// sums is what the features of a part of a text say together: the counts of words and of letters, and the regression.
type sums struct {
	words, grams, wordsLearnt, gramsLearnt float32
	numWords, numGrams                     int
}

func (s *sums) add(other *sums) {
	s.words += other.words
	s.grams += other.grams
	s.wordsLearnt += other.wordsLearnt
	s.gramsLearnt += other.gramsLearnt
	s.numWords += other.numWords
	s.numGrams += other.numGrams
}

// inputs returns what the blend joins.
func (s *sums) inputs(bias float64) inputs {
	word, gram := 1/math.Sqrt(float64(s.numWords)+1), 1/math.Sqrt(float64(s.numGrams)+1)
	return inputs{
		1, float64(s.words) * word, float64(s.grams) * gram, math.Log(float64(s.numWords+s.numGrams)+1)/5 - 1,
		bias + float64(s.wordsLearnt)*word + float64(s.gramsLearnt)*gram,
	}
}

// stepSums are the sums of each step of a text, one step for a short one. They are used again and again.
type stepSums struct {
	steps []sums
}

// begin makes room for a text of so many words.
func (s *stepSums) begin(words int) {
	n := 1
	if words >= windowLeast {
		n = words / windowStep
	}
	s.steps = append(s.steps[:0], make([]sums, n)...)
}

// of returns the sums of the step that a word is in. What is left over at the end belongs to the last step.
func (s *stepSums) of(word uint32) *sums {
	return &s.steps[min(int(word)/windowStep, len(s.steps)-1)]
}

func (s *stepSums) whole() *sums {
	var all sums
	for i := range s.steps {
		all.add(&s.steps[i])
	}
	return &all
}

// windows yields the sums of each window of a long text. A feature counts where it comes first.
func (s *stepSums) windows() iter.Seq[*sums] {
	return func(yield func(*sums) bool) {
		if len(s.steps) == 1 {
			return
		}
		for i := range len(s.steps) - windowSteps + 1 {
			var window sums
			for k := range windowSteps {
				window.add(&s.steps[i+k])
			}
			if !yield(&window) {
				return
			}
		}
	}
}
