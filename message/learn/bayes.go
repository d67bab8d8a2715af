package learn

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"antirobot/message/varint"
)

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

func (b *bayes) Size() Size { return b.counts.measure() }

func (b *bayes) extractor() *extractor {
	x, ok := b.pool.Get().(*extractor)
	if !ok {
		panic("BUG: the pool holds something else")
	}
	return x
}

func (b *bayes) Score(text string) float64 {
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

func (b *bayes) Train(text string, good bool) {
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

func (b *bayes) Explain(text string) []Spoke {
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

func (b *bayes) AppendState(dst []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	dst = append(dst, stateVersion, 'b')
	for _, w := range b.blend.Load().weights {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(w))
	}
	dst = b.bad.append(b.good.append(dst))
	return b.counts.append(dst)
}

func (b *bayes) LoadState(src []byte) error {
	var l blend
	if len(src) < 2+8*len(l.weights) || src[0] != stateVersion || src[1] != 'b' {
		return ErrState
	}
	src = src[2:]
	for i := range l.weights {
		l.weights[i] = math.Float64frombits(binary.LittleEndian.Uint64(src))
		src = src[8:]
	}
	b.blend.Store(&l)
	r := varint.Reader{Src: src}
	for _, s := range []*textSample{&b.good, &b.bad} {
		for range r.Count() {
			s.add(r.Text())
		}
	}
	if r.Bad {
		return ErrState
	}
	if err := b.counts.load(r.Src); err != nil {
		return err
	}
	texts := b.counts.texts.Load()
	b.fitted = [2]uint64{texts >> 32, texts & math.MaxUint32}
	return nil
}
