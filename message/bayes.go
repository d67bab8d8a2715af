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
// neighbours say the same thing over again. Four numbers (bias, words, letters, length) join the sums; they are fitted
// to a sample of the texts, each judged as if it had not been learnt. The order of the texts does not matter.
type bayes struct {
	counts table
	stems  *stemCache
	pool   sync.Pool // *extractor

	blend   atomic.Pointer[blend]
	weights weightCache

	mu        sync.Mutex // of train, and of what follows
	good, bad textSample
	fitted    [2]uint64 // good and bad texts at the last fit
}

// shrink is s in the formula.
const shrink = 0.1

func newBayes(maxFeatures int) *bayes {
	b := &bayes{stems: newStemCache(1 << 16)}
	b.counts.init(maxFeatures)
	b.pool.New = func() any { return newExtractor(b.stems) }
	b.blend.Store(firstBlend())
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
	features, strong := x.of(text)
	in, known := b.inputs(features, strong, b.odds(0, 0))
	if !known {
		return 0.5
	}
	return sigmoid(b.blend.Load().sum(in))
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// odds turns counts into a weight. One text may be left out, of those that the model knows.
type odds struct {
	good, bad         float64 // 1 ÷ the number of texts of each kind
	goodLeft, badLeft uint32  // 1 for the kind of the text that is left out

	cache *weightCache // nil: none
	epoch uint32       // of the cache's entries
}

// weightCache remembers the weights of small counts, which almost all features have: a logarithm and a division each.
// They hold for one number of learnt texts; an entry carries a hash of it, in one word with the weight.
type weightCache [cachedCounts * cachedCounts]atomic.Uint64

const cachedCounts = 48 // counts below are cached

func (b *bayes) odds(goodLeft, badLeft uint32) odds {
	texts := b.counts.texts.Load()
	o := odds{
		good: 1 / max(1, float64(texts>>32)-float64(goodLeft)), bad: 1 / max(1, float64(uint32(texts))-float64(badLeft)),
		goodLeft: goodLeft, badLeft: badLeft,
	}
	if goodLeft|badLeft == 0 {
		o.cache, o.epoch = &b.weights, uint32(mix64(texts+1))|1
	}
	return o
}

// weight returns the weight of a feature; ok is false for one that was never seen.
func (o *odds) weight(good, bad uint32) (w float64, ok bool) {
	good -= min(good, o.goodLeft)
	bad -= min(bad, o.badLeft)
	if good|bad == 0 {
		return 0, false
	}
	if o.cache == nil || good >= cachedCounts || bad >= cachedCounts {
		return o.logOdds(good, bad), true
	}
	e := &o.cache[good*cachedCounts+bad]
	if v := e.Load(); uint32(v) == o.epoch {
		return float64(math.Float32frombits(uint32(v >> 32))), true
	}
	w = o.logOdds(good, bad)
	e.Store(uint64(math.Float32bits(float32(w)))<<32 | uint64(o.epoch))
	return w, true
}

// logOdds rounds to what the cache can hold, so that a weight does not depend on whether it was there.
func (o *odds) logOdds(good, bad uint32) float64 {
	pb, pg := float64(bad)*o.bad, float64(good)*o.good
	n := (float64(good) + float64(bad)) / (pb + pg)
	return float64(float32(math.Log((shrink/2 + n*pb) / (shrink/2 + n*pg))))
}

// inputs returns what the blend joins; known is false if no word of the text was ever seen.
func (b *bayes) inputs(features []uint64, strong int, o odds) (in [4]float64, known bool) {
	slots := *b.counts.slots.Load()
	var words, grams float64
	for i, f := range features {
		w, ok := o.weight(find(slots, f))
		switch {
		case !ok:
		case i < strong:
			words += w
			known = known || recognisable(f)
		default:
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
	features, _ := x.of(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.train(features, good, uint64(len(features)))
	if good {
		b.good.add(text)
	} else {
		b.bad.add(text)
	}
	if b.stale() {
		b.calibrate(x)
	}
}

// stale says whether one kind grew by a tenth since the last fit; mu is held.
func (b *bayes) stale() bool {
	texts := b.counts.texts.Load()
	good, bad := texts>>32, texts&math.MaxUint32
	grew := func(now, then uint64) bool { return now >= then+max(8, then/10) }
	return min(good, bad) >= calibrated && (grew(good, b.fitted[0]) || grew(bad, b.fitted[1]))
}

// calibrate fits the blend; mu is held.
func (b *bayes) calibrate(x *extractor) {
	texts := b.counts.texts.Load()
	b.fitted = [2]uint64{texts >> 32, texts & math.MaxUint32}
	samples := make([]judgedSample, 0, 2*sampleSize)
	add := func(from *textSample, bad bool, o odds, all uint64) {
		for _, t := range from.texts {
			features, strong := x.of(t.text)
			if in, known := b.inputs(features, strong, o); known {
				samples = append(samples, judgedSample{in, bad, float64(all) / float64(len(from.texts))})
			}
		}
	}
	add(&b.good, false, b.odds(1, 0), b.fitted[0])
	add(&b.bad, true, b.odds(0, 1), b.fitted[1])
	b.blend.Store(fit(samples))
}

func (b *bayes) explain(text string) []Spoke {
	x := newExtractor(b.stems)
	x.explain = true
	features, strong := x.of(text)
	o, l := b.odds(0, 0), b.blend.Load()
	var out []Spoke
	for i, f := range features {
		good, bad := b.counts.get(f)
		w, ok := o.weight(good, bad)
		switch {
		case !ok:
			continue
		case i < strong:
			w *= l.weights[1] / math.Sqrt(float64(strong)+1)
		default:
			w *= l.weights[2] / math.Sqrt(float64(len(features)-strong)+1)
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
	for _, w := range b.blend.Load().weights {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(w))
	}
	dst = b.bad.append(b.good.append(dst))
	return b.counts.append(dst)
}

var errState = errors.New("the model's state is not readable")

func (b *bayes) loadState(src []byte) error {
	var l blend
	if len(src) < 2+8*len(l.weights) || src[0] != stateVersion || src[1] != 'b' {
		return errState
	}
	src = src[2:]
	for i := range l.weights {
		l.weights[i] = math.Float64frombits(binary.LittleEndian.Uint64(src))
		src = src[8:]
	}
	b.blend.Store(&l)
	r := entryReader{src: src}
	for _, s := range []*textSample{&b.good, &b.bad} {
		for range r.count() {
			s.add(r.text())
		}
	}
	if r.bad {
		return errState
	}
	if err := b.counts.load(r.src); err != nil {
		return err
	}
	texts := b.counts.texts.Load()
	b.fitted = [2]uint64{texts >> 32, texts & math.MaxUint32}
	return nil
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
