package formula

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/VictoriaMetrics/metrics"
	"pgregory.net/rapid"
)

// walk is the slow, obvious reference: one tree after another, by pointers, with a branch at each split.
type walk struct {
	base  float32
	trees []*walkNode
}

type walkNode struct {
	factor      int
	threshold   float32
	missingLeft bool
	left, right *walkNode
	value       float32
}

func (w *walk) raw(x []float32) float32 {
	sum := w.base
	for _, n := range w.trees {
		for n.left != nil {
			v := x[n.factor]
			switch {
			case math.IsNaN(float64(v)) && n.missingLeft, v < n.threshold:
				n = n.left
			default:
				n = n.right
			}
		}
		sum += n.value
	}
	return sum
}

// grow makes a random tree: complete down to depth if full, otherwise of any shape.
func grow(r *rand.Rand, depth, factors int, full bool) *walkNode {
	if depth == 0 || !full && r.IntN(4) == 0 {
		return &walkNode{value: float32(r.NormFloat64()) / 10}
	}
	return &walkNode{
		factor: r.IntN(factors), threshold: float32(r.IntN(20)) / 2, missingLeft: r.IntN(2) == 0,
		left: grow(r, depth-1, factors, full), right: grow(r, depth-1, factors, full),
	}
}

func randomWalk(r *rand.Rand, trees, depth, factors int, full bool) *walk {
	w := &walk{base: float32(math.Log(0.25 / 0.75))}
	for range trees {
		w.trees = append(w.trees, grow(r, depth, factors, full))
	}
	return w
}

// file writes the model in XGBoost's format.
func (w *walk) file(names []string) []byte {
	var trees []any
	for _, root := range w.trees {
		t := map[string][]any{}
		var add func(n *walkNode) int
		add = func(n *walkNode) int {
			i := len(t["left_children"])
			for k, v := range map[string]any{
				"left_children": -1, "right_children": -1, "split_indices": n.factor, "split_conditions": n.value, "default_left": 0, "sum_hessian": 1,
			} {
				t[k] = append(t[k], v)
			}
			if n.left != nil {
				t["split_conditions"][i] = n.threshold
				if n.missingLeft {
					t["default_left"][i] = 1
				}
				left, right := add(n.left), add(n.right) // both append to the columns
				t["left_children"][i], t["right_children"][i] = left, right
			}
			return i
		}
		add(root)
		trees = append(trees, t)
	}
	out, err := json.Marshal(map[string]any{
		"version": []int{1, 7, 4},
		"learner": map[string]any{
			"feature_names":       names,
			"learner_model_param": map[string]string{"base_score": "2.5E-1", "num_feature": strconv.Itoa(len(names)), "num_class": "0"},
			"objective":           map[string]string{"name": "binary:logistic"},
			"gradient_booster":    map[string]any{"name": "gbtree", "model": map[string]any{"trees": trees}},
		},
	})
	if err != nil {
		panic(err)
	}
	return out
}

func factorNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("f%d", i)
	}
	return names
}

// TestTreesAreTheReference compares random ensembles with the reference, bit for bit.
func TestTreesAreTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		factors := rapid.IntRange(1, 12).Draw(t, "factors")
		w := randomWalk(r, rapid.IntRange(1, 11).Draw(t, "trees"), rapid.IntRange(0, 7).Draw(t, "depth"), factors, false)
		m, err := Load(w.file(factorNames(factors)), factorNames(factors))
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			x := make([]float32, factors)
			for i := range x {
				x[i] = float32(r.IntN(24)-2) / 2
				if r.IntN(5) == 0 {
					x[i] = nan
				}
			}
			if got, want := m.Raw(x), w.raw(x); got != want {
				t.Fatalf("%v: %v, the reference says %v", x, got, want)
			}
		}
	})
}

func benchRows(r *rand.Rand, factors int) [][]float32 {
	rows := make([][]float32, 256)
	for i := range rows {
		rows[i] = make([]float32, factors)
		for k := range rows[i] {
			rows[i][k] = float32(r.IntN(20)) / 2
			if r.IntN(10) == 0 {
				rows[i][k] = nan
			}
		}
	}
	return rows
}

// BenchmarkScore checks the budget: 100 trees of depth 6 over 80 factors within 5 µs, compared with a walk by pointers.
func BenchmarkScore(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	const factors = 80
	w := randomWalk(r, 100, 6, factors, true)
	m, err := Load(w.file(factorNames(factors)), factorNames(factors))
	if err != nil {
		b.Fatal(err)
	}
	rows := benchRows(r, factors)
	b.Run("trees", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			m.Score(rows[i%len(rows)])
		}
	})
	b.Run("pointers", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			logistic.of(w.raw(rows[i%len(rows)]))
		}
	})
	dst := make([]float32, factors)
	b.Run("explain", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			dst = m.Explain(dst, rows[i%len(rows)])
		}
	})
	b.Run("catboost", func(b *testing.B) {
		m := obliviousOf(b, r, 100, 6, factors)
		b.ReportAllocs()
		for i := range b.N {
			m.Score(rows[i%len(rows)])
		}
	})
}

// obliviousOf makes a random model in CatBoost's format.
func obliviousOf(t testing.TB, r *rand.Rand, trees, depth, factors int) *Model {
	f := map[string]any{
		"model_info":     map[string]any{"params": map[string]any{"loss_function": map[string]string{"type": "Logloss"}}},
		"scale_and_bias": []any{1, []float64{-1}},
	}
	var features, list []any
	for i, n := range factorNames(factors) {
		features = append(features, map[string]any{"feature_index": i, "flat_feature_index": i, "feature_id": n, "nan_value_treatment": "AsIs"})
	}
	for range trees {
		var splits []any
		for range depth {
			splits = append(splits, map[string]any{"float_feature_index": r.IntN(factors), "border": r.IntN(20), "split_type": "FloatFeature"})
		}
		leaves := make([]float64, 1<<depth)
		for i := range leaves {
			leaves[i] = r.NormFloat64() / 10
		}
		list = append(list, map[string]any{"splits": splits, "leaf_values": leaves})
	}
	f["features_info"], f["oblivious_trees"] = map[string]any{"float_features": features}, list
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return mustLoad(t, string(data), factorNames(factors)...)
}

func TestScoreAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := rand.New(rand.NewPCG(1, 2))
	names := factorNames(8)
	trees, err := Load(randomWalk(r, 10, 4, 8, true).file(names), names)
	if err != nil {
		t.Fatal(err)
	}
	models := []*Model{trees, obliviousOf(t, r, 10, 4, 8), mustLoad(t, shop, append([]string{"pages", "share"}, names[2:]...)...)}
	x, dst := make([]float32, 8), make([]float32, 8)
	live := NewLive(Models{trees, models[2]}, Deps{Metrics: metrics.NewSet()})
	live.Score(x, 0.5) // the histogram creates its bucket
	for _, m := range models {
		if n := testing.AllocsPerRun(100, func() { m.Score(x); dst = m.Explain(dst, x) }); n != 0 {
			t.Errorf("%s: %v allocations", m.Version(), n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { live.Score(x, 0.5) }); n != 0 {
		t.Errorf("with a candidate beside: %v allocations", n)
	}
}
