package message

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// learner is the algorithm of a model. Score and explain are safe for concurrent use with train.
type learner interface {
	// score returns how bad text looks, 0 to 1; more than 0.5 is bad. A text of unknown words is 0.5.
	score(text string) float64
	train(text string, good bool)
	// explain returns what spoke, the strongest first.
	explain(text string) []Spoke
	// appendState appends all that the learner knows; loadState is its inverse, on a new learner.
	appendState(dst []byte) []byte
	loadState(src []byte) error
	table() *table
}

// Spoke is a token of a text and what it says: its weight is positive for bad.
type Spoke struct {
	Token     string
	Weight    float64
	Good, Bad uint32 // in how many texts of each kind it was seen
}

// The kinds of models.
const (
	ModelDefault  = "default"
	ModelRobinson = "robinson"
)

func newLearner(kind string, maxFeatures int) learner {
	if kind == ModelRobinson {
		return newRobinson(maxFeatures)
	}
	return newBayes(maxFeatures)
}

// bayes is the default model, for short texts in many languages. Each feature has log odds by the texts in which it was
// seen, drawn towards zero while it is rare:
//
//	p = bad/Bad ÷ (bad/Bad + good/Good),  n = bad+good,  weight = ln (s/2 + n·p) − ln (s/2 + n·(1−p)),  s = 0.1
//
// The weights of words and those of letters are summed apart, each divided by the root of their number, because
// neighbours say the same thing over again. Four numbers (bias, words, letters, length) join the sums; they are learnt
// by logistic regression from texts that the model is about to learn, so each is judged before it is known.
type bayes struct {
	counts table
	stems  *stemCache
	pool   sync.Pool // *extractor

	mu    sync.Mutex // of train: a text is scored and counted as one
	blend atomic.Pointer[blend]
}

// shrink is s in the formula.
const shrink = 0.1

// calibrated is the number of texts of each kind from which the blend learns; below, every text would move it too far.
const calibrated = 16

// blend joins the sums. It is replaced, never changed.
type blend struct {
	weights, squares [4]float64 // squares of past gradients: AdaGrad
}

func newBayes(maxFeatures int) *bayes {
	b := &bayes{stems: newStemCache(1 << 16)}
	b.counts.init(maxFeatures)
	b.pool.New = func() any { return newExtractor(b.stems) }
	b.blend.Store(&blend{weights: [4]float64{0, 0.5, 0.5, 0}, squares: [4]float64{0.1, 0.1, 0.1, 0.1}})
	return b
}

func (b *bayes) table() *table { return &b.counts }

func (b *bayes) extractor() *extractor {
	x, ok := b.pool.Get().(*extractor)
	if !ok {
		panic("BUG: the pool holds something else")
	}
	return x
}

func (b *bayes) score(text string) float64 {
	x := b.extractor()
	defer b.pool.Put(x)
	in, known := b.inputs(x.of(text))
	if !known {
		return 0.5
	}
	return sigmoid(b.blend.Load().sum(in))
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

func (l *blend) sum(in [4]float64) (z float64) {
	for i, w := range l.weights {
		z += w * in[i]
	}
	return z
}

// odds turns counts into a weight.
type odds struct{ good, bad float64 } // 1 ÷ the number of texts of each kind

func (b *bayes) odds() odds {
	texts := b.counts.texts.Load()
	return odds{1 / max(1, float64(texts>>32)), 1 / max(1, float64(uint32(texts)))}
}

func (o odds) weight(good, bad uint32) float64 {
	pb, pg := float64(bad)*o.bad, float64(good)*o.good
	n := float64(good+bad) / (pb + pg)
	return math.Log((shrink/2 + n*pb) / (shrink/2 + n*pg))
}

// inputs returns what the blend joins; known is false if no word of the text was ever seen.
func (b *bayes) inputs(features []uint64, strong int) (in [4]float64, known bool) {
	o := b.odds()
	slots := *b.counts.slots.Load()
	var words, grams float64
	for i, f := range features {
		good, bad := find(slots, f)
		if good|bad == 0 {
			continue
		}
		w := o.weight(good, bad)
		if i < strong {
			words += w
			known = known || recognisable(f)
		} else {
			grams += w
		}
	}
	rest := float64(len(features) - strong)
	in = [4]float64{1, words / math.Sqrt(float64(strong)+1), grams / math.Sqrt(rest+1), math.Log(float64(len(features))+1)/5 - 1}
	return in, known
}

func (b *bayes) train(text string, good bool) {
	x := b.extractor()
	defer b.pool.Put(x)
	features, strong := x.of(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	texts := b.counts.texts.Load()
	if min(texts>>32, texts&math.MaxUint32) >= calibrated {
		if in, known := b.inputs(features, strong); known {
			b.blend.Store(b.blend.Load().learn(in, good))
		}
	}
	b.counts.train(features, good, uint64(len(features)))
}

// learn returns the blend after one text.
func (l *blend) learn(in [4]float64, good bool) *blend {
	const rate = 0.5
	next := *l
	wrong := sigmoid(l.sum(in))
	if !good {
		wrong--
	}
	for i := range in {
		g := wrong * in[i]
		next.squares[i] += g * g
		next.weights[i] -= rate * g / math.Sqrt(next.squares[i])
	}
	return &next
}

func (b *bayes) explain(text string) []Spoke {
	x := newExtractor(b.stems)
	x.explain = true
	features, strong := x.of(text)
	o, l := b.odds(), b.blend.Load()
	var out []Spoke
	for i, f := range features {
		good, bad := b.counts.get(f)
		if good|bad == 0 {
			continue
		}
		w := o.weight(good, bad) * l.weights[1] / math.Sqrt(float64(strong)+1)
		if i >= strong {
			w = o.weight(good, bad) * l.weights[2] / math.Sqrt(float64(len(features)-strong)+1)
		}
		out = append(out, Spoke{x.names[i], w, good, bad})
	}
	return strongest(out)
}

func strongest(out []Spoke) []Spoke {
	slices.SortFunc(out, func(a, b Spoke) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight)), strings.Compare(a.Token, b.Token))
	})
	return out
}

