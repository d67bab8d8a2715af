package formula

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"antirobot/servertest"
)

type golden struct {
	XGBoost       string       `json:"xgboost"`
	Names         []string     `json:"names"`
	Rows          [][]*float32 `json:"rows"`
	Margin        []float32    `json:"margin"`
	Score         []float32    `json:"score"`
	Contributions [][]float32  `json:"contributions"`
}

func (g *golden) row(i int) []float32 {
	out := make([]float32, len(g.Names))
	for k, v := range g.Rows[i] {
		out[k] = nan
		if v != nil {
			out[k] = *v
		}
	}
	return out
}

var nan = float32(math.NaN())

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// compareGolden loads every model of a directory made by tools/xgboost_golden.py, and compares it with XGBoost's own
// predictions: the raw score and the score within two units in the last place, contributions within rounding.
func compareGolden(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.rows.json"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files with rows, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".rows.json")
		t.Run(name, func(t *testing.T) {
			var g golden
			if err := json.Unmarshal(read(t, file), &g); err != nil {
				t.Fatal(err)
			}
			m, err := Load(read(t, filepath.Join(dir, name+".json")), g.Names)
			if err != nil {
				t.Fatal(err)
			}
			if len(g.Rows) < 100 {
				t.Fatalf("only %d rows", len(g.Rows))
			}
			exact := 0
			for i := range g.Rows {
				x := g.row(i)
				raw := m.Raw(x)
				if far(raw, g.Margin[i], 2) {
					t.Fatalf("row %d %v: raw score %v, XGBoost says %v", i, x, raw, g.Margin[i])
				}
				if raw == g.Margin[i] {
					exact++
				}
				score := g.Score[i]
				if name == "squarederror" { // XGBoost's prediction is the raw score, ours a share
					score = min(max(score, 0), 1)
				}
				if got := m.Score(x); far(got, score, 4) {
					t.Fatalf("row %d %v: score %v, XGBoost says %v", i, x, got, score)
				}
				parts := m.Explain(nil, x)
				for k, c := range g.Contributions[i][:len(parts)] {
					if math.Abs(float64(parts[k]-c)) > 2e-5 {
						t.Fatalf("row %d %v: %s contributes %v, XGBoost says %v", i, x, g.Names[k], parts[k], c)
					}
				}
				if bias := g.Contributions[i][len(parts)]; math.Abs(float64(m.Bias()-bias)) > 2e-5 {
					t.Fatalf("bias %v, XGBoost says %v", m.Bias(), bias)
				}
				sumsUp(t, m, x)
			}
			t.Logf("%d rows, %d equal to the bit; XGBoost %s", len(g.Rows), exact, g.XGBoost)
		})
	}
}

// far reports whether two numbers are more than n units in the last place apart.
func far(a, b float32, n int) bool {
	for range n {
		a = math.Nextafter32(a, b)
	}
	return a != b
}

// sumsUp checks that the contributions and the bias add up to the raw score.
func sumsUp(t testing.TB, m *Model, x []float32) {
	t.Helper()
	sum := float64(m.Bias())
	for _, c := range m.Explain(nil, x) {
		sum += float64(c)
	}
	raw := float64(m.Raw(x))
	if math.Abs(sum-raw) > 1e-4*max(1, math.Abs(raw)) {
		t.Fatalf("%v: contributions sum up to %v, the raw score is %v", x, sum, raw)
	}
}

func TestXGBoostGoldenRows(t *testing.T) { compareGolden(t, "testdata/xgboost") }

