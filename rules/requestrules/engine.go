// Package requestrules judges requests by the rules of their service.
//
// Invariants:
//  1. Rules over memory allocate nothing once warm; waits for the store are bounded by the configured time, and a
//     failure is answered as configured, counted and logged.
//  2. Bytes borrowed from a request are read only during its run.
//  3. A request that is examined again (Settings.Watch) is judged but not counted.
//  4. A request that claims other methods is judged by the strictest ruling, and counted once.
package requestrules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/rules/sources"
	"antirobot/store"
	"antirobot/verdict"
)

// Deps is what an Engine works with. Store, Counters, Lists and Metrics are required.
type Deps struct {
	Store    store.Store
	Counters rules.CounterSource
	Lists    sources.Lists
	Places   rules.Places // may be nil
	Now      func() time.Time
	Log      zerolog.Logger
	Metrics  *metrics.Set
}

const maxEntries = 1 << 20

// Engine runs the rules of all services. Its counts survive reloads. Safe for concurrent use.
type Engine struct {
	deps         Deps
	memory, kept sources.Storage

	mu      sync.Mutex
	metrics map[string]*counts

	runs sync.Pool
	said atomic.Int64
}

type counts struct {
	actions [verdict.Actions]*metrics.Counter
	failed  *metrics.Counter
}

// New returns an Engine.
func New(d Deps) *Engine {
	if d.Now == nil {
		d.Now = time.Now
	}
	e := &Engine{
		deps: d, metrics: make(map[string]*counts),
		memory: sources.NewMemoryStorage(d.Now, maxEntries), kept: sources.NewStoreStorage(d.Store, "rules/", d.Now),
	}
	e.runs.New = func() any { return newRun(e) }
	return e
}

// Ruleset compiles the rules of a service or path; nil for none.
func (e *Engine) Ruleset(name string, c ServiceConfig, names *Names) (*Ruleset, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p, err := c.compile(names, e.deps.Now)
	if err != nil || p == nil {
		return nil, err
	}
	s := &Ruleset{engine: e, name: name, program: p, time: c.Time, maxInput: c.MaxInput, count: e.counts(name)}
	s.answers, err = verdict.NewAnswers(c.Answers, c.Otherwise)
	s.onError, _ = verdict.ParseAction(c.OnError)
	if err == nil {
		s.after, err = c.compileAfter(names, e.deps.Now)
	}
	s.waits = p.Needs()&rules.PartCounters != 0 || p.Needs()&rules.PartStorages != 0 && usesStore(p)
	s.byMethod, s.afterByMethod = readsMethod(p), readsMethod(s.after)
	return s, err
}

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
	c := &counts{failed: e.deps.Metrics.GetOrCreateCounter(fmt.Sprintf(`antirobot_rules_failures_total{service=%q}`,
		service))}
	for a := range c.actions {
		c.actions[a] = e.deps.Metrics.GetOrCreateCounter(
			fmt.Sprintf(`antirobot_rules_total{service=%q,action=%q}`, service, verdict.RuleAction(a)))
	}
	e.metrics[service] = c
	return c
}

// Forget releases the metrics of a removed service.
func (e *Engine) Forget(service string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.metrics, service)
}

// Ruleset is the rules of one service. Immutable and safe for concurrent use.
type Ruleset struct {
	engine   *Engine
	name     string
	program  *rules.Program
	after    *rules.Program
	answers  *verdict.Answers
	onError  verdict.RuleAction
	time     time.Duration
	maxInput int
	waits    bool
	count    *counts

	byMethod, afterByMethod bool
}

// Judge implements verdict.Rules.
func (s *Ruleset) Judge(r *verdict.Ruling, v *request.View, id *identity.Identity, vs *verdict.Settings,
	so verdict.Verdict,
) {
	s.judge(r, s.run(v, id, vs, so, false))
}

// Trace judges a request and logs each statement.
func (s *Ruleset) Trace(v *request.View, id *identity.Identity, vs *verdict.Settings,
	so verdict.Verdict,
) *verdict.Ruling {
	r := new(verdict.Ruling)
	s.judge(r, s.run(v, id, vs, so, true))
	return r
}

func (s *Ruleset) judge(r *verdict.Ruling, j *run) {
	ctx := context.Background()
	if s.waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*s.time) // a late run has as much time again
		defer cancel()
	}
	err := s.program.Run(ctx, &j.env, &j.run)
	r.Take(s.program, &j.run)
	s.conclude(r, err)
	if s.byMethod && (len(j.view.Claims) > 0 || j.view.Overclaims) {
		s.judgeClaims(ctx, r, j)
	}
	if !j.watch {
		s.count.actions[r.Action].Inc()
	}
	j.end()
}

func (s *Ruleset) conclude(r *verdict.Ruling, err error) {
	if err != nil {
		r.Failed, r.Decision, r.Action = err.Error(), "", s.onError
		s.failed(err)
		return
	}
	r.Action = s.answers.Of(r.Decision)
}

// Answered implements verdict.AnswerRules.
func (s *Ruleset) Answered(v *request.View, id *identity.Identity, vs *verdict.Settings, a *verdict.Answer) {
	if s.after == nil {
		return
	}
	j := s.run(v, id, vs, a.Verdict, false)
	j.answer = a
	ctx, cancel := context.WithTimeout(context.Background(), s.time)
	defer cancel()
	err := s.after.Run(ctx, &j.env, &j.run)
	if s.afterByMethod {
		for _, m := range v.Claims {
			j.method = m
			j.once.Again()
			err = errors.Join(err, s.after.Run(ctx, &j.env, &j.run))
		}
	}
	if err != nil {
		s.failed(err)
	}
	j.end()
}

const failedEvery = 10 * time.Second

func (s *Ruleset) failed(err error) {
	s.count.failed.Inc()
	var f *rules.Fault
	if errors.As(err, &f) && f.Slow {
		s.engine.deps.Metrics.GetOrCreateCounter(
			fmt.Sprintf(`antirobot_rules_slow_total{service=%q,line="%d",rule=%q}`, s.name, f.Line, f.Rule)).Inc()
	}
	now, last := s.engine.deps.Now().Unix(), s.engine.said.Load()
	if now-last >= int64(failedEvery/time.Second) && s.engine.said.CompareAndSwap(last, now) {
		s.engine.deps.Log.Warn().Err(err).Str("service", s.name).Stringer("answer",
			s.onError).Msg("the rules over requests failed")
	}
}
