package learn

import (
	"iter"
	"math"
)

// A text is judged as a whole and by windows of words, so that good words can't drown a bad part.
const (
	windowStep = 8
	// windowSteps make a window; windows overlap.
	windowSteps = 3
	// windowLeast words have windows.
	windowLeast = 48
	// windowDoubt lowers the log odds of a window: the worst of many looks worse than the text is.
	windowDoubt = 0.5
)

type sums struct {
	words, wordsLearnt, gramsLearnt float32
	numWords, numGrams              int
}

func (s *sums) add(other *sums) {
	s.words += other.words
	s.wordsLearnt += other.wordsLearnt
	s.gramsLearnt += other.gramsLearnt
	s.numWords += other.numWords
	s.numGrams += other.numGrams
}

func (s *sums) inputs(bias float64) inputs {
	word, gram := shares(s.numWords+s.numGrams, s.numWords)
	return inputs{
		1, float64(s.words) / math.Sqrt(float64(s.numWords)+1), lengthInput(s.numWords + s.numGrams),
		bias + float64(s.wordsLearnt)*word + float64(s.gramsLearnt)*gram,
	}
}

func lengthInput(features int) float64 { return math.Log(float64(features)+1)/5 - 1 }

// stepSums are the sums of a text and of each step of it.
type stepSums struct {
	all   sums
	steps []sums
}

func (s *stepSums) begin(words int) {
	n := 1
	if words >= windowLeast {
		n = words / windowStep
	}
	s.all = sums{}
	s.steps = append(s.steps[:0], make([]sums, n)...)
}

// note adds a feature at a word to the text and to its step. The remainder of the text belongs to the last step.
func (s *stepSums) note(word uint32, isWord bool, counted, learnt float32) {
	s.all.note(isWord, counted, learnt)
	if len(s.steps) > 1 {
		s.repeat(word, isWord, counted, learnt)
	}
}

func (s *stepSums) repeat(word uint32, isWord bool, counted, learnt float32) {
	s.steps[min(int(word)/windowStep, len(s.steps)-1)].note(isWord, counted, learnt)
}

func (s *sums) note(isWord bool, counted, learnt float32) {
	if !isWord {
		s.gramsLearnt += learnt
		s.numGrams++
		return
	}
	s.words += counted
	s.wordsLearnt += learnt
	s.numWords++
}

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
