package learn

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"antirobot/rules"
)

// robinson is the combination of the original system, over words counted each time they come:
//
//	p = badness ÷ (badness + goodness), each the word's count over all words of its kind, at most 1
//
// The strongest 2048 words with |p−0.5| ≥ 0.1, clamped to 0.0001…0.9999, are joined: P = 1 − (Π(1−p))^(1/n), Q = 1
// − (Πp)^(1/n), score = (1 + (P−Q)/(P+Q)) / 2 (Gary Robinson, «A statistical approach to the spam problem», Linux
// Journal 107).
type robinson struct {
	counts table
	pool   sync.Pool
}

const robinsonWords = 2048

func newRobinson(maxFeatures int) *robinson {
	m := &robinson{}
	m.counts.init(maxFeatures)
	m.pool.New = func() any { return new([]uint64) }
	return m
}

// Ready is true from the first text on, as in the original system.
func (m *robinson) Ready() bool { return m.counts.texts.Load() > 0 }

func (m *robinson) Size() Size { return m.counts.measure() }

func appendWords(dst []uint64, text string, f func(word string)) []uint64 {
	hash, from := uint64(rules.FNVOffset), -1
	for i, r := range text {
		if rules.IsWord(r) {
			if from < 0 {
				from = i
			}
			hash = (hash ^ uint64(toLower(r))) * rules.FNVPrime
			continue
		}
		if from >= 0 {
			dst = append(dst, rules.Mix(hash)|1)
			f(text[from:i])
			hash, from = rules.FNVOffset, -1
		}
	}
	if from >= 0 {
		dst = append(dst, rules.Mix(hash)|1)
		f(text[from:])
	}
	return dst
}

func (m *robinson) words(text string) (words *[]uint64) {
	words, ok := m.pool.Get().(*[]uint64)
	if !ok {
		panic("BUG: the pool holds something else")
	}
	*words = appendWords((*words)[:0], text, func(string) {})
	return words
}

func (m *robinson) Train(text string, good bool) {
	words := m.words(text)
	defer m.pool.Put(words)
	m.counts.train(*words, good, uint64(len(*words)))
}

func (m *robinson) probability(word, totals uint64) (p float64, ok bool) {
	good, bad := m.counts.get(word)
	if good|bad == 0 {
		return 0, false
	}
	goodness := min(1, float64(good)/max(1, float64(totals>>32)))
	badness := min(1, float64(bad)/max(1, float64(uint32(totals))))
	p = badness / (badness + goodness)
	return max(0.0001, min(0.9999, p)), math.Abs(p-0.5) >= 0.1
}

func (m *robinson) Score(text string) float64 {
	words := m.words(text)
	defer m.pool.Put(words)
	slices.Sort(*words)
	totals := m.counts.words.Load()
	probabilities := make([]float64, 0, 64)
	for _, w := range slices.Compact(*words) {
		if p, ok := m.probability(w, totals); ok {
			probabilities = append(probabilities, p)
		}
	}
	if len(probabilities) == 0 {
		return 0.5
	}
	if len(probabilities) > robinsonWords {
		slices.SortFunc(probabilities, func(a, b float64) int { return cmp.Compare(math.Abs(b-0.5), math.Abs(a-0.5)) })
		probabilities = probabilities[:robinsonWords]
	}
	var notBad, bad float64
	for _, p := range probabilities {
		notBad += math.Log1p(-p)
		bad += math.Log(p)
	}
	n := float64(len(probabilities))
	p, q := 1-math.Exp(notBad/n), 1-math.Exp(bad/n)
	return (1 + (p-q)/(p+q)) / 2
}

func (m *robinson) Explain(text string) []Spoke {
	var tokens []string
	words := appendWords(nil, text, func(w string) { tokens = append(tokens, strings.ToLower(w)) })
	totals := m.counts.words.Load()
	var out []Spoke
	for i, w := range words {
		if p, ok := m.probability(w, totals); ok && !slices.Contains(tokens[:i], tokens[i]) {
			out = append(out, Spoke{"word " + tokens[i], math.Log(p / (1 - p))})
		}
	}
	return strongest(out)
}

// Fit implements Learner: every text counts at once.
func (m *robinson) Fit() {}
