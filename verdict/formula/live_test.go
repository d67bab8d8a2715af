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
	l := NewLive(Models{mild, strict}, Deps{Metrics: set})
	for _, a := range []float32{0, 1, 2} {
		if score, m := l.Score([]float32{a}, 0.5); m != mild || score != mild.Score([]float32{a}) {
			t.Errorf("a=%v is scored %v by %s", a, score, m.Version())
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

	l.Use(Models{strict, mild})
	l.Score([]float32{1}, 0.5)
	expect(`antirobot_formula_shadow_total{would="free"} 1`, `antirobot_formula_info{role="live",version="`+strict.Version()+`"} 1`,
		`antirobot_formula_info{role="live",version="`+mild.Version()+`"} 0`)

	l.Use(Models{Model: strict})
	if _, m := l.Score([]float32{1}, 0.5); m != strict {
		t.Errorf("scored by %v", m)
	}
	expect("antirobot_formula_shadow_difference_count 4", "antirobot_formula_scores_total 5")
}

// TestShadowAlone: without a formula a candidate is compared with the rules, which score nobody.
func TestShadowAlone(t *testing.T) {
	set := metrics.NewSet()
	strict := mustLoad(t, "version: v\nbias: 1\nfactors: []\n", "a")
	l := NewLive(Models{Shadow: strict}, Deps{Metrics: set})
	if score, m := l.Score([]float32{1}, 0.5); score != 0 || m != nil || !l.Scores() {
		t.Errorf("%v by %v", score, m)
	}
	if l.newlyOver.Get() != 1 {
		t.Error("what the candidate would ban is not counted")
	}
	if none := (*Live)(nil); none.Scores() || none.Model() != nil {
		t.Error("no formula is one")
	}
}
