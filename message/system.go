package message

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/rules"
	"antirobot/store"
)

// Deps is what a System is given.
type Deps struct {
	Store   store.Store
	Log     zerolog.Logger
	Metrics *metrics.Set
	Now     func() time.Time // nil: time.Now
	Version string           // what sf.info.version answers

	Counters rules.CounterSource // may be nil: rules over counters don't compile then
	Lists    rules.ListSource    // likewise
	Formulas rules.Formulas      // likewise
}

// System is all partners with their domains. It is safe for concurrent use.
type System struct {
	cfg     Config
	deps    Deps
	node    uint32
	options rules.Options

	partners map[string]*partner
	trusted  *partner // with authorisation trust
	methods  map[string]*method
	failed   map[int]*metrics.Counter // by code
	refused  *metrics.Counter         // requests without a partner

	logs      map[string]*Log // all components by their keys
	models    map[string]*Model
	firewalls sync.Map // string → *Firewall

	judgements sync.Pool
	cancel     context.CancelFunc
	work       sync.WaitGroup
}

type partner struct {
	name   string
	secret [sha256.Size]byte
	root   *Domain

	mu     sync.Mutex
	spaces map[string]*counters // that rules name and nobody declared
}

// feedTopic is where gateways that share a store tell each other of new rules and learnt texts.
const feedTopic = "message"

// Open builds the domains of cfg and loads what the store knows of them. Close it: it has goroutines, and log entries
// that wait to be written.
func Open(ctx context.Context, cfg Config, deps Deps) (*System, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	s := &System{
		cfg: cfg, deps: deps, partners: make(map[string]*partner),
		logs: make(map[string]*Log), models: make(map[string]*Model),
	}
	var node [4]byte
	if _, err := rand.Read(node[:]); err != nil {
		return nil, fmt.Errorf("make a node number: %w", err)
	}
	s.node = binary.BigEndian.Uint32(node[:])
	s.judgements.New = func() any { return newJudgement(s) }
	s.options = s.ruleOptions()
	s.methods = methods()
	s.measure()

	// The position is noted before anything is loaded, so that nothing falls between.
	position := ""
	if deps.Store.Shared() {
		var err error
		if position, err = deps.Store.Position(ctx, feedTopic); err != nil {
			return nil, fmt.Errorf("read the feed of messages: %w", err)
		}
	}
	ancestor := s.defaultDomain()
	for _, p := range cfg.Partners {
		root := newDomain(ancestor, p.Name, "")
		if err := s.build(ctx, root, p.Domain); err != nil {
			return nil, fmt.Errorf("partner %s: %w", p.Name, err)
		}
		s.partners[p.Name] = &partner{name: p.Name, secret: sha256.Sum256([]byte(p.Secret)), root: root, spaces: make(map[string]*counters)}
		if cfg.Authorisation == "trust" {
			s.trusted = s.partners[p.Name]
		}
	}
	run, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.work.Go(func() { s.tend(run) })
	if deps.Store.Shared() {
		s.work.Go(func() { s.follow(run, position) })
	}
	return s, nil
}

func (s *System) ruleOptions() rules.Options {
	o := rules.DefaultOptions()
	o.Now = s.deps.Now
	o.Limits.Time = s.cfg.RulesTime
	o.Parts = rules.PartStorages | rules.PartModels | rules.PartLogs
	if s.deps.Counters != nil {
		o.Parts |= rules.PartCounters
	}
	if s.deps.Lists != nil {
		o.Parts |= rules.PartLists
	}
	if s.deps.Formulas != nil {
		o.Parts |= rules.PartFormulas
		o.Formulas = s.deps.Formulas
	}
	return o
}

// defaultDomain is the ancestor of all roots. Nobody can address or change it.
func (s *System) defaultDomain() *Domain {
	d := newDomain(nil, "", "")
	d.Set(propertyMessageDomain, &messageDomain{defaultAttributes(), int(s.cfg.MaxText)})
	d.Set(propertyAnalyzer, newFirewall(s.deps.Store, nil, s.options))
	return d
}

