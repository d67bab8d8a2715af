//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package formula

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var fuzzNames = []string{"a", "b", "c", "pages", "share", "pages_1m", "gap_mean", "depth", "night", "age"}

// survives loads hostile input. If that loads, it scores and explains: within [0,1], and adding up.
func survives(t *testing.T, data []byte) {
	m, err := Load(data, fuzzNames)
	if err != nil {
		return
	}
	r := rand.New(rand.NewPCG(1, uint64(len(data))))
	x, zeros := make([]float32, len(fuzzNames)), make([]float32, len(fuzzNames))
	for range 3 {
		for i := range x {
			x[i] = float32(r.NormFloat64() * 10)
			if r.IntN(4) == 0 {
				x[i] = nan
			}
		}
		for _, row := range [][]float32{x, zeros} {
			if s := m.Score(row); !(s >= 0 && s <= 1) {
				t.Fatalf("score %v", s)
			}
			m.Explain(nil, row)
		}
	}
	if m.Version() == "" || len(m.Importance()) != len(fuzzNames) {
		t.Fatalf("version %q", m.Version())
	}
}

func seeds(f *testing.F, more ...string) {
	for _, s := range more {
		f.Add([]byte(s))
	}
}

func FuzzXGBoost(f *testing.F) {
	seeds(f, tiny(), tiny("[1,7,4]", "[3,1,0]", `"5E-1"`, `"[5E-1]"`), tiny("binary:logistic", "reg:squarederror"))
	files, _ := filepath.Glob("testdata/xgboost/*art.json")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, data) })
}

func FuzzCatBoost(f *testing.F) {
	seeds(f, cat, strings.Replace(cat, "Logloss", "RMSE", 1), strings.Replace(cat, "[-100]", "-1", 1))
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, data) })
}

func FuzzCard(f *testing.F) {
	seeds(f, shop, `{"version": "v", "bias": 0, "factors": []}`)
	f.Fuzz(func(t *testing.T, data []byte) { survives(t, data) })
}

// TestHostileFiles: a file costs memory in proportion to its size, whatever it claims.
func TestHostileFiles(t *testing.T) {
	const size = 1 << 20
	f := func(name, before, each, after string) {
		t.Helper()
		data := []byte(before + strings.Repeat(each, (size-len(before))/len(each)) + strings.TrimSuffix(each, ",") + after)
		var was, is runtime.MemStats
		runtime.ReadMemStats(&was)
		_, err := Load(data, []string{"a", "b"})
		runtime.ReadMemStats(&is)
		if err == nil {
			t.Errorf("%s: loaded", name)
		}
		if got := is.TotalAlloc - was.TotalAlloc; got > 40*size {
			t.Errorf("%s: %d MB for %d", name, got>>20, size>>20)
		}
	}
	f("trees", `{"version":[1],"learner":{"gradient_booster":{"model":{"trees":[`, `{},`, `]}}}}`)
	f("trees of nothing", `{"version":[1],"learner":{"gradient_booster":{"model":{"trees":[`, `{"left_children":[-1],"right_children":[-1],"split_indices":[0],"split_conditions":[1],"default_left":[0]},`, `]}}}}`)
	f("names", `{"learner":{"feature_names":[`, `"",`, `]}}`)
	f("nodes", `{"learner":{"gradient_booster":{"model":{"trees":[{"left_children":[`, `1,`, `]}]}}}}`)
	f("flags", `{"learner":{"gradient_booster":{"model":{"trees":[{"default_left":[`, `1,`, `]}]}}}}`)
	f("depth", ``, `{"learner":`, ``)
	f("lists in lists", `{"oblivious_trees":`, `[`, ``)
	f("oblivious trees", `{"oblivious_trees":[`, `{"leaf_values":[1]},`, `]}`)
	f("features", `{"oblivious_trees":[],"features_info":{"float_features":[`, `{},`, `]}}`)
	f("splits", `{"oblivious_trees":[{"splits":[`, `{},`, `]}]}`)
	f("a large card", "version: v\nbias: 0\nfactors:\n", "- {name: a}\n", "")
	f("not a model", "", "\x00", "")
	if _, err := Load(make([]byte, MaxFile+1), []string{"a"}); err == nil || !strings.Contains(err.Error(), "bytes, more than") {
		t.Errorf("too large: %v", err)
	}

	// A card within the size limit, made of aliases of aliases.
	var bomb strings.Builder
	bomb.WriteString("version: v\nbias: 0\nfactors:\n- &a0 {name: a}\n")
	for i := range 200 {
		bomb.WriteString("- &a" + string(rune('a'+i%26)) + " [*a0, *a0, *a0, *a0, *a0, *a0]\n")
	}
	if _, err := Load([]byte(bomb.String()), []string{"a"}); err == nil {
		t.Error("aliases were followed")
	}
}
