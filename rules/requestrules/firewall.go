// Package requestrules judges requests by the rules of their service, and gives rules of all kinds the counters and lists
// of the gateway.
//
// Invariants:
//  1. A service without rules has no Service here: its requests do not get here.
//  2. Rules that ask memory alone allocate nothing once warm; what may wait for the store is bounded by the
//     configured time, and a failure is answered as the configuration says, counted and logged.
//  3. What is borrowed from a request is read during its run only.
//  4. A request that is looked at a second time (Service.Watch) is judged and counted nowhere.
package requestrules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/message"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/store"
	"antirobot/verdict"
)

// ServiceConfig is the rules over the requests of a service. It is inherited default → service → path.
type ServiceConfig struct {
	Text string `mapstructure:"text"` // the rules; empty: none, or those of File
	File string `mapstructure:"file"`
	// Answers says what follows from each decision, Otherwise from one that is not among them.
	Answers   []verdict.AnswerConfig `mapstructure:"answers"`
	Otherwise string                 `mapstructure:"otherwise"`
	OnError   string                 `mapstructure:"on_error"` // what follows when the rules fail or take too long
	Time      time.Duration          `mapstructure:"time"`     // of one judgement
}

// DefaultServiceConfig returns no rules, and answers for the usual decisions.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{
		Answers: verdict.DefaultAnswers(), Otherwise: "captcha", OnError: "pass", Time: 20 * time.Millisecond,
	}
}

// Validate returns every problem that can be seen without the rules' file and without knowing the lists.
func (c *ServiceConfig) Validate() error {
	_, err := verdict.NewAnswers(c.Answers, c.Otherwise)
	errs := []error{err}
	if _, ok := verdict.ParseAction(c.OnError); !ok {
		errs = append(errs, fmt.Errorf("on_error: %.40q is no action", c.OnError))
	}
	if c.Time < 100*time.Microsecond || c.Time > 10*time.Second {
		errs = append(errs, fmt.Errorf("time: %v is not between 100µs and 10s", c.Time))
	}
	switch {
	case c.Text != "" && c.File != "":
		errs = append(errs, errors.New("file: give one of text and file"))
	case c.Text != "":
		_, err := rules.Compile(c.Text, c.options(&Names{}, nil))
		errs = append(errs, inText(err))
	}
	return errors.Join(errs...)
}

// Names are what rules may call by name: nil Lists are not known, and without Formulas any name compiles.
type Names struct {
	Lists    []string
	Formulas rules.Formulas
}

func inText(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("text: %w", err)
}

// Check compiles the rules, of the file if they are in one, with the names that there are.
func (c *ServiceConfig) Check(names *Names) error {
	_, err := c.compile(names, nil)
	return err
}

// Warnings returns what is allowed but was hardly meant.
func (c *ServiceConfig) Warnings(names *Names) []string {
	p, err := c.compile(names, nil)
	if err != nil || p == nil {
		return nil
	}
	var out []string
	for _, w := range p.Warnings() {
		out = append(out, w.Error())
	}
	return out
}

// Parts are what rules over requests can use: there is no message to log or to learn from.
const Parts = rules.PartStorages | rules.PartCounters | rules.PartLists | rules.PartFormulas

func (c *ServiceConfig) options(names *Names, now func() time.Time) rules.Options {
	o := rules.DefaultOptions()
	o.Parts, o.Now, o.Lists, o.Formulas = Parts, now, names.Lists, names.Formulas
	o.Limits.Time = c.Time
	return o
}

// maxFile bounds what is read of a file of rules; far more than rules may have.
const maxFile = 4 << 20

// compile returns nil for no rules.
func (c *ServiceConfig) compile(names *Names, now func() time.Time) (*rules.Program, error) {
	o := c.options(names, now)
	if c.Text != "" {
		p, err := rules.Compile(c.Text, o)
		return p, inText(err)
	}
	if c.File == "" {
		return nil, nil //nolint:nilnil // no rules are no error
	}
	f, err := os.Open(c.File)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	p, err := rules.Compile(string(text), o)
	var wrong *rules.SyntaxError
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("file: %s: %w", c.File, wrong)
	}
	return p, err
}

// Deps is what an Engine works with. Store, Counters, Lists and Metrics are required.
type Deps struct {
	Store    store.Store
	Counters rules.CounterSource
	Lists    NetworkLists
	Now      func() time.Time
	Log      zerolog.Logger
	Metrics  *metrics.Set
}

// Config bounds what rules keep.
type Config struct {
	MaxEntries int // of the storage in memory, all services together
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{MaxEntries: 1 << 20} }

// Validate returns what is wrong with c.
func (c *Config) Validate() error {
	if c.MaxEntries < 1 {
		return fmt.Errorf("max_entries: %d leaves no room", c.MaxEntries)
	}
	return nil
}