// componentKey begins the keys of a component in the store.
func componentKey(d *Domain, property string) string {
	return "message/" + d.partner + ":" + d.path + ":" + property + "/"
}

func (s *System) build(ctx context.Context, d *Domain, cfg DomainConfig) error {
	d.requests = s.requestCounters(d)
	for _, p := range cfg.Properties {
		value, err := s.component(ctx, d, p.withDefaults())
		if err != nil {
			return err
		}
		d.Set(p.Name, value)
	}
	if err := s.ownFirewalls(ctx, d); err != nil {
		return err
	}
	for _, sub := range cfg.Domains {
		if err := s.build(ctx, newDomain(d, d.partner, sub.Name), sub); err != nil {
			return err
		}
	}
	return nil
}

func (s *System) component(ctx context.Context, d *Domain, p PropertyConfig) (any, error) {
	key := componentKey(d, p.Name)
	switch p.Class {
	case ClassNumber:
		if p.Number == math.Trunc(p.Number) && math.Abs(p.Number) < 1<<53 {
			return int64(p.Number), nil
		}
		return p.Number, nil
	case ClassString:
		return p.String, nil
	case ClassMessageDomain:
		return &messageDomain{p.Attributes, int(s.cfg.MaxText)}, nil
	case ClassFirewall:
		return s.openFirewall(ctx, key, p.Rules)
	case ClassModel:
		m := newModel(s.deps.Store, key, p, int(s.cfg.MaxText), s.node)
		s.models[key] = m
		return m, m.load(ctx)
	case ClassMemoryStorage:
		return newMemoryStorage(s.deps.Now, s.cfg.MaxStorageEntries), nil
	case ClassStoreStorage:
		return &storeStorage{s.deps.Store, []byte(key)}, nil
	case ClassLog:
		l := newLog(s.deps.Store, key, p, s.cfg.MaxLogEntries, s.node, s.deps.Now)
		s.logs[key] = l
		return l, l.open(ctx)
	case ClassCounters:
		return newCounters(d.partner, key), nil
	}
	panic("BUG: a class that Validate let pass: " + p.Class)
}

func (s *System) openFirewall(ctx context.Context, key, fallback string) (*Firewall, error) {
	f := newFirewall(s.deps.Store, []byte(key+"rules"), s.options)
	s.firewalls.Store(key, f)
	if err := f.load(ctx, fallback); err != nil {
		var wrong *rules.Fault
		if !errors.As(err, &wrong) {
			return nil, err
		}
		// What was right when it was set may be refused later, with other limits: better no rules than no start.
		s.deps.Log.Error().Err(err).Str("firewall", key).Msg("rules are not usable")
	}
	return f, nil
}

