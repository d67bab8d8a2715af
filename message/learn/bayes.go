package learn

import (
	"iter"
	"math"
	"sync"
	"sync/atomic"

	"antirobot/rules"
)

// bayes is the default model for short texts. Each word, host or sign has log odds, shrunk towards zero while it is
// rare:
//
//	p = bad/Bad ÷ (bad/Bad + good/Good),  n = bad+good,  weight = ln (s/2 + n·p) − ln (s/2 + n·(1−p)),  s = 0.1
//
// The sum over words is divided by the root of their number, because neighbours repeat each other. A logistic
// regression over words and characters is fitted to a sample, and a blend of bias, words, length and regression to
// the same sample, each text judged as if it had not been learnt. The order of texts does not matter. A long text
// is as bad as its worst window.
type bayes struct {
	counts table
	stems  *stemCache
	pool   sync.Pool

	fit atomic.Pointer[fitted]

	mu        sync.Mutex
	good, bad textSample
	fitted    [2]uint64
}

const shrink = 0.1

func newBayes(maxFeatures int) *bayes {
	b := &bayes{stems: newStemCache(1 << 16)}
	b.counts.init(maxFeatures)
	b.pool.New = func() any { return newExtractor(b.stems) }
	b.fit.Store(&fitted{blend: firstBlend()})
	return b
}

func (b *bayes) Size() Size { return b.counts.measure() }

func (b *bayes) extractor() *extractor {
	x, ok := b.pool.Get().(*extractor)
	if !ok {
		panic("BUG: the pool holds something else")
	}
	return x
}

// fitted is replaced, never changed.
type fitted struct {
	blend      *blend
	regression *regression
}

// Ready reports whether enough texts are known. Before, no text is bad.
func (b *bayes) Ready() bool { return b.fit.Load().regression != nil }

func (b *bayes) Score(text string) float64 {
	now := b.fit.Load()
	if now.regression == nil {
		return 0.5
	}
	x := b.extractor()
	defer b.pool.Put(x)
	features, strong := x.of(text)
	x.sums.begin(int(x.words))
	known := b.sum(x, features, strong, now.regression)
	worst := now.blend.sum(x.sums.all.inputs(now.regression.bias))
	if !known {
		return sigmoid(min(worst, 0))
	}
	for part := range x.sums.windows() {
		worst = max(worst, now.blend.sum(part.inputs(now.regression.bias))-windowDoubt)
	}
	return sigmoid(worst)
}

// sum adds up the features by their first place in the text. A text without a known word, host or number is not
// bad.
func (b *bayes) sum(x *extractor, features []uint64, strong int, m *regression) (known bool) {
	slots, o := *b.counts.slots.Load(), b.odds(0, 0)
	for i, f := range features[:strong] {
		w, ok := o.weight(find(slots, f))
		x.sums.note(x.at[i], true, float32(w), m.weights[place(f)])
		known = known || ok && recognisable(f)
	}
	for i, f := range features[strong:] {
		x.sums.note(x.at[strong+i], false, 0, m.weights[place(f)])
	}
	if len(x.sums.steps) > 1 {
		for _, r := range x.again {
			w := 0.0
			if counted(r.feature) {
				w, _ = o.weight(find(slots, r.feature))
			}
			x.sums.repeat(r.at, counted(r.feature), float32(w), m.weights[place(r.feature)])
		}
	}
	return known
}

// counted excludes characters, which only the regression knows.
func counted(feature uint64) bool { return featureKind(feature>>61) != featureGram }

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

type odds struct {
	good, bad         float64 // 1 ÷ the number of texts of each kind
	goodLeft, badLeft uint32
}

func (b *bayes) odds(goodLeft, badLeft uint32) odds {
	texts := b.counts.texts.Load()
	return odds{
		good:     1 / max(1, float64(texts>>32)-float64(goodLeft)),
		bad:      1 / max(1, float64(uint32(texts))-float64(badLeft)),
		goodLeft: goodLeft, badLeft: badLeft,
	}
}

