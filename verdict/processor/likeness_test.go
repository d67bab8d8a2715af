package processor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/formula"

	"github.com/VictoriaMetrics/metrics"
)

// TestAlikeRank: who behaves like a program that others are judged robots for is told from who behaves as people do, whatever is known of it; nobody is
// compared after a few pages, nor where it is several people, nor where the configuration says so.
func TestAlikeRank(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine does it all")
	}
	at := time.Unix(1.8e9, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	site := func(visitors int) *Processor {
		p, _ := newProcessor(t, func(c *Config) { c.Likeness.Visitors = visitors })
		p.formula = live(t, defaultFormula(t), metrics.NewSet())
		return p
	}
	// reads has somebody open pages, with pauses around a typical one, and returns how those are judged who behave alike.
	reads := func(p *Processor, n, pages int, typical, spread float64, agents ...string) float32 {
		at := at.Add(time.Duration(n) * time.Second)
		var e *verdict.Event
		for i := range pages {
			e = event(at, n<<8, cookie(n))
			page := rng.IntN(200)
			e.Claim, e.Agent = client.ParseClaim([]byte(firefox)), 0
			if len(agents) > 0 {
				e.Agent = hashPath(agents[i%len(agents)])
			}
			e.Page, e.Type, e.Method, e.Status, e.Referer = true, verdict.TypeHTML, 'G', 200, client.RefererSame
			e.Path = hashPath(fmt.Sprint("/", page))
			e.Target = e.Path
			p.Process(e)
			at = at.Add(time.Duration(typical * math.Exp(spread*rng.NormFloat64()) * float64(time.Second)))
		}
		v, _ := p.Session(e.Subjects[0], at)
		for _, f := range v.Factors {
			if f.Name == "alike_rank" {
				return f.Value
			}
		}
		return nan
	}
	p := site(1024)
	for n := range 90 {
		if n%3 == 0 {
			reads(p, 100+n, 40, 4, 0.05)
		} else {
			reads(p, 100+n, 40, 25, 1.2)
		}
	}
	middle := func(first int, typical, spread float64) float32 {
		all := make([]float32, 7)
		for i := range all {
			all[i] = reads(p, first+i, 12, typical, spread)
		}
		slices.Sort(all)
		return all[3]
	}
	if program, person := middle(1000, 4, 0.05), middle(2000, 25, 1.2); !(program > 0.6) || !(person < 0.5) {
		t.Errorf("a program is at %v, a person at %v", program, person)
	}
	if few := reads(p, 3000, 3, 4, 0.05); few == few {
		t.Errorf("after three pages it is at %v", few)
	}
	if several := reads(p, 3001, 24, 4, 0.05, "a", "b", "c", "d"); several == several {
		t.Errorf("four User-Agents are at %v", several)
	}
	p = site(1024)
	m, err := formula.Load([]byte("version: x\nbias: -2\nfactors: [{name: alike_rank, bins: [{from: 0, weight: 3}]}]"), FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	change(t, p.formula, m)
	for n := range 60 {
		if got := reads(p, n, 24, 25, 1.2); n > 40 && math.Abs(float64(got)-0.5) > 0.01 {
			t.Fatalf("nothing is held against anybody but this factor, and it is at %v", got)
		}
	}
	p = site(0)
	for n := range 60 {
		if got := reads(p, n, 12, 4, 0.05); got == got {
			t.Fatalf("nobody is to be compared, and it is at %v", got)
		}
	}
}