// TestXGBoostItself trains other models with the real library and compares its predictions for other rows.
func TestXGBoostItself(t *testing.T) {
	python := servertest.Python(t, "xgboost")
	seed := 2 + rand.IntN(1_000_000)
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	out, err := exec.Command(python, "../../tools/xgboost_golden.py", dir, strconv.Itoa(seed)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	compareGolden(t, dir)
}

// tiny returns a model with one split on a (below 2 is -1, otherwise 1, unknown goes left), with parts replaced.
func tiny(replace ...string) string {
	const model = `{"version":[1,7,4],"learner":{"feature_names":["a","b"],"feature_types":[],
"learner_model_param":{"base_score":"5E-1","num_class":"0","num_feature":"2","num_target":"1"},
"objective":{"name":"binary:logistic"},
"gradient_booster":{"name":"gbtree","model":{"gbtree_model_param":{"num_trees":"1","size_leaf_vector":"0"},"tree_info":[0],
"trees":[{"left_children":[1,-1,-1],"right_children":[2,-1,-1],"split_indices":[0,0,0],"split_conditions":[2.0,-1.0,1.0],
"default_left":[1,0,0],"split_type":[0,0,0],"sum_hessian":[4.0,3.0,1.0],"tree_param":{"size_leaf_vector":"0"}}]}}}}`
	return strings.NewReplacer(replace...).Replace(model)
}

func mustLoad(t testing.TB, data string, names ...string) *Model {
	t.Helper()
	m, err := Load([]byte(data), names)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestXGBoostThreshold(t *testing.T) {
	f := func(m *Model, a, want float32) {
		t.Helper()
		if got := m.Raw([]float32{a, 0}); got != want {
			t.Errorf("raw score of %v is %v, want %v", a, got, want)
		}
	}
	left := mustLoad(t, tiny(), "a", "b")
	f(left, 1.9999999, -1)
	f(left, 2, 1) // x < t goes left, so t itself goes right
	f(left, nan, -1)
	f(left, float32(math.Inf(1)), 1)
	f(left, float32(math.Inf(-1)), -1)
	f(mustLoad(t, tiny(`"default_left":[1`, `"default_left":[0`), "a", "b"), nan, 1)
	f(mustLoad(t, tiny(`"default_left":[1,0,0]`, `"default_left":[true,false,false]`), "a", "b"), nan, -1) // before 1.6
	// A threshold is a float32: 0.1 in the file is the nearest float32.
	f(mustLoad(t, tiny(`[2.0,`, `[0.1,`), "a", "b"), 0.1, 1)
}

func TestXGBoostBaseScore(t *testing.T) {
	f := func(base, objective, version string, want float32) {
		t.Helper()
		m := mustLoad(t, tiny(`"5E-1"`, `"`+base+`"`, "binary:logistic", objective, "1,7,4", version), "a", "b")
		if got := m.Raw([]float32{0, 0}) + 1; math.Abs(float64(got-want)) > 1e-6 {
			t.Errorf("%s, %s, version %s: begins with %v, want %v", base, objective, version, got, want)
		}
	}
	f("5E-1", "binary:logistic", "1,7,4", 0)
	f("2E-1", "binary:logistic", "2,1,0", -1.3862944)
	f("[2E-1]", "binary:logistic", "3,1,1", -1.3862944)
	f("2.5E-1", "reg:squarederror", "1,7,4", 0.25)
	f("[-1.5E0]", "reg:squarederror", "3,1,1", -1.5)
}

// TestXGBoostNames: by name in any order, a subset, and by position only if there are no names.
func TestXGBoostNames(t *testing.T) {
	x := map[string]float32{"a": 5, "b": 1, "c": 0}
	f := func(data string, names []string, want float32) {
		t.Helper()
		var row []float32
		for _, n := range names {
			row = append(row, x[n])
		}
		if got := mustLoad(t, data, names...).Raw(row); got != want {
			t.Errorf("%v: raw score %v, want %v", names, got, want)
		}
	}
	f(tiny(), []string{"a", "b"}, 1)
	f(tiny(), []string{"c", "b", "a"}, 1)
	f(tiny(), []string{"a"}, 1)                                                        // b is in the file, but no split uses it
	f(tiny(`"feature_names":["a","b"]`, `"feature_names":[]`), []string{"b", "a"}, -1) // by position
	m := mustLoad(t, tiny(), "c", "b", "a")
	if got := fmt.Sprint(m.Needs()); got != "[a]" {
		t.Errorf("needs %s", got)
	}
}

func TestXGBoostRefuses(t *testing.T) {
	f := func(name, data, want string) {
		t.Helper()
		_, err := Load([]byte(data), []string{"a", "b"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", name, err, want)
		}
	}
	f("an unknown factor", tiny(`["a","b"]`, `["aa","b"]`), `there is no factor "aa"; did you mean "a"?`)
	f("another factor", tiny(`["a","b"]`, `["requests","b"]`), `there is no factor "requests"`)
	f("the number of factors", tiny(`["a","b"]`, `[]`, `"num_feature":"2"`, `"num_feature":"3"`), "no names for its 3 features, and there are 2 factors")
	f("fewer names", tiny(`["a","b"]`, `["a"]`), "1 names of features for 2 features")
	f("a name twice", tiny(`["a","b"]`, `["a","a"]`), `two features have the name "a"`)
	f("objective", tiny("binary:logistic", "rank:pairwise"), `the objective is "rank:pairwise"; train with binary:logistic`)
	f("an objective whose base score differs by version", tiny("binary:logistic", "binary:logitraw"), "train with binary:logistic")
	f("classes", tiny(`"num_class":"0"`, `"num_class":"3"`), "3 classes")
	f("targets", tiny(`"num_target":"1"`, `"num_target":"2"`), "2 targets")
	f("vectors", tiny(`"tree_param":{"size_leaf_vector":"0"}`, `"tree_param":{"size_leaf_vector":"2"}`), "leaves are vectors")
	f("more classes", tiny(`"tree_info":[0]`, `"tree_info":[1]`), "more than one class")
	f("linear", tiny(`"name":"gbtree"`, `"name":"gblinear"`), `the booster is "gblinear"`)
	f("the future", tiny("[1,7,4]", "[4,0,0]"), "version [4 0 0]: those from 1 to 3 are known")
	f("no version", tiny(`"version":[1,7,4],`, ""), "version []")
	f("categories", tiny(`"split_type":[0,0,0]`, `"split_type":[1,0,0]`), "splits by categories")
	f("base score", tiny(`"5E-1"`, `"half"`), `"half" is not a number`)
	f("base score of several", tiny(`"5E-1"`, `"[5E-1,2E-1]"`), "several values")
	f("no probability", tiny(`"5E-1"`, `"1E0"`), "1 is not a probability")
	f("a cycle", tiny(`"left_children":[1`, `"left_children":[0`), "child 0 is none")
	f("two parents", tiny(`"right_children":[2`, `"right_children":[1`), "child 1 is none, or has another parent")
	f("a far child", tiny(`"right_children":[2`, `"right_children":[9`), "child 9 is none")
	f("one child", tiny(`"right_children":[2`, `"right_children":[-1`), "child -1 is none")
	f("a far feature", tiny(`"split_indices":[0,`, `"split_indices":[7,`), "feature 7 of 2")
	f("lengths", tiny(`"default_left":[1,0,0]`, `"default_left":[1,0]`), "default_left has 2 entries, left_children 3")
	f("default_left", tiny(`"default_left":[1,0,0]`, `"default_left":[5,0,0]`), "5 is neither 0 nor 1")
	f("a leaf that is none", tiny("-1.0,1.0]", "1e39,1.0]"), "1e39")
	f("no trees", tiny(`"trees":[`, `"trees":[],"x":[`), "no trees")
	f("dart without weights", tiny(`"gradient_booster":{`, `"gradient_booster":{"name":"dart","gbtree":{"name":"gbtree","model":{"trees":[{"left_children":[-1],"right_children":[-1],"split_indices":[0],"split_conditions":[1],"default_left":[0]}]}},"x":{"a":0},"y":{`, `}]}}}}`, `}]}}}}}`, `"name":"gbtree","model":{"gbtree_model_param"`, `"model":{"gbtree_model_param"`), "weight_drop has 0 entries for 1 trees")
	f("a dump", "[]", "dump_model")
	f("binary", "{L\x00\x00", "binary format")
	f("a pickle", "\x80\x04", "pickle")
	f("half a file", tiny()[:400], "")
	f("something else", `{"a":1}`, "neither XGBoost's JSON")
	f("nothing", "", "empty")
}

// TestXGBoostDeep: a tree deeper than allowed is rejected; it has only the nodes that the depth takes.
func TestXGBoostDeep(t *testing.T) {
	f := func(depth int) error {
		var left, right, rest, flags []string
		for i := range depth {
			left, right = append(left, strconv.Itoa(2*i+1)), append(right, strconv.Itoa(2*i+2))
			rest, flags = append(rest, "0", "0"), append(flags, "0", "0")
			left, right = append(left, "-1"), append(right, "-1")
		}
		left, right, rest, flags = append(left, "-1"), append(right, "-1"), append(rest, "0"), append(flags, "0")
		// Node 2i+1 is an inner node and 2i+2 a leaf, except for the root and the last.
		fix := func(l []string) string { return "[" + strings.Join(l, ",") + "]" }
		for i := range left {
			if i == 0 || i%2 == 1 && i < 2*depth-1 {
				k := (i + 1) / 2
				left[i], right[i] = strconv.Itoa(2*k+1), strconv.Itoa(2*k+2)
			} else {
				left[i], right[i] = "-1", "-1"
			}
		}
		_, err := Load([]byte(tiny("[1,-1,-1]", fix(left), "[2,-1,-1]", fix(right), "[2.0,-1.0,1.0]", fix(rest), `"split_indices":[0,0,0]`, `"split_indices":`+fix(rest),
			"[1,0,0]", fix(flags), `"split_type":[0,0,0],`, "")), []string{"a", "b"})
		return err
	}
	if err := f(maxDepth); err != nil {
		t.Errorf("depth %d: %v", maxDepth, err)
	}
	if err := f(maxDepth + 1); err == nil || !strings.Contains(err.Error(), "deeper than") {
		t.Errorf("depth %d: %v", maxDepth+1, err)
	}
}