func (o *odds) weight(good, bad uint32) (w float64, ok bool) {
	good -= min(good, o.goodLeft)
	bad -= min(bad, o.badLeft)
	if good|bad == 0 {
		return 0, false
	}
	pb, pg := float64(bad)*o.bad, float64(good)*o.good
	n := (float64(good) + float64(bad)) / (pb + pg)
	return math.Log((shrink/2 + n*pb) / (shrink/2 + n*pg)), true
}

func (b *bayes) inputs(features []uint64, strong int, o odds) inputs {
	slots := *b.counts.slots.Load()
	var words float64
	for _, f := range features[:strong] {
		w, _ := o.weight(find(slots, f))
		words += w
	}
	return inputs{1, words / math.Sqrt(float64(strong)+1), lengthInput(len(features)), 0}
}

func (b *bayes) Train(text string, good bool) {
	x := b.extractor()
	defer b.pool.Put(x)
	features, strong := x.of(rules.Clip(text, MaxText))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.train(features[:strong], good, uint64(strong))
	if good {
		b.good.add(text)
	} else {
		b.bad.add(text)
	}
}

// Fit implements Learner.
func (b *bayes) Fit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale() {
		x := b.extractor()
		defer b.pool.Put(x)
		b.calibrate(x)
	}
}

func (b *bayes) stale() bool {
	texts := b.counts.texts.Load()
	good, bad := texts>>32, texts&math.MaxUint32
	grew := func(now, then uint64) bool { return now >= then+max(4, min(then, 2*sampleSize)/4) }
	return good >= LeastGood && bad >= LeastBad && (grew(good, b.fitted[0]) || grew(bad, b.fitted[1]))
}

// calibrate fits regression and blend; mu is held. A text of the sample is judged without itself.
func (b *bayes) calibrate(x *extractor) {
	texts := b.counts.texts.Load()
	b.fitted = [2]uint64{texts >> 32, texts & math.MaxUint32}
	var samples []judgedSample
	var examples []example
	add := func(from *textSample, bad bool, o odds, all uint64) {
		for i, t := range from.texts {
			features, strong := x.of(t.text)
			in := b.inputs(features, strong, o)
			samples = append(samples, judgedSample{in, bad, float64(all) / float64(len(from.texts))})
			examples = append(examples, newExample(features, strong, bad, i))
		}
	}
	add(&b.good, false, b.odds(1, 0), b.fitted[0])
	add(&b.bad, true, b.odds(0, 1), min(b.fitted[1], b.fitted[0])) // bad texts are taught more eagerly than they come
	// Both kinds are sorted by hash, so any even mixture is as good as a random order, and the same on every
	// gateway.
	order := mixed(len(b.good.texts), len(b.bad.texts))
	for fold := range regressionFolds {
		m := regress(examples, order, fold, regressionBits)
		for i := range examples {
			if examples[i].fold == fold {
				samples[i].in[blendInputs-1] = m.margin(&examples[i])
			}
		}
	}
	l := fit(samples)
	l.weights[0] -= math.Log1p(doubtfulGood / float64(b.fitted[0]))
	b.fit.Store(&fitted{l, regress(examples, order, -1, regressionBits)})
}

func mixed(good, bad int) []int {
	order := make([]int, 0, good+bad)
	for i, k := 0, 0; i < good || k < bad; {
		if k >= bad || i < good && i*bad <= k*good {
			order = append(order, i)
			i++
		} else {
			order = append(order, good+k)
			k++
		}
	}
	return order
}

func (b *bayes) Explain(text string) []Spoke {
	x := newExtractor(b.stems)
	x.explain = true
	features, strong := x.of(text)
	o, now := b.odds(0, 0), b.fit.Load()
	if now.regression == nil {
		return nil
	}
	l := now.blend
	word, gram := shares(len(features), strong)
	var out []Spoke
	var letters float64
	for i, f := range features {
		r := float64(now.regression.weights[place(f)]) * l.weights[blendInputs-1]
		if i >= strong {
			letters += gram * r
			continue
		}
		good, bad := b.counts.get(f)
		if w, ok := o.weight(good, bad); ok {
			out = append(out, Spoke{x.names[i], w*l.weights[1]/math.Sqrt(float64(strong)+1) + word*r})
		}
	}
	return strongest(append(out, Spoke{Token: characters, Weight: letters}))
}

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
