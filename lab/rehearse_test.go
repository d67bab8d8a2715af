package lab

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
	"antirobot/verdict/training"
)

var now = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// memory is a journal and a training log.
type memory struct {
	*processor.Processor
	entries []journal.Entry // the newest first
	stories map[string]*verdict.Story
	vectors []training.Row
	sample  float64
}

func (m *memory) Walk(_ context.Context, since time.Time, f func(e *journal.Entry) bool) (time.Time, error) {
	for i := range m.entries {
		if !f(&m.entries[i]) {
			return m.entries[i].At, nil
		}
	}
	return since, nil
}

func (m *memory) Get(id request.ID) (journal.Told, bool, error) {
	s := m.stories[id.String()]
	return journal.Told{Story: s}, s != nil, nil
}

func (m *memory) Sample() float64 { return m.sample }

func (m *memory) Rows(_, _ time.Time, f func(v *training.Row) error) error {
	for i := range m.vectors {
		if err := f(&m.vectors[i]); err != nil {
			return err
		}
	}
	return nil
}

func newMemory(t *testing.T) *memory {
	t.Helper()
	cfg := processor.DefaultConfig()
	cfg.Visit.Most, cfg.Visit.Least = 0, 0 // each moment counts by itself
	cfg.Training.Sample = 0
	return &memory{Processor: newProcessor(t, cfg), stories: map[string]*verdict.Story{}, sample: 1}
}

func addr(n int) identity.Subject {
	s, err := identity.ParseSubject(fmt.Sprintf("ip:203.0.113.%d", n))
	if err != nil {
		panic(err)
	}
	return s
}

// row adds a row of the training log: pages in a minute, of a subject of which something may be known.
func (m *memory) row(n int, perMinute float32, label formula.Label, source string) {
	names := processor.FactorNames()
	x := make([]float32, len(names))
	for i, name := range names {
		switch x[i] = float32(math.NaN()); name {
		case "pages_1m", "client_loads_1m", "session_pages":
			x[i] = perMinute
		case "session_age":
			x[i] = 60
		}
	}
	m.vectors = append(m.vectors, training.Row{Who: m.Who(addr(n)), Kind: identity.KindIP, At: now.Add(-time.Hour), Factors: x, Label: label, Source: source})
}

// entry adds an older entry of the journal, with the story of its request.
func (m *memory) entry(n int, cause string, share float32, s *verdict.Story) *journal.Entry {
	at := now.Add(-time.Minute * time.Duration(1+len(m.entries)))
	e := journal.Entry{
		ID: request.NewID(at).String(), At: at, Kind: "request", Service: "shop", Mode: "enforce", Cause: cause, Path: "/", Subject: addr(n).String(), Share: share,
	}
	m.stories[e.ID] = s
	m.entries = append(m.entries, e)
	return &m.entries[len(m.entries)-1]
}

