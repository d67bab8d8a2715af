package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"antirobot/rules"
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
	o := d.known().options(s.options)
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

type known struct {
	classes    map[string]string
	attributes []AttributeConfig
}

func (k known) options(o rules.Options) rules.Options {
	o.Storages, o.Models, o.Logs = []string{}, []string{}, []string{}
	for name, class := range k.classes {
		switch class {
		case ClassMemoryStorage, ClassStoreStorage:
			o.Storages = append(o.Storages, name)
		case ClassModel:
			o.Models = append(o.Models, name)
		case classLog:
			o.Logs = append(o.Logs, name)
		}
	}
	o.Attributes = func(name string) bool {
		return slices.ContainsFunc(k.attributes, func(a AttributeConfig) bool { return a.Name == name })
	}
	return o
}

func (d *Domain) known() known {
	k := known{classes: make(map[string]string)}
	for at := d; at != nil; at = at.parent {
		for _, name := range at.List() {
			if _, nearer := k.classes[name]; !nearer {
				p, _ := at.Get(name)
				_, k.classes[name], _ = Describe(name, p)
			}
		}
	}
	k.attributes, _ = d.Attributes() // every domain inherits a message domain
	return k
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

// startRules apply in domains without rules; a line that needs a missing component is left out. See
// docs/messages.md.
const startRules = `do hasAttribute(attribute="text") mark wordless
if wordless stop as UNKNOWN
do messageFloodCheck() mark flood score 2
do messageFrequencyCheck() mark frequent score 1
do nearDuplicateCheck() mark alike score 1
do rangeCheck(attribute="text.link.count", max=2) mark links score 1
do rangeCheck(attribute="text.link.short", max=0) mark shortened score 1
do regexpCheck(regexp="(?is).*(?:\[url[=\]]|\[/url\]|<a\s[^>]*href)", attribute="text") mark nomarkup
if not nomarkup do ruleFalse() mark markup score 2
do modelClassify() mark spam score 2
do messageLogPut()
do scoreOver(limit=1.5) mark bad
if bad stop as SPAM
stop as OK
`

func (s *System) startOf(d *Domain) *rules.Program {
	var lacks string
	if _, err := d.storage("storage"); err != nil {
		lacks += " messageFrequencyCheck nearDuplicateCheck"
	}
	if _, err := d.Model("model"); err != nil {
		lacks += " modelClassify"
	}
	if _, err := d.messageLog("messageLog"); err != nil {
		lacks += " messageLogPut"
	}
	if p, ok := s.starts.Load(lacks); ok {
		return p.(*rules.Program) //nolint:forcetypeassert // nothing else is put there
	}
	var text strings.Builder
	for line := range strings.Lines(startRules) {
		rule, _, _ := strings.Cut(strings.TrimPrefix(line, "do "), "(")
		if !strings.Contains(lacks+" ", " "+rule+" ") {
			text.WriteString(line)
		}
	}
	p, err := rules.Compile(text.String(), s.options)
	if err != nil {
		panic("BUG: the start rules are wrong: " + err.Error())
	}
	s.starts.Store(lacks, p)
	return p
}
