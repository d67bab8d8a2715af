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

// sums is what the features of a part of a text say together: the counts of words, and the regression.
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

// inputs returns what the blend joins.
func (s *sums) inputs(bias float64) inputs {
	word, gram := shares(s.numWords+s.numGrams, s.numWords)
	return inputs{
		1, float64(s.words) / math.Sqrt(float64(s.numWords)+1), lengthInput(s.numWords + s.numGrams),
		bias + float64(s.wordsLearnt)*word + float64(s.gramsLearnt)*gram,
	}
}

// lengthInput tells the blend how long a text of so many features is.
func lengthInput(features int) float64 { return math.Log(float64(features)+1)/5 - 1 }

// stepSums are the sums of a text and of each step of it; a short one has one step. They are used again and again.
type stepSums struct {
	all   sums
	steps []sums
}

// begin makes room for a text of so many words.
func (s *stepSums) begin(words int) {
	n := 1
	if words >= windowLeast {
		n = words / windowStep
	}
	s.all = sums{}
	s.steps = append(s.steps[:0], make([]sums, n)...)
}

// note adds what one feature says at a word: words says whether it counts as one. What is left over at the end of the
// text belongs to the last step.
func (s *stepSums) note(word uint32, isWord bool, counted, learnt float32) {
	s.all.note(isWord, counted, learnt)
	if len(s.steps) > 1 {
		s.repeat(word, isWord, counted, learnt)
	}
}

// repeat adds it to the windows alone: the text as a whole has it already.
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

// windows yields the sums of each window of a long text. A feature counts once in a window.
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
