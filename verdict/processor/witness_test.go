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
