package processor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestProgramsAreNotBannedForPace: a program that says what it is may work through its backlog, by reading and by writing; the limits
// that an operator has set hold for what it reads, and a browser's name excuses nothing.
func TestProgramsAreNotBannedForPace(t *testing.T) {
	own := func(c *verdict.ServiceConfig) {
		c.Limits = []verdict.Limit{{Window: 10 * time.Second, Requests: 20, Ban: time.Minute}}
	}
	write := func(e *verdict.Event) { e.Method = 'P' }
	for _, c := range []struct {
		name, agent string
		cfg         func(*verdict.ServiceConfig)
		edit        func(*verdict.Event)
		banned      bool
	}{
		{"reads", "npm/10.2 node/v20", nil, nil, false},
		{"writes", "Stripe/1.0", nil, write, false},
		{"reads beyond an operator's limit", "npm/10.2 node/v20", own, nil, true},
		{"writes beyond it", "Stripe/1.0", own, write, false},
		{"reads as a browser", firefoxAgent, nil, nil, true},
		{"writes as a browser", firefoxAgent, nil, write, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway(t, c.cfg)
			defer g.end()
			if took, banned := g.until(visitor{addr: "192.0.2.1", agent: c.agent}, 20*time.Millisecond, 5*time.Second, c.edit); banned != c.banned {
				t.Errorf("%s: banned %t after %v", c.name, banned, took)
			}
		})
	}
}

// TestDefaultsBanMachinePaceOnly: without limits of an operator, nothing is banned for pace that a browser reaches: hours of
// reading at any rate, and tabs that are restored at once. Sixty page loads in ten seconds without subresources are a machine's, and so
// are two hundred with them.
func TestDefaultsBanMachinePaceOnly(t *testing.T) {
	for _, c := range []struct {
		name   string
		loads  int
		in     time.Duration
		parts  int
		reason string
	}{
		{"five pages a second for a minute", 300, time.Minute, 2, ""},
		{"three pages a second for ten minutes", 1800, 10 * time.Minute, 1, ""},
		{"a hundred tabs at once", 100, 2 * time.Second, 2, ""},
		{"sixty pages without subresources", 70, 9 * time.Second, 0, "proof: pace"},
		{"two hundred pages with subresources", 210, 9 * time.Second, 1, "proof: pace_whole"},
	} {
		b := &bench{}
		p := newProcessorFor(t, b, nil)
		s, err := defaultSettings()
		if err != nil {
			t.Fatal(err)
		}
		know(t, p, []*verdict.Settings{s})
		at := time.Unix(1.8e9, 0)
		for n := range c.loads {
			p.Process(reading(at, n, office))
			for range c.parts {
				p.Process(picture(reading(at, n, office)))
			}
			at = at.Add(c.in / time.Duration(c.loads))
		}
		reason := ""
		if len(b.bans) > 0 {
			reason = b.bans[0].Reason
		}
		if reason != c.reason {
			t.Errorf("%s: banned for %q, want %q", c.name, reason, c.reason)
		}
	}
}

func defaultSettings() (*verdict.Settings, error) {
	c := verdict.DefaultServiceConfig()
	return c.Settings("shop", 0)
}

// TestProgramsAreNotBannedByAFormula: a program is banned only if it lies.
func TestProgramsAreNotBannedByAFormula(t *testing.T) {
	for lies, edit := range map[string]func(e *verdict.Event){
		"":                func(*verdict.Event) {},
		"a false crawler": func(e *verdict.Event) { e.Liar = true },
		"a forger":        func(e *verdict.Event) { e.Forged = 1 },
		"a scanner":       func(e *verdict.Event) { e.PathKind, e.Status = client.PathProbe, 404 },
	} {
		p, b := newProcessor(t, nil)
		p.formula = live(t, card(t, "bias: 4\nfactors: []\n"), metrics.NewSet())
		for n := range 40 {
			e := reading(time.Unix(1.8e9, 0).Add(time.Duration(n)*5*time.Second), n, office)
			e.Claim, e.Method = client.Claim{Family: client.FamilyLibrary}, 'G'
			edit(e)
			p.Process(e)
		}
		if banned := len(b.bans) > 0; banned != (lies != "") {
			t.Errorf("%q: banned %v: %+v", lies, banned, b.bans)
		}
	}
}