// ownFirewalls gives d the firewalls that were made by setting rules where only the default domain had one.
func (s *System) ownFirewalls(ctx context.Context, d *Domain) error {
	prefix := "message/" + d.partner + ":" + d.path + ":"
	var names []string
	err := s.deps.Store.Scan(ctx, []byte(prefix+propertyAnalyzer), func(k, _ []byte, _ time.Duration) error {
		if name, ok := strings.CutSuffix(string(k[len(prefix):]), "/rules"); ok && name == propertyAnalyzer && !d.Has(name) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for rules: %w", err)
	}
	for _, name := range names {
		f, err := s.openFirewall(ctx, componentKey(d, name), "")
		if err != nil {
			return err
		}
		d.Set(name, f)
	}
	return nil
}

// setRules sets the rules of a firewall. Where d only has the default domain's, which nobody can change, it gets one of
// its own.
func (s *System) setRules(ctx context.Context, d *Domain, name, text string) error {
	f, err := d.firewall(name)
	if err != nil {
		return err
	}
	key := string(f.key)
	if f.key == nil {
		key = componentKey(d, name) + "rules"
		own := newFirewall(s.deps.Store, []byte(key), s.options)
		if err := own.Set(ctx, text); err != nil {
			return err
		}
		s.firewalls.Store(componentKey(d, name), own)
		d.Set(name, own)
	} else if err := f.Set(ctx, text); err != nil {
		return err
	}
	return s.tell(ctx, change{Component: strings.TrimSuffix(key, "rules")})
}

// train learns a text here and tells the other gateways.
func (s *System) train(ctx context.Context, m *Model, text string, good bool) error {
	record, err := m.Train(ctx, text, good, s.deps.Now())
	if err != nil {
		return err
	}
	return s.tell(ctx, change{Component: m.prefix, Text: &record})
}

// tend writes logs and makes snapshots of models until ctx ends.
func (s *System) tend(ctx context.Context) {
	flush := time.NewTicker(s.cfg.LogFlush)
	defer flush.Stop()
	compact := time.NewTicker(30 * time.Second)
	defer compact.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-flush.C:
			for key, l := range s.logs {
				if err := l.Flush(ctx); err != nil && ctx.Err() == nil {
					s.deps.Log.Error().Err(err).Str("log", key).Msg("log entries were lost")
				}
			}
		case <-compact.C:
			s.compact(ctx, compactAfter)
		}
	}
}

func (s *System) compact(ctx context.Context, least int64) {
	for key, m := range s.models {
		if err := m.compact(ctx, least); err != nil && ctx.Err() == nil {
			s.deps.Log.Error().Err(err).Str("model", key).Msg("no snapshot of a model was made")
		}
	}
}

// Close stops the goroutines and writes what waits. Nothing may be called afterwards.
func (s *System) Close() error {
	s.cancel()
	s.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	for _, l := range s.logs {
		errs = append(errs, l.close(ctx))
	}
	return errors.Join(errs...)
}

// Domain returns the domain at a path below the root of a partner.
func (s *System) Domain(partner, path string) (*Domain, error) {
	p, ok := s.partners[partner]
	if !ok {
		return nil, rules.Faultf(CodeAuthorisation, "there is no partner %q", cutText(partner, 64))
	}
	d, ok := p.root.Find(path)
	if !ok {
		return nil, rules.Faultf(CodeDomain, "there is no domain %q", cutText(path, 128))
	}
	return d, nil
}

// Recompile compiles the rules of all firewalls anew, for formulas that have changed.
func (s *System) Recompile() {
	s.firewalls.Range(func(key, v any) bool {
		if f, ok := v.(*Firewall); ok {
			if err := f.recompile(); err != nil {
				s.deps.Log.Error().Err(err).Any("firewall", key).Msg("rules do not fit the new formulas, and go on with the old ones")
			}
		}
		return true
	})
}

// Partners returns the names of all partners, sorted.
func (s *System) Partners() []string { return slices.Sorted(maps.Keys(s.partners)) }

// authorise returns the partner that a caller is.
func (s *System) authorise(name, secret string) (*partner, bool) {
	p, ok := s.partners[name]
	sum := sha256.Sum256([]byte(secret))
	if !ok {
		return nil, false
	}
	return p, subtle.ConstantTimeCompare(sum[:], p.secret[:]) == 1
}

// Judge runs the domain's messageAnalyzer over a message of these values, each a string, an int64 or a netip.Addr.
// Errors that are the caller's or the rules' are *rules.Fault.
func (s *System) Judge(ctx context.Context, d *Domain, values map[string]any, trace bool) (Outcome, error) {
	kind, err := d.messages()
	if err != nil {
		return Outcome{}, err
	}
	m, err := kind.read(values)
	if err != nil {
		return Outcome{}, err
	}
	f, err := d.firewall(propertyAnalyzer)
	if err != nil {
		return Outcome{}, err
	}
	return s.judge(ctx, d, f, m, trace)
}