func regime(t *testing.T, card string, change func(c *verdict.ServiceConfig)) *Regime {
	t.Helper()
	m, err := formula.Load([]byte(card), processor.FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	c := verdict.DefaultServiceConfig()
	if change != nil {
		change(&c)
	}
	s, err := c.Settings("shop", 0)
	if err != nil {
		t.Fatal(err)
	}
	return &Regime{Model: m, Places: []Place{{Settings: s}}}
}

const card = `
version: a
bias: -4
factors:
  - {name: client_loads_1m, bins: [{from: 10, below: 20, weight: 4.3}, {from: 20, weight: 8}]}
`

func rehearse(t *testing.T, m *memory, before, after *Regime) *Rehearsal {
	t.Helper()
	r, err := Rehearse(t.Context(), Deps{Journal: m, Visits: m, Established: func(s identity.Subject) bool { return s == addr(9) }}, before, after, now.Add(-24*time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestThreshold: of those who score 0.57, a threshold of 0.6 frees them and names who is known to be a person; what the journal alone
// has is judged by the score of its ban; the other way round they are newly stopped, with the pages that they were given.
func TestThreshold(t *testing.T) {
	m := newMemory(t)
	m.row(1, 15, formula.Person, "customer")
	m.row(2, 15, formula.Unlabelled, "")
	m.row(3, 30, formula.Robot, "list") // far above both
	m.row(4, 2, formula.Person, "solved")
	ban := &verdict.Story{Ban: &bans.Story{Source: "processor", Score: 0.58, Reason: "formula: a"}}
	for range 3 {
		m.entry(9, "ban", 0, ban)
	}
	m.entry(8, "ban", 0, &verdict.Story{Ban: &bans.Story{Source: "api"}})
	m.entry(7, "ban", 0, &verdict.Story{Ban: &bans.Story{Source: "processor", Score: 0.99}})
	low, high := regime(t, card, nil), regime(t, card, func(c *verdict.ServiceConfig) { c.Threshold = 0.6 })
	low.Model = high.Model

	r := rehearse(t, m, low, high)
	if f := r.Free; f.Subjects != 3 || f.People != 2 || f.Grounds["customer"] != 1 || f.Grounds["established"] != 1 || f.Pages != 3+2 || r.Stopped.Subjects != 0 {
		t.Errorf("a higher threshold: %+v", r)
	}
	if e := r.Free.Examples; len(e) != 3 || !e[0].Person || e[0].Subject != "ip:203.0.113.9" || e[2].Person {
		t.Errorf("examples: %+v", e)
	}
	m.entries = nil
	m.entry(1, "none", 0.1, nil) // after its row, one of ten that are kept
	r = rehearse(t, m, high, low)
	if s := r.Stopped; s.Subjects != 2 || s.People != 1 || math.Abs(s.Pages-11) > 0.1 || r.Free.Subjects != 0 {
		t.Errorf("a lower threshold: %+v", r)
	}
	if r = rehearse(t, m, low, low); r.Stopped.Subjects+r.Free.Subjects != 0 || r.Rows != 4 || r.Entries != 1 {
		t.Errorf("no change: %+v", r)
	}
}

// TestPagesSaved: of the requests that make a difference, it is told which are of people and which of robots.
func TestPagesSaved(t *testing.T) {
	m := newMemory(t)
	m.row(1, 15, formula.Person, "customer")
	m.row(2, 15, formula.Robot, "list")
	m.row(3, 15, formula.Unlabelled, "")
	for range 4 {
		m.entry(2, "none", 0.1, nil)
	}
	low, high := regime(t, card, nil), regime(t, card, func(c *verdict.ServiceConfig) { c.Threshold = 0.6 })
	if s := rehearse(t, m, high, low).Stopped; s.Pages <= 6 || s.RobotPages != s.Pages-2 || s.PeoplePages != 1 {
		t.Errorf("newly stopped: %+v", s)
	}
	if f := rehearse(t, m, low, high).Free; f.Pages != 3 || f.RobotPages != 1 || f.PeoplePages != 1 {
		t.Errorf("newly free: %+v", f)
	}
}

// TestSample: of a sample of one in twenty, each stands for twenty.
func TestSample(t *testing.T) {
	m := newMemory(t)
	m.sample = 0.05
	m.row(1, 15, formula.Unlabelled, "")
	low := regime(t, card, nil)
	high := regime(t, card, func(c *verdict.ServiceConfig) { c.Threshold = 0.6 })
	if r := rehearse(t, m, high, low); r.Stopped.Subjects != 1 || math.Abs(r.Stopped.About-20) > 1e-9 {
		t.Errorf("%+v", r.Stopped)
	}
}

// TestModel: another card judges the rows again; what the journal alone knows is not guessed.
func TestModel(t *testing.T) {
	m := newMemory(t)
	m.row(1, 30, formula.Unlabelled, "")
	m.entry(1, "ban", 0, &verdict.Story{Ban: &bans.Story{Source: "processor", Score: 0.98, Reason: "formula: a"}})
	m.entry(2, "ban", 0, &verdict.Story{Ban: &bans.Story{Source: "processor", Score: 0.98, Reason: "formula: a"}})
	r := rehearse(t, m, regime(t, card, nil), regime(t, "version: b\nbias: -4\nfactors: []\n", nil))
	if r.Free.Subjects != 1 || r.Free.Pages != 1 || len(r.Notes) != 1 || r.Notes[0] != noteUnsampled {
		t.Errorf("%+v", r)
	}
}

// TestLimits: a lower limit stops who was above it, a higher one frees whom the old one banned, an operator's doubled limits count.
func TestLimits(t *testing.T) {
	m := newMemory(t)
	m.row(1, 8, formula.Unlabelled, "")
	pace := func(seen, limit float32) *verdict.Story {
		return &verdict.Story{Ban: &bans.Story{
			Source: "processor", Score: 1, Reason: "pace: more than 300 pages in 1m0s", Factors: map[string]float32{"pages_1m0s": seen, "limit": limit, "network_pages_1m": 9999},
		}}
	}
	m.entry(2, "ban", 0, pace(301, 300))
	m.entry(3, "ban", 0, pace(1201, 1200)) // four clients at one address
	limit := func(n int, window time.Duration) *Regime {
		return regime(t, card, func(c *verdict.ServiceConfig) {
			c.Limits = []verdict.Limit{{Window: window, Requests: n, Ban: time.Minute}}
		})
	}
	with := limit(300, time.Minute)
	for _, c := range []struct {
		after         *Regime
		stopped, free int
		notes         []string
	}{
		{limit(5, time.Minute), 1, 0, nil},
		{limit(301, time.Minute), 0, 2, []string{noteRaised}},
		{limit(300, 90*time.Second), 0, 2, []string{noteWindow}},
	} {
		c.after.Model = with.Model
		r := rehearse(t, m, with, c.after)
		if r.Stopped.Subjects != c.stopped || r.Free.Subjects != c.free || fmt.Sprint(r.Notes) != fmt.Sprint(c.notes) {
			t.Errorf("%v: %+v", c.after.Places[0].Settings.Limits, r)
		}
	}
}

// noAdmin stops what begins with /admin.
type noAdmin struct{ verdict.Rules }

func (noAdmin) Judge(r *verdict.Ruling, v *request.View, _ *identity.Identity, _ *verdict.Settings, _ verdict.Verdict) {
	if len(v.Path) > 5 && string(v.Path[:6]) == "/admin" {
		r.Action = verdict.RuleBlock
	}
}

// TestRules: a rule is asked about every request that the journal has.
func TestRules(t *testing.T) {
	m := newMemory(t)
	m.entry(1, "none", 0.5, nil).Path = "/admin/x"
	m.entry(1, "none", 0.5, nil).Path = "/shop"
	with, without := regime(t, card, nil), regime(t, card, nil)
	with.Places[0].Settings.Rules, without.Model = noAdmin{}, with.Model
	if r := rehearse(t, m, without, with); r.Stopped.Subjects != 1 || r.Stopped.Pages != 2 || r.Free.Subjects != 0 {
		t.Errorf("a new rule: %+v", r)
	}
	for i := range m.entries {
		m.entries[i].Cause = "rule"
	}
	if r := rehearse(t, m, with, without); r.Free.Subjects != 1 || r.Free.Pages != 2 {
		t.Errorf("a rule less: %+v", r)
	}
}

func newProcessor(t *testing.T, cfg processor.Config) *processor.Processor {
	t.Helper()
	p, err := processor.New(cfg, processor.Deps{Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
