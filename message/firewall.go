package message

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/rules"
	"antirobot/store"
)

// Firewall holds rules. Without any its decision is UNKNOWN. Safe for concurrent use.
type Firewall struct {
	store   store.Store
	key     []byte // of the text; nil: the rules can't be changed
	options rules.Options

	mu      sync.Mutex // of Set
	current atomic.Pointer[ruleSet]
}

type ruleSet struct {
	text    string
	program *rules.Program // nil: no rules
}

func newFirewall(st store.Store, key []byte, o rules.Options) *Firewall {
	f := &Firewall{store: st, key: key, options: o}
	f.current.Store(&ruleSet{})
	return f
}

// Rules returns the text of the rules, empty if none were set.
func (f *Firewall) Rules() string { return f.current.Load().text }

// Program returns the compiled rules, nil if none were set.
func (f *Firewall) Program() *rules.Program { return f.current.Load().program }

// Set replaces the rules, durably. A text that is wrong changes nothing; its fault says where.
func (f *Firewall) Set(ctx context.Context, text string) error {
	set, err := f.compile(text)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.store.Put(ctx, f.key, []byte(text), 0); err != nil {
		return fmt.Errorf("keep rules: %w", err)
	}
	f.current.Store(set)
	return nil
}

func (f *Firewall) compile(text string) (*ruleSet, error) {
	p, err := rules.Compile(text, f.options)
	if err != nil {
		return nil, rules.Faultf(CodeSyntax, "%v", err)
	}
	return &ruleSet{text, p}, nil
}

// Check looks at the syntax of a text alone.
func (f *Firewall) Check(text string) error {
	if _, err := rules.Parse(text, f.options.Limits); err != nil {
		return rules.Faultf(CodeSyntax, "%v", err)
	}
	return nil
}

// load takes the rules from the store; fallback are those that count until others are set.
func (f *Firewall) load(ctx context.Context, fallback string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := f.store.Get(ctx, nil, f.key)
	if errors.Is(err, store.ErrNotFound) {
		text, err = []byte(fallback), nil
	}
	if err != nil {
		return fmt.Errorf("load rules: %w", err)
	}
	if len(text) == 0 {
		f.current.Store(&ruleSet{})
		return nil
	}
	set, err := f.compile(string(text))
	if err != nil {
		return fmt.Errorf("load rules: %w", err)
	}
	f.current.Store(set)
	return nil
}

// recompile compiles the present rules anew: what they call by name may be another. Rules that do not fit any more stay
// as they were.
func (f *Firewall) recompile() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := f.Rules()
	if text == "" {
		return nil
	}
	set, err := f.compile(text)
	if err == nil {
		f.current.Store(set)
	}
	return err
}

// Outcome is what the rules made of a message.
type Outcome struct {
	Decision string
	Score    float64
	Tags     []string // in the order of their marking
	Log      string   // line by line, if asked for
}

// judgement runs the rules of one message at a time. It is the rules' Env.
type judgement struct {
	system  *System
	domain  *Domain
	message *Message
	run     rules.Run
	env     rules.Env
}

func newJudgement(s *System) *judgement {
	j := &judgement{system: s}
	j.env = rules.Env{Attributes: j, Storages: j, Models: j, Logs: j, Counters: j, Lists: s.deps.Lists}
	return j
}

// Attribute is rules.Attributes.
func (j *judgement) Attribute(name string) (rules.Value, bool) { return j.message.Attribute(name) }

func (j *judgement) Good(_ context.Context, model, text string) (bool, error) {
	m, err := j.domain.model(model)
	if err != nil {
		return false, err
	}
	return m.Good(text), nil
}

func (j *judgement) Train(ctx context.Context, model, text string, good bool) error {
	m, err := j.domain.model(model)
	if err != nil {
		return err
	}
	return j.system.train(ctx, m, text, good)
}

func (j *judgement) Put(ctx context.Context, log, tag string, r *rules.Run) error {
	l, err := j.domain.log(log)
	if err != nil {
		return err
	}
	return l.Put(ctx, j.message, tag, r)
}

// own puts a counter into the name space of a domain's property. Without such a property it is one of the partner's root.
func (j *judgement) own(c rules.Counter) (rules.Counter, error) {
	if _, ok := j.domain.Get(c.Prefix); !ok {
		space, err := j.system.partners[j.domain.partner].counters(c.Prefix)
		if err == nil {
			c.Prefix = space.prefix
		}
		return c, err
	}
	space, err := property[*counters](j.domain, c.Prefix, CodeType, "of the class Counters")
	if err == nil {
		c.Prefix = space.prefix
	}
	return c, err
}

// maxSpaces bounds the name spaces of counters that the rules of a partner may name without declaring them.
const maxSpaces = 64

// counters returns the name space that nobody declared.
func (p *partner) counters(name string) (*counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.spaces[name]; c != nil {
		return c, nil
	}
	if len(p.spaces) == maxSpaces {
		return nil, rules.Faultf(CodeProperty, "the domain has no counters %q, and the partner has %d others already", cutText(name, 64), maxSpaces)
	}
	c := newCounters(p.name, "message/"+p.name+":/:"+name+"/")
	p.spaces[name] = c
	return c, nil
}

func (j *judgement) Count(ctx context.Context, c rules.Counter) (uint64, error) {
	c, err := j.own(c)
	if err != nil {
		return 0, err
	}
	return j.system.deps.Counters.Count(ctx, c)
}

func (j *judgement) Share(ctx context.Context, c rules.Counter) (bad, judged uint64, err error) {
	if c, err = j.own(c); err != nil {
		return 0, 0, err
	}
	return j.system.deps.Counters.Share(ctx, c)
}

func (j *judgement) Add(ctx context.Context, c rules.Counter, n uint64) error {
	c, err := j.own(c)
	if err != nil {
		return err
	}
	return j.system.deps.Counters.Add(ctx, c, n)
}

func (j *judgement) AddPair(ctx context.Context, c rules.Counter, unique rules.Value) error {
	c, err := j.own(c)
	if err != nil {
		return err
	}
	return j.system.deps.Counters.AddPair(ctx, c, unique)
}

// Mark is rules.Counters.
func (j *judgement) Mark(ctx context.Context, c rules.Counter, as rules.Marker) error {
	c, err := j.own(c)
	if err != nil {
		return err
	}
	return j.system.deps.Counters.Mark(ctx, c, as)
}

// Frequency is rules.Storages.
func (j *judgement) Frequency(ctx context.Context, name string, key []byte, window time.Duration) (int64, error) {
	s, err := j.domain.storage(name)
	if err != nil {
		return 0, err
	}
	return s.Incr(ctx, key, 1, window)
}