// Engine runs the rules of all services. What they count lives as long as it does, over reloads of the rules. Safe for
// concurrent use; it has no goroutine.
type Engine struct {
	deps Deps
	// The storages: one in the memory of this gateway, and one in the store, which gateways may share.
	memory, kept message.Storage

	mu      sync.Mutex
	metrics map[string]*counts // by service

	runs sync.Pool
	said atomic.Int64 // when a failure was last logged, unix seconds
}

type counts struct {
	actions [verdict.Actions]*metrics.Counter
	failed  *metrics.Counter
}

// New returns an Engine.
func New(cfg Config, d Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	e := &Engine{
		deps: d, metrics: make(map[string]*counts),
		memory: message.NewMemoryStorage(d.Now, cfg.MaxEntries), kept: message.NewStoreStorage(d.Store, "rules/"),
	}
	e.runs.New = func() any { return newRun(e) }
	return e, nil
}

// Ruleset makes the rules of a service or of a path of it, with the names that there are; nil for none.
func (e *Engine) Ruleset(name string, c ServiceConfig, names *Names) (*Ruleset, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p, err := c.compile(names, e.deps.Now)
	if err != nil || p == nil {
		return nil, err
	}
	s := &Ruleset{engine: e, name: name, program: p, time: c.Time, count: e.counts(name)}
	s.answers, err = verdict.NewAnswers(c.Answers, c.Otherwise)
	s.onError, _ = verdict.ParseAction(c.OnError)
	s.waits = p.Needs()&rules.PartCounters != 0 || p.Needs()&rules.PartStorages != 0 && usesStore(p)
	return s, err
}

// usesStore reports whether a statement names the storage that is in the store.
func usesStore(p *rules.Program) bool {
	for _, s := range p.Script().Statements {
		for _, a := range s.Params {
			if a.Name.Text == "storage" && a.Value.Text == storageKept {
				return true
			}
		}
	}
	return false
}

func (e *Engine) counts(service string) *counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.metrics[service]; c != nil {
		return c
	}
	c := &counts{failed: e.deps.Metrics.GetOrCreateCounter(fmt.Sprintf(`antirobot_rules_failures_total{service=%q}`, service))}
	for a := range c.actions {
		c.actions[a] = e.deps.Metrics.GetOrCreateCounter(
			fmt.Sprintf(`antirobot_rules_total{service=%q,action=%q}`, service, verdict.RuleAction(a)))
	}
	e.metrics[service] = c
	return c
}

// Ruleset is the rules of one service. It is immutable and safe for concurrent use.
type Ruleset struct {
	engine  *Engine
	name    string
	program *rules.Program
	answers *verdict.Answers
	onError verdict.RuleAction
	time    time.Duration
	waits   bool // a rule may ask the store
	count   *counts
}

// Judge is verdict.Rules.
func (s *Ruleset) Judge(r *verdict.Ruling, v *request.View, id *identity.Identity, vs *verdict.Settings, so verdict.Verdict) {
	j := s.run(v, id, vs, so, false)
	err := s.do(context.Background(), j)
	r.Take(s.program, &j.run)
	s.conclude(r, err, vs.Watch)
	j.end()
}

// Trace judges a request and returns what each statement did, beside the ruling.
func (s *Ruleset) Trace(v *request.View, id *identity.Identity, vs *verdict.Settings, so verdict.Verdict) *verdict.Ruling {
	j := s.run(v, id, vs, so, true)
	err := s.do(context.Background(), j)
	r := new(verdict.Ruling)
	r.Take(s.program, &j.run)
	s.conclude(r, err, vs.Watch)
	j.end()
	return r
}

func (s *Ruleset) do(ctx context.Context, j *run) error {
	if s.waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.time)
		defer cancel()
	}
	return s.program.Run(ctx, &j.env, &j.run)
}

func (s *Ruleset) conclude(r *verdict.Ruling, err error, watch bool) {
	if err != nil {
		r.Failed, r.Decision, r.Action = err.Error(), "", s.onError
		s.failed(err)
	} else {
		r.Action = s.answers.Of(r.Decision)
	}
	if !watch {
		s.count.actions[r.Action].Inc()
	}
}

// failedEvery is how often failures are logged.
const failedEvery = 10 * time.Second

func (s *Ruleset) failed(err error) {
	s.count.failed.Inc()
	now, last := s.engine.deps.Now().Unix(), s.engine.said.Load()
	if now-last >= int64(failedEvery/time.Second) && s.engine.said.CompareAndSwap(last, now) {
		s.engine.deps.Log.Warn().Err(err).Str("service", s.name).Stringer("answer", s.onError).Msg("the rules over requests failed")
	}
}
