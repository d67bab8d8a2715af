package formula

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// oblivious is an ensemble of trees that ask the same question at every node of a level. A tree's answers are the bits
// of the leaf's number, the first question's answer being the lowest.
type oblivious struct {
	scale, bias float64
	trees       []obliviousTree
	splits      []obliviousSplit
	leaves      []float64
	means       []float32 // by tree and depth k: 2^k means, by the answers so far
	moves       []float32
}

type obliviousTree struct {
	split, leaf, mean uint32 // where this tree's begin
	depth             uint8
}

type obliviousSplit struct {
	border  float32
	factor  uint16
	missing uint8 // the answer for NaN
}

// answer is 1 if x is above the border.
func (s *obliviousSplit) answer(x []float32) uint32 {
	v := x[s.factor]
	var above, unknown uint32
	if v > s.border {
		above = 1
	}
	if v != v { // NaN is the only value that differs from itself; this compiles to no call
		unknown = uint32(s.missing)
	}
	return above | unknown
}

func (o *oblivious) raw(x []float32) float32 {
	var sum float64
	for i := range o.trees {
		t := &o.trees[i]
		var leaf uint32
		for k := range t.depth {
			leaf |= o.splits[t.split+uint32(k)].answer(x) << k
		}
		sum += o.leaves[t.leaf+leaf]
	}
	return float32(sum*o.scale + o.bias)
}

func (o *oblivious) explain(dst, x []float32) {
	for i := range o.trees {
		t := &o.trees[i]
		var leaf uint32
		at, mean := t.mean, o.means[t.mean]
		for k := range t.depth {
			s := &o.splits[t.split+uint32(k)]
			leaf |= s.answer(x) << k
			at += 1 << k
			next := o.means[at+leaf]
			dst[s.factor] += next - mean
			mean = next
		}
	}
}

// catModel is the part that we read of CatBoost's export (save_model with format="json"), as described by its tutorial
// model_analysis/model_export_as_json.
type catModel struct {
	Info struct {
		Params catParams `json:"params"`
	} `json:"model_info"`
	Features struct {
		Float catFeatures `json:"float_features"`
	} `json:"features_info"`
	Trees        catTrees  `json:"oblivious_trees"`
	ScaleAndBias catLinear `json:"scale_and_bias"`
}

type catFeature struct {
	Index int    `json:"feature_index"`      // among the float features; splits use it
	Flat  int    `json:"flat_feature_index"` // among all features
	ID    string `json:"feature_id"`
	NaN   string `json:"nan_value_treatment"`
}

type catTree struct {
	Splits  catSplits `json:"splits"`
	Leaves  []float64 `json:"leaf_values"`
	Weights []float64 `json:"leaf_weights"`
}

type catSplit struct {
	Feature int     `json:"float_feature_index"`
	Border  float32 `json:"border"`
	Type    string  `json:"split_type"`
}

// The lists count what they read, so that a short file can't demand much memory.
type (
	catFeatures []catFeature
	catSplits   []catSplit
	catTrees    []*catTree
)

// UnmarshalJSON implements json.Unmarshaler.
func (l *catFeatures) UnmarshalJSON(b []byte) error {
	return eachOf(b, "float_features", MaxFactors, func(d *json.Decoder) error {
		var f catFeature
		err := d.Decode(&f)
		*l = append(*l, f)
		return err
	})
}

// maxLevels bounds the depth of an oblivious tree, as CatBoost does.
const maxLevels = 16

// UnmarshalJSON implements json.Unmarshaler.
func (l *catSplits) UnmarshalJSON(b []byte) error {
	return eachOf(b, "splits", maxLevels, func(d *json.Decoder) error {
		var s catSplit
		err := d.Decode(&s)
		*l = append(*l, s)
		return err
	})
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *catTrees) UnmarshalJSON(b []byte) error {
	leaves := 0
	return eachOf(b, "oblivious_trees", maxTrees, func(d *json.Decoder) error {
		t := &catTree{}
		if err := d.Decode(t); err != nil {
			return fmt.Errorf("oblivious_trees[%d]: %w", len(*l), err)
		}
		if leaves += len(t.Leaves); leaves > maxNodes {
			return fmt.Errorf("oblivious_trees: more than %d leaves", maxNodes)
		}
		if err := t.check(); err != nil {
			return fmt.Errorf("oblivious_trees[%d]: %w", len(*l), err)
		}
		*l = append(*l, t)
		return nil
	})
}

