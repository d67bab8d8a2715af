package rules

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"antirobot/rules/texts"
)

// world is an Env that remembers what rules did to it.
type world struct {
	values  map[string]Value
	counts  map[string]int64
	trained []string
	logged  []string
	adds    []string
	counter uint64
	bad     uint64
	judged  uint64
	listed  bool
	texts   map[string]*texts.Set
	factors []float32
}

func newWorld() *world {
	return &world{counts: map[string]int64{}, values: map[string]Value{
		"text": {Kind: Text, Text: "Hello, good world"},
		"from": {Kind: UniqueInt, Int: 1212},
		"age":  {Kind: Int, Int: -3},
		"ip":   {Kind: IP, IP: netip.MustParseAddr("10.1.2.3")},
	}}
}

func (w *world) env() *Env {
	return &Env{Attributes: w, Storages: w, Models: w, Logs: w, Counters: w, Lists: w}
}

func (w *world) Attribute(name string) (Value, bool) {
	v, ok := w.values[name]
	return v, ok
}

func (w *world) Frequency(_ context.Context, storage string, key []byte, n int64, _ time.Duration) (int64, error) {
	if storage != "storage" && storage != "other" {
		return 0, Faultf(CodeProperty, "there is no property %s", storage)
	}
	k := storage + string(key)
	w.counts[k] += n
	return w.counts[k], nil
}

func (w *world) Draw(_ context.Context, storage string, key []byte, b Bucket) (time.Duration, error) {
	k := storage + string(key)
	if w.counts[k] >= b.Burst {
		return b.Every, nil
	}
	w.counts[k]++
	return 0, nil
}

func (w *world) Score(_ context.Context, model, text string) (float64, error) {
	if model != "model" {
		return 0, Faultf(2005, "%s is not a model", model)
	}
	if strings.Contains(text, "spam") {
		return 0.75, nil
	}
	return 0.25, nil
}

func (w *world) Train(_ context.Context, _, text string, good bool) error {
	marker := "bad"
	if good {
		marker = "good"
	}
	w.trained = append(w.trained, marker+":"+text)
	return nil
}

func (w *world) Put(_ context.Context, log, tag string, r *Run) error {
	w.logged = append(w.logged, log+"|"+tag+"|"+strings.Join(r.AppendTags(nil), ","))
	return nil
}

func (w *world) Count(_ context.Context, u CounterUse) (n, of uint64, err error) {
	value := string(appendValue(nil, u.Value))
	switch u.Op {
	case CountShare:
		return w.bad, w.judged, nil
	case CountAdd:
		w.adds = append(w.adds, u.Prefix+":"+value)
		w.counter += u.N
	case CountPair:
		w.adds = append(w.adds, value+string(appendValue(nil, u.Unique)))
	case CountMark:
		w.adds = append(w.adds, u.Prefix+":"+value+":"+strconv.Itoa(int(u.As)))
	}
	return w.counter, 0, nil
}

func (w *world) Listed(context.Context, string, Value) (bool, error) { return w.listed, nil }

func (w *world) Texts(list string) *texts.Set { return w.texts[list] }

// Bind gives formula f, which adds half to the score.
func (w *world) Bind(name string, factors []string) (Scorer, error) {
	if i := slices.Index(factors, "tag_missing"); name != "f" || i >= 0 {
		return nil, errors.New("the factors do not fit")
	}
	return scorer(func(x []float32) float32 { w.factors = append(w.factors[:0], x...); return x[0] + 0.5 }), nil
}

func (w *world) Names() []string { return []string{"f"} }

type scorer func(x []float32) float32

func (s scorer) Score(x []float32) float32 { return s(x) }