const stateVersion = 1

func (b *bayes) appendState(dst []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	dst = append(dst, stateVersion, 'b')
	l := b.blend.Load()
	for i := range l.weights {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(l.weights[i]))
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(l.squares[i]))
	}
	return b.counts.append(dst)
}

var errState = errors.New("the model's state is not readable")

func (b *bayes) loadState(src []byte) error {
	if len(src) < 2+64 || src[0] != stateVersion || src[1] != 'b' {
		return errState
	}
	var l blend
	for i := range l.weights {
		l.weights[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[2+16*i:]))
		l.squares[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[10+16*i:]))
	}
	b.blend.Store(&l)
	return b.counts.load(src[2+64:])
}

// robinson is the combination that the original system had: words alone, counted each time they come.
//
//	p = badness ÷ (badness + goodness), each the word's count over all words of its kind, at most 1
//
// of the words with |p−0.5| ≥ 0.1, clamped to 0.0001…0.9999, the strongest 2048 are joined: P = 1 − (Π(1−p))^(1/n),
// Q = 1 − (Πp)^(1/n), and the score is (1 + (P−Q)/(P+Q)) / 2 (Gary Robinson, «A statistical approach to the spam
// problem», Linux Journal 107).
type robinson struct {
	counts table
	pool   sync.Pool // *[]uint64
}

const robinsonWords = 2048

func newRobinson(maxFeatures int) *robinson {
	m := &robinson{}
	m.counts.init(maxFeatures)
	m.pool.New = func() any { return new([]uint64) }
	return m
}

func (m *robinson) table() *table { return &m.counts }

// appendWords appends the hashes of the words of text, which are runs of letters, digits and _ without case. f gets each as
// it stands.
func appendWords(dst []uint64, text string, f func(word string)) []uint64 {
	hash, from := uint64(fnvOffset), -1
	for i, r := range text {
		if isWordRune(r) {
			if from < 0 {
				from = i
			}
			hash = (hash ^ uint64(toLower(r))) * fnvPrime
			continue
		}
		if from >= 0 {
			dst = append(dst, mix64(hash)|1)
			f(text[from:i])
			hash, from = fnvOffset, -1
		}
	}
	if from >= 0 {
		dst = append(dst, mix64(hash)|1)
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

func (m *robinson) train(text string, good bool) {
	words := m.words(text)
	defer m.pool.Put(words)
	m.counts.train(*words, good, uint64(len(*words)))
}

// probability returns how bad a word is; ok is false for one that says nothing.
func (m *robinson) probability(word, totals uint64) (p float64, good, bad uint32, ok bool) {
	good, bad = m.counts.get(word)
	if good|bad == 0 {
		return 0, 0, 0, false
	}
	goodness := min(1, float64(good)/max(1, float64(totals>>32)))
	badness := min(1, float64(bad)/max(1, float64(uint32(totals))))
	p = badness / (badness + goodness)
	return max(0.0001, min(0.9999, p)), good, bad, math.Abs(p-0.5) >= 0.1
}

func (m *robinson) score(text string) float64 {
	words := m.words(text)
	defer m.pool.Put(words)
	slices.Sort(*words)
	totals := m.counts.words.Load()
	probabilities := make([]float64, 0, 64)
	for _, w := range slices.Compact(*words) {
		if p, _, _, ok := m.probability(w, totals); ok {
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
	var notBad, bad float64 // logarithms of the products
	for _, p := range probabilities {
		notBad += math.Log1p(-p)
		bad += math.Log(p)
	}
	n := float64(len(probabilities))
	p, q := 1-math.Exp(notBad/n), 1-math.Exp(bad/n)
	return (1 + (p-q)/(p+q)) / 2
}

func (m *robinson) explain(text string) []Spoke {
	var tokens []string
	words := appendWords(nil, text, func(w string) { tokens = append(tokens, strings.ToLower(w)) })
	totals := m.counts.words.Load()
	var out []Spoke
	for i, w := range words {
		if p, good, bad, ok := m.probability(w, totals); ok && !slices.Contains(tokens[:i], tokens[i]) {
			out = append(out, Spoke{"word " + tokens[i], math.Log(p / (1 - p)), good, bad})
		}
	}
	return strongest(out)
}

func (m *robinson) appendState(dst []byte) []byte {
	return m.counts.append(append(dst, stateVersion, 'r'))
}

func (m *robinson) loadState(src []byte) error {
	if len(src) < 2 || src[0] != stateVersion || src[1] != 'r' {
		return errState
	}
	return m.counts.load(src[2:])
}

// cutText returns at most n bytes of s, whole characters.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
