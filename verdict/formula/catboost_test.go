package formula

import (
	"math"
	"strings"
	"testing"
)

// The model of these tests was written by hand from CatBoost's description of the format, and the expected rows were
// computed by hand, too: it has what the models of TestCatBoostGolden lack. The tree's leaves are numbered by the
// answers to "is it above the border?": the first split is the lowest bit.
const cat = `{
"model_info":{"params":{"loss_function":{"type":"Logloss","params":{}}},"catboost_version_info":"1.2"},
"features_info":{"float_features":[
 {"feature_index":0,"flat_feature_index":0,"feature_id":"a","borders":[1.5,4],"has_nans":false,"nan_value_treatment":"AsIs"},
 {"feature_index":1,"flat_feature_index":1,"feature_id":"b","borders":[0.5],"has_nans":true,"nan_value_treatment":"AsFalse"},
 {"feature_index":2,"flat_feature_index":2,"feature_id":"c","borders":[0.1],"has_nans":true,"nan_value_treatment":"AsTrue"}]},
"oblivious_trees":[
 {"splits":[{"float_feature_index":0,"border":1.5,"split_index":0,"split_type":"FloatFeature"},
            {"float_feature_index":1,"border":0.5,"split_index":2,"split_type":"FloatFeature"}],
  "leaf_values":[1,2,4,8],"leaf_weights":[10,20,30,40]},
 {"splits":[{"float_feature_index":2,"border":0.1,"split_index":3,"split_type":"FloatFeature"}],
  "leaf_values":[100,200],"leaf_weights":[1,3]},
 {"splits":[],"leaf_values":[0.25],"leaf_weights":[4]}],
"scale_and_bias":[0.5,[-100]]}`

func TestCatBoostRows(t *testing.T) {
	m := mustLoad(t, cat, "c", "a", "b")
	f := func(a, b, c float32, leaves float64) {
		t.Helper()
		x := []float32{c, a, b}
		want := float32(leaves*0.5 - 100)
		if got := m.Raw(x); got != want {
			t.Errorf("a=%v b=%v c=%v: raw score %v, want %v", a, b, c, got, want)
		}
		if got, want := m.Score(x), float32(1/(1+math.Exp(-float64(want)))); far(got, want, 2) {
			t.Errorf("a=%v b=%v c=%v: score %v, want %v", a, b, c, got, want)
		}
		sumsUp(t, m, x)
	}
	f(0, 0, 0, 1+100+.25)
	f(1.5, 0.5, 0, 1+100+.25) // a value at the border is not above it
	f(1.5000001, 0, 0, 2+100+.25)
	f(1, 0.50000006, 0, 4+100+.25)
	f(2, 1, 1, 8+200+.25)
	f(nan, nan, nan, 1+200+.25) // a as is, b as false, c as true
	f(float32(math.Inf(1)), float32(math.Inf(-1)), 0.1, 2+100+.25)
	f(0, 0, 0.10000001, 1+200+.25)

	// Contributions, by hand: the means of the first tree are 5.3 = (10·1+20·2+30·4+40·8)/100 … halved by the scale.
	want := []float32{12.5, 0.5 * (6 - 4.9), 0.5 * (8 - 6)}
	for i, c := range m.Explain(nil, []float32{1, 2, 1}) {
		if math.Abs(float64(c-want[i])) > 1e-5 {
			t.Errorf("%s contributes %v, want %v", m.Names()[i], c, want[i])
		}
	}
	if got, want := m.Bias(), float32(0.5*(4.9+175+.25)-100); math.Abs(float64(got-want)) > 1e-5 {
		t.Errorf("bias %v, want %v", got, want)
	}
}

func TestCatBoostForms(t *testing.T) {
	f := func(name string, x, want float32, replace ...string) {
		t.Helper()
		m := mustLoad(t, strings.NewReplacer(replace...).Replace(cat), "a", "b", "c")
		if got := m.Score([]float32{x, 0, 0}); far(got, want, 4) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	low := float32(1 / (1 + math.Exp(-(0.5*101.25 - 100))))
	f("as it is", 0, low)
	f("an older pair", 0, low, "[-100]", "-100")
	f("parameters in a string", 0, low, `{"loss_function":{"type":"Logloss","params":{}}}`, `"{\"loss_function\":{\"type\":\"Logloss\"}}"`)
	f("regression, below 0", 0, 0, "Logloss", "RMSE")
	f("regression", 0, 0.625, "Logloss", "RMSE", "[-100]", "[-50]")
	f("without names", 0, low, `"feature_id":"a"`, `"feature_id":""`, `"feature_id":"b"`, `"feature_id":"1"`, `"feature_id":"c"`, `"feature_id":""`)
	f("without weights", 0, low, `"leaf_weights":[10,20,30,40]`, `"leaf_weights":[]`)
}

func TestCatBoostRefuses(t *testing.T) {
	f := func(name, want string, replace ...string) {
		t.Helper()
		_, err := Load([]byte(strings.NewReplacer(replace...).Replace(cat)), []string{"a", "b", "c"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", name, err, want)
		}
	}
	f("an unknown factor", `there is no factor "bb"; did you mean "b"?`, `"feature_id":"b"`, `"feature_id":"bb"`)
	f("without names, another number", "no names for its 2 features", `"feature_id":"a"`, `"feature_id":"0"`, `"feature_id":"b"`, `"feature_id":"1"`,
		`{"feature_index":2,"flat_feature_index":2,"feature_id":"c","borders":[0.1],"has_nans":true,"nan_value_treatment":"AsTrue"}`, "",
		`"AsFalse"},`, `"AsFalse"}`)
	f("several biases", "2 biases", "[-100]", "[-100,1]")
	f("a category", "is a OneHotFeature; train with numbers only", `"split_index":3,"split_type":"FloatFeature"`, `"split_type":"OneHotFeature"`)
	f("a loss", `the loss function is "MultiClass"; train with Logloss`, "Logloss", "MultiClass")
	f("no loss", "loss_function is missing", `"model_info"`, `"other_info"`)
	f("a far feature", "feature 7 of 3", `"float_feature_index":2`, `"float_feature_index":7`)
	f("the order of features", "has the feature_index 5", `"feature_index":1`, `"feature_index":5`)
	f("the treatment of NaN", `"AsMaybe" is not known`, "AsTrue", "AsMaybe")
	f("no trees", "no trees", `"oblivious_trees":[`, `"oblivious_trees":[],"x":[`)
	f("other trees", "SymmetricTree", `"oblivious_trees"`, `"trees"`)
	f("too many levels", "splits: more than 16", `"splits":[]`, `"splits":[`+strings.Repeat(`{"float_feature_index":0},`, 16)+`{}]`)
	f("scale", "not a pair", "[0.5,[-100]]", "[0.5]")
	if _, err := Load([]byte("CBM1"), []string{"a"}); err == nil || !strings.Contains(err.Error(), "binary format") {
		t.Errorf("binary: %v", err)
	}
}
