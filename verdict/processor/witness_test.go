package processor

import (
	"math"
	"slices"
	"testing"

	"antirobot/request"
	"antirobot/verdict"
)

// pageFactors returns the factors of what pages say, of a session.
func pageFactors(s session) map[string]float32 {
	var e verdict.Event
	c := evidence{e: &e, s: s}
	got := map[string]float32{}
	for _, name := range []string{"page_automation", "page_unpressed", "page_astray", "page_inspected"} {
		i := slices.Index(FactorNames(), name)
		got[name] = factors[i].of(&c)
	}
	return got
}

// TestSilenceIsNoGuilt: whoever's pages say nothing, or tell of few means, is not suspected for it by any factor of these,
// nor by the default card.
func TestSilenceIsNoGuilt(t *testing.T) {
	m := defaultFormula(t)
	base := make([]float32, len(FactorNames()))
	for i := range base {
		base[i] = nan
	}
	unknown := m.Raw(base)
	for name, e := range map[string]request.Evidence{
		"no JavaScript": {},
		"a person":      {Known: true},
	} {
		var s session
		if e.Known {
			s.testimony.take(&e)
		}
		x := slices.Clone(base)
		for factor, v := range pageFactors(s) {
			if !e.Known && !math.IsNaN(float64(v)) {
				t.Errorf("%s: %s is %v and not unknown", name, factor, v)
			}
			x[slices.Index(FactorNames(), factor)] = v
		}
		if raw := m.Raw(x); raw > unknown {
			t.Errorf("%s: the score goes from %v to %v", name, unknown, raw)
		}
	}
}

// TestDriverIsUnsure: who says that it is driven is a robot, and unsure at least if everything else in its visit is a person's.
func TestDriverIsUnsure(t *testing.T) {
	m := defaultFormula(t)
	x := make([]float32, len(FactorNames()))
	for i := range x {
		x[i] = nan
	}
	set := func(of map[string]float32) {
		for name, v := range of {
			x[slices.Index(FactorNames(), name)] = v
		}
	}
	set(map[string]float32{"page_automation": 1, "agent_browser": 1, "clients": 1, "parts_missing": 0, "cookie_share": 1, "subject_strength": 1, "referer_known_share": 0.8})
	if raw := m.Raw(x); raw < 3 {
		t.Errorf("a driven browser: %v", raw)
	}
	set(map[string]float32{
		"branch_share": 0.4, "revisit_share": 0.5, "targets": 30, "jump_share": 0.1, "entry_within": 0, "not_modified_share": 0.1,
		"stay_spread": 1.3, "stay_longest": 300, "stay_longest_ratio": 12, "stay_long_share": 0.2,
	})
	unsure := math.Log(0.3 / 0.7) // verdict.unsure.above
	if raw := float64(m.Raw(x)); raw < unsure {
		t.Errorf("with a person's ways: %v", raw)
	}
	set(map[string]float32{"page_automation": nan})
	if raw := float64(m.Raw(x)); raw > -8 {
		t.Errorf("a person whose page says nothing: %v", raw)
	}
}

// TestTestimony: evidence adds up over the pages, what a probe has found stays, and at an address of several clients it
// is nobody's.
func TestTestimony(t *testing.T) {
	var s session
	s.testimony.take(&request.Evidence{Known: true, Probes: request.ProbeDriver})
	s.testimony.take(&request.Evidence{Known: true, Probes: request.ProbeAstray})
	f := pageFactors(s)
	for name, want := range map[string]float32{"page_automation": 1, "page_unpressed": 0, "page_astray": 1, "page_inspected": 0} {
		if f[name] != want {
			t.Errorf("%s is %v, want %v", name, f[name], want)
		}
	}
	s.agents = 0b101
	if v := pageFactors(s)["page_automation"]; !math.IsNaN(float64(v)) {
		t.Errorf("at an address of several clients it is %v", v)
	}
	if v := pageFactors(session{})["page_automation"]; !math.IsNaN(float64(v)) {
		t.Errorf("unknown is %v", v)
	}
}
