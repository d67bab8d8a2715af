package learn

import (
	_ "embed"
	"encoding/binary"
	"math"
	"sync"
)

// Start is a fixed regression for short English and Russian texts that judges until a domain's model knows enough.
// TestStart -update makes it; docs/messages.md describes it.
type Start struct {
	stems *stemCache
	pool  sync.Pool
	model regression
}

// StartName is the name of the built-in start.
const StartName = "ru-en-1"

const (
	startBits = 16
	startHead = 16 // bias and step
)

//go:embed start-ru-en-1.bin
var startWeights []byte

// NewStart returns the built-in start.
func NewStart() *Start {
	return openStart(startWeights)
}

func openStart(src []byte) *Start {
	s := &Start{stems: newStemCache(1 << 14)}
	s.pool.New = func() any { return newExtractor(s.stems) }
	if len(src) != startHead+1<<startBits {
		panic("BUG: the built-in start is cut")
	}
	s.model.bias = math.Float64frombits(binary.LittleEndian.Uint64(src))
	step := float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8:])))
	s.model.weights = make([]float32, 1<<startBits)
	for i, w := range src[startHead:] {
		s.model.weights[i] = float32(int8(w)) * step
	}
	return s
}

// Score returns how bad text looks, 0 to 1.
func (s *Start) Score(text string) float64 {
	x, ok := s.pool.Get().(*extractor)
	if !ok {
		panic("BUG: the pool holds something else")
	}
	defer s.pool.Put(x)
	features, strong := x.of(text)
	x.sums.begin(int(x.words))
	for i, f := range features {
		x.sums.note(x.at[i], i < strong, 0, s.model.weights[startPlace(f)])
	}
	for _, r := range x.again {
		x.sums.repeat(r.at, counted(r.feature), 0, s.model.weights[startPlace(r.feature)])
	}
	worst := x.sums.all.inputs(s.model.bias)[blendInputs-1]
	for part := range x.sums.windows() {
		worst = max(worst, part.inputs(s.model.bias)[blendInputs-1]-windowDoubt)
	}
	return sigmoid(worst)
}

func startPlace(feature uint64) uint32 { return place(feature) & (1<<startBits - 1) }

func startExample(features []uint64, strong int, bad bool, number int) example {
	e := newExample(features, strong, bad, number)
	for i := range e.features {
		e.features[i] &= 1<<startBits - 1
	}
	return e
}

// Explain returns the features that weighed, the strongest first.
func (s *Start) Explain(text string) []Spoke {
	x := newExtractor(s.stems)
	x.explain = true
	features, strong := x.of(text)
	e := startExample(features, strong, false, 0)
	word, gram := shares(len(features), strong)
	var out []Spoke
	var letters float64
	for i, f := range e.features {
		if w := float64(s.model.weights[f]); i < strong {
			out = append(out, Spoke{Token: x.names[i], Weight: word * w})
		} else {
			letters += gram * w
		}
	}
	return strongest(append(out, Spoke{Token: characters, Weight: letters}))
}
