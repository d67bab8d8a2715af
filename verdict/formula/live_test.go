package formula

import (
	"bytes"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metrics"
)

// TestShadow: what a candidate would have done is counted, and changes nothing.
func TestShadow(t *testing.T) {
	card := func(weight string) *Model {
		return mustLoad(t, "version: v\nbias: -1\nfactors:\n  - {name: a, bins: [{from: 1, weight: "+weight+"}]}\n", "a")
	}
	set := metrics.NewSet()
	mild, strict := card("0.5"), card("3")
	l := newLive(t, mild, strict, set)
	for _, a := range []float32{0, 1, 2} {
		if raw, m := l.Raw([]float32{a}, 0.5); m != mild || m.Share(raw) != mild.Score([]float32{a}) {
			t.Errorf("a=%v is scored %v by %s", a, raw, m.Version())
		}
	}
	expect := func(lines ...string) {
		t.Helper()
		var out bytes.Buffer
		set.WritePrometheus(&out)
		for _, line := range lines {
			if !strings.Contains(out.String(), line+"\n") {
				t.Errorf("no %s in\n%s", line, out.String())
			}
		}
	}
	expect("antirobot_formula_scores_total 3", `antirobot_formula_shadow_total{would="ban"} 2`, `antirobot_formula_shadow_total{would="free"} 0`,
		"antirobot_formula_shadow_difference_count 3", `antirobot_formula_info{role="shadow",version="`+strict.Version()+`"} 1`)

	change(t, l, strict, mild)
	l.Raw([]float32{1}, 0.5)
	expect(`antirobot_formula_shadow_total{would="free"} 1`, `antirobot_formula_info{role="live",version="`+strict.Version()+`"} 1`,
		`antirobot_formula_info{role="live",version="`+mild.Version()+`"} 0`)

	change(t, l, strict, nil)
	if _, m := l.Raw([]float32{1}, 0.5); m != strict || l.models.Load().Shadow != nil {
		t.Error("the candidate is still there")
	}
	expect("antirobot_formula_shadow_difference_count 4", "antirobot_formula_scores_total 5")
}

func newLive(t testing.TB, model, shadow *Model, set *metrics.Set) *Live {
	t.Helper()
	l, err := NewLive(Models{model, shadow}, Deps{Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func change(t testing.TB, l *Live, model, shadow *Model) {
	t.Helper()
	commit, err := l.Prepare(Models{model, shadow})
	if err != nil {
		t.Fatal(err)
	}
	commit()
}

// TestPrepareNeedsAModel: without a model nothing changes.
func TestPrepareNeedsAModel(t *testing.T) {
	m := mustLoad(t, "version: v\nbias: -1\nfactors:\n  - {name: a, bins: [{from: 1, weight: 1}]}\n", "a")
	l := newLive(t, m, nil, metrics.NewSet())
	if _, err := l.Prepare(Models{Shadow: m}); err == nil || l.Model() != m || l.models.Load().Shadow != nil {
		t.Errorf("no model is not an error, or is in use: %v", err)
	}
}