func (s *System) judge(ctx context.Context, d *Domain, f *Firewall, m *Message, trace bool) (o Outcome, err error) {
	o.Decision = rules.Unknown
	err = s.run(ctx, d, f, m, trace, func(_ *rules.Program, r *rules.Run, err error) {
		o.Log = r.Log()
		if err == nil {
			o.Decision, o.Score, o.Tags = r.Decision(), r.Score(), r.AppendTags(nil)
		}
	})
	if err != nil {
		o.Decision = ""
	}
	return o, err
}

// run runs the rules of f over m and hands the state of the run to took, which keeps nothing of it. Without rules took
// is not called.
func (s *System) run(ctx context.Context, d *Domain, f *Firewall, m *Message, trace bool, took func(p *rules.Program, r *rules.Run, err error)) error {
	p := f.Program()
	if p == nil {
		return nil
	}
	j, ok := s.judgements.Get().(*judgement)
	if !ok {
		panic("BUG: the pool holds something else")
	}
	defer func() {
		j.domain, j.message = nil, nil
		s.judgements.Put(j)
	}()
	j.domain, j.message, j.run.Trace = d, m, trace
	err := p.Run(ctx, &j.env, &j.run)
	took(p, &j.run, err)
	return err
}

// methodInline is what messages within requests are counted as, beside the methods of the API.
const methodInline = "inline"

// JudgeInline judges a message that was read from a request as Judge does, and hands the state of the run to took,
// which keeps nothing of it. Without rules took is not called.
func (s *System) JudgeInline(ctx context.Context, d *Domain, values map[string]any, trace bool, took func(p *rules.Program, r *rules.Run, err error)) error {
	d.requests[methodInline].Inc()
	kind, err := d.messages()
	if err != nil {
		return err
	}
	m, err := kind.read(values)
	if err != nil {
		return err
	}
	f, err := d.firewall(propertyAnalyzer)
	if err != nil {
		return err
	}
	return s.run(ctx, d, f, m, trace, took)
}

// Search returns the entries of a domain's log that fit a query; an empty name is messageLog.
func (s *System) Search(ctx context.Context, d *Domain, log string, q Query) ([]Entry, error) {
	l, err := d.log(cmp.Or(log, "messageLog"))
	if err != nil {
		return nil, err
	}
	q.Limit = min(cmp.Or(q.Limit, s.cfg.MaxFetch), s.cfg.MaxFetch)
	return l.Search(ctx, q)
}

// Marking says what a moderator marks: the names are of properties, and of the attribute with the text; empty ones are
// messageLog, model and text.
type Marking struct {
	Log, Model, Attribute string
	ID                    int64 // of the log's entry
	Good                  bool
}

// Mark trains a model with a message of a log: what a moderator says of it. It reports false if the same was said
// before; it is learnt once.
func (s *System) Mark(ctx context.Context, d *Domain, k Marking) (learnt bool, err error) {
	l, err := d.log(cmp.Or(k.Log, "messageLog"))
	if err != nil {
		return false, err
	}
	m, err := d.model(cmp.Or(k.Model, "model"))
	if err != nil {
		return false, err
	}
	entries, err := l.Fetch(ctx, Range{FirstID: k.ID})
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == k.ID })
	if at < 0 {
		return false, rules.Faultf(CodeProperty, "the log has no entry %d", k.ID)
	}
	attribute := cmp.Or(k.Attribute, "text")
	v, ok := entries[at].Message.Attribute(attribute)
	if !ok || v.Kind != rules.Text {
		return false, rules.Faultf(CodeAttribute, "entry %d has no text %q", k.ID, attribute)
	}
	once := fmt.Appendf(nil, "%smarked/%d/%s/%s/%t", l.prefix, k.ID, m.prefix, attribute, k.Good)
	if first, err := s.deps.Store.Spend(ctx, once, l.chunk*time.Duration(l.numChunks)+time.Hour); err != nil || !first {
		return false, err
	}
	return true, s.train(ctx, m, v.Text, k.Good)
}