func (t *catTree) check() error {
	if want := 1 << len(t.Splits); len(t.Leaves) != want {
		return fmt.Errorf("%d leaf_values for %d splits; one label needs %d", len(t.Leaves), len(t.Splits), want)
	}
	for i, s := range t.Splits {
		if s.Type != "FloatFeature" && s.Type != "" {
			return fmt.Errorf("splits[%d] is a %.60s; train with numbers only", i, s.Type)
		}
	}
	return nil
}

// catLinear is [scale, [bias]], or [scale, bias] in older files.
type catLinear struct {
	scale, bias float64
	is          bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *catLinear) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return errors.New("scale_and_bias is not a pair")
	}
	var list []float64
	if err := json.Unmarshal(pair[1], &list); err != nil {
		list = make([]float64, 1)
		if err := json.Unmarshal(pair[1], &list[0]); err != nil {
			return fmt.Errorf("scale_and_bias: %w", err)
		}
	}
	if len(list) != 1 {
		return fmt.Errorf("scale_and_bias has %d biases; train one model for one label", len(list))
	}
	l.bias, l.is = list[0], true
	return json.Unmarshal(pair[0], &l.scale)
}

// catParams are the parameters of the training, as an object or as a string that holds one.
type catParams struct {
	loss string
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *catParams) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		b = []byte(text)
	}
	var in struct {
		Loss struct {
			Type string `json:"type"`
		} `json:"loss_function"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("model_info.params: %w", err)
	}
	p.loss = in.Loss.Type
	return nil
}

func (p *catParams) link() (link, error) {
	switch p.loss {
	case "Logloss", "CrossEntropy":
		return logistic, nil
	case "RMSE", "MAE":
		return clamp, nil
	case "":
		return 0, errors.New("model_info.params.loss_function is missing, so what the leaves mean is not known")
	}
	return 0, fmt.Errorf("the loss function is %.60q; train with Logloss", p.loss)
}

func (m *Model) loadCatBoost(data []byte) (err error) {
	var f catModel
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if m.link, err = f.Info.Params.link(); err != nil {
		return err
	}
	if len(f.Trees) == 0 {
		return errors.New("there are no trees")
	}
	if !f.ScaleAndBias.is {
		f.ScaleAndBias.scale = 1
	}
	factorOf, missing, err := f.features(m.names)
	if err != nil {
		return err
	}
	o := &oblivious{scale: f.ScaleAndBias.scale, bias: f.ScaleAndBias.bias, moves: m.weight}
	if bad(o.scale) || bad(o.bias) {
		return errors.New("scale_and_bias is not a number")
	}
	lacks := unknown{names: m.names}
	set := map[int]bool{}
	for i, t := range f.Trees {
		for k, s := range t.Splits {
			switch {
			case s.Feature < 0 || s.Feature >= len(factorOf):
				return fmt.Errorf("oblivious_trees[%d].splits[%d]: feature %d of %d", i, k, s.Feature, len(factorOf))
			case isNaN(s.Border):
				return fmt.Errorf("oblivious_trees[%d].splits[%d]: the border is not a number", i, k)
			case factorOf[s.Feature] < 0:
				lacks.add(s.Feature, f.ids())
			default:
				set[factorOf[s.Feature]] = true
			}
		}
		if err := o.add(t, factorOf, missing); err != nil {
			return fmt.Errorf("oblivious_trees[%d]: %w", i, err)
		}
	}
	if err := lacks.err(); err != nil {
		return err
	}
	m.oblivious, m.bias = o, o.bias
	for i := range o.trees {
		m.bias += float64(o.means[o.trees[i].mean])
	}
	m.used(set)
	return nil
}

// ids returns the names of the features in the order in which splits number them.
func (f *catModel) ids() []string {
	out := make([]string, len(f.Features.Float))
	for i := range f.Features.Float {
		out[i] = f.Features.Float[i].ID
	}
	return out
}

// features maps the float features to factors, and returns for each the answer to NaN. A name that is the feature's own
// number does not count: CatBoost gives it to a feature without a name.
func (f *catModel) features(names []string) (factorOf []int, missing []uint8, err error) {
	list := f.Features.Float
	named := false
	for i, c := range list {
		if c.Index != i {
			return nil, nil, fmt.Errorf("float_features[%d] has the feature_index %d", i, c.Index)
		}
		named = named || c.ID != "" && c.ID != strconv.Itoa(c.Flat)
		switch c.NaN {
		case "AsIs", "AsFalse", "":
			missing = append(missing, 0)
		case "AsTrue":
			missing = append(missing, 1)
		default:
			return nil, nil, fmt.Errorf("float_features[%d].nan_value_treatment: %.60q is not known", i, c.NaN)
		}
	}
	var ids []string
	if named {
		ids = f.ids()
	}
	factorOf, err = matchNames(ids, len(list), names)
	return factorOf, missing, err
}

// add appends a tree, with its means by depth.
func (o *oblivious) add(t *catTree, factorOf []int, missing []uint8) error {
	depth := len(t.Splits)
	o.trees = append(o.trees, obliviousTree{
		split: uint32(len(o.splits)), leaf: uint32(len(o.leaves)), mean: uint32(len(o.means)), depth: uint8(depth), //nolint:gosec // MaxNodes
	})
	for _, s := range t.Splits {
		o.splits = append(o.splits, obliviousSplit{border: s.Border, factor: uint16(max(factorOf[s.Feature], 0)), missing: missing[s.Feature]}) //nolint:gosec // MaxFactors
	}
	for i, v := range t.Leaves {
		if bad(v) || bad(v*o.scale) {
			return fmt.Errorf("leaf_values[%d] is not a number", i)
		}
	}
	o.leaves = append(o.leaves, t.Leaves...)

	// From the leaves upwards: the mean over the leaves that share the lowest k bits, weighted by what training saw.
	sums, weights := make([][]float64, depth+1), make([][]float64, depth+1)
	sums[depth], weights[depth] = t.values(o.scale), t.covers()
	for k := depth - 1; k >= 0; k-- {
		sums[k], weights[k] = make([]float64, 1<<k), make([]float64, 1<<k)
		for j := range sums[k] {
			a, b := j, j+1<<k
			wa, wb := weights[k+1][a], weights[k+1][b]
			weights[k][j] = wa + wb
			sums[k][j] = (sums[k+1][a] + sums[k+1][b]) / 2
			if wa+wb > 0 {
				sums[k][j] = (sums[k+1][a]*wa + sums[k+1][b]*wb) / (wa + wb)
			}
		}
	}
	for k := range sums {
		for j, v := range sums[k] {
			o.means = append(o.means, float32(v))
			if k > 0 {
				parent := j &^ (1 << (bits.Len(uint(len(sums[k]))) - 2))
				factor := max(factorOf[t.Splits[k-1].Feature], 0)
				o.moves[factor] += float32(weights[k][j] / weights[0][0] * math.Abs(v-sums[k-1][parent]))
			}
		}
	}
	return nil
}

func (t *catTree) values(scale float64) []float64 {
	out := make([]float64, len(t.Leaves))
	for i, v := range t.Leaves {
		out[i] = v * scale
	}
	return out
}

// covers returns the weights of the leaves; equal ones if the file has none that make sense.
func (t *catTree) covers() []float64 {
	var sum float64
	for _, w := range t.Weights {
		if !(w >= 0) {
			w = math.Inf(1)
		}
		sum += w
	}
	if len(t.Weights) == len(t.Leaves) && sum > 0 && !bad(sum) {
		return t.Weights
	}
	equal := make([]float64, len(t.Leaves))
	for i := range equal {
		equal[i] = 1
	}
	return equal
}

// bad reports whether a value is not a number, or so large that sums of it would not be one.
func bad(v float64) bool { return !(math.Abs(v) <= 1e30) }
