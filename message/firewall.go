package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"antirobot/rules"
	"antirobot/rules/sources"
	"antirobot/store"
)

// Firewall holds rules; without any it decides UNKNOWN. Safe for concurrent use.
type Firewall struct {
	store   store.Store
	key     []byte // nil: the rules can't be changed
	options rules.Options

	mu      sync.Mutex
	current atomic.Pointer[ruleSet]
}

type ruleSet struct {
	text    string
	program *rules.Program
}

func newFirewall(st store.Store, key []byte, o rules.Options) *Firewall {
	f := &Firewall{store: st, key: key, options: o}
	f.current.Store(&ruleSet{})
	return f
}

// Rules returns the text of the rules, empty if none were set.
func (f *Firewall) Rules() string { return f.current.Load().text }

func (f *Firewall) program() *rules.Program { return f.current.Load().program }

// set replaces the rules durably. Invalid rules change nothing.
func (f *Firewall) set(ctx context.Context, text string) error {
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

// CheckRules returns the error that SetRules would return, and warnings about probable mistakes.
func (s *System) CheckRules(d *Domain, name, text string) (warnings []string, err error) {
	if _, err := d.Firewall(name); err != nil {
		return nil, err
	}
	o := d.lintOptions(s.options)
	if s.deps.Names != nil {
		o.Lists, o.Places = s.deps.Names()
		o.LooseLists = true
	}
	p, err := rules.Compile(text, o)
	if err != nil {
		return nil, rules.Faultf(CodeSyntax, "%v", err)
	}
	for _, w := range p.Warnings() {
		warnings = append(warnings, w.Error())
	}
	return warnings, nil
}

func (d *Domain) lintOptions(o rules.Options) rules.Options {
	o.Storages, o.Models, o.Logs = []string{}, []string{}, []string{}
	seen := make(map[string]bool)
	for at := d; at != nil; at = at.parent {
		for _, name := range at.List() {
			if seen[name] {
				continue
			}
			seen[name] = true
			switch p, _ := at.Get(name); p.(type) {
			case sources.Storage:
				o.Storages = append(o.Storages, name)
			case *Model:
				o.Models = append(o.Models, name)
			case *messageLog:
				o.Logs = append(o.Logs, name)
			}
		}
	}
	if known, _, err := d.Attributes(); err == nil {
		o.Attributes = func(name string) bool {
			return slices.ContainsFunc(known, func(a AttributeConfig) bool { return a.Name == name })
		}
	}
	return o
}

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

// recompile compiles the rules again after a change of formulas. Rules that no longer compile stay as they were.
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
