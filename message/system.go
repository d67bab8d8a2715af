package message

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/message/learn"
	"antirobot/rules"
	"antirobot/store"
)

// Deps is what a System works with.
type Deps struct {
	Store   store.Store
	Log     zerolog.Logger
	Metrics *metrics.Set
	Now     func() time.Time

	Counters rules.CounterSource // nil: rules over counters don't compile
	Lists    rules.ListSource    // nil: rules over lists don't compile
	Formulas rules.Formulas      // nil: rules over formulas don't compile
	// Names returns the lists, and whether a file of places exists, for warnings; nil: unknown.
	Names  func() (lists []rules.List, places bool)
	Places rules.Places // may be nil
}

// System holds all partners with their domains. Safe for concurrent use.
type System struct {
	cfg     Config
	deps    Deps
	node    uint32
	options rules.Options

	partners map[string]*partner
	trusted  *partner

	logs      map[string]*messageLog
	models    map[string]*Model
	start     *learn.Start
	firewalls sync.Map // string → *Firewall
	starts    sync.Map // string → *rules.Program: the start rules, by missing components

	judgements sync.Pool
	explained  atomic.Int64
	saidSlow   atomic.Int64
	cancel     context.CancelFunc
	work       sync.WaitGroup
}

type partner struct {
	name   string
	secret [sha256.Size]byte
	root   *Domain

	mu     sync.Mutex
	spaces map[string]*counters // undeclared ones
}

const feedTopic = "message"

// New returns a System that judges nothing before Start.
func New(cfg Config, deps Deps) (*System, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	s := &System{
		cfg: cfg, deps: deps, partners: make(map[string]*partner),
		logs: make(map[string]*messageLog), models: make(map[string]*Model), start: learn.NewStart(),
	}
	var node [4]byte
	if _, err := rand.Read(node[:]); err != nil {
		return nil, fmt.Errorf("make a node number: %w", err)
	}
	s.node = binary.BigEndian.Uint32(node[:])
	s.judgements.New = func() any { return newJudgement(s) }
	s.options = s.ruleOptions()
	if s.deps.Metrics == nil {
		s.deps.Metrics = metrics.NewSet()
	}
	return s, nil
}

// Start builds the domains and loads their state; ctx is for the start only. The caller must Close the System.
func (s *System) Start(ctx context.Context) error {
	// Noted before loading, so that no change is missed.
	position := ""
	if s.deps.Store.Shared() {
		var err error
		if position, err = s.deps.Store.Position(ctx, feedTopic); err != nil {
			return fmt.Errorf("read the feed of messages: %w", err)
		}
	}
	ancestor := s.defaultDomain()
	for _, p := range s.cfg.Partners {
		root := newDomain(ancestor, p.Name, "")
		if err := s.build(ctx, root, p.Domain); err != nil {
			return fmt.Errorf("partner %s: %w", p.Name, err)
		}
		s.partners[p.Name] = &partner{
			name: p.Name, secret: sha256.Sum256([]byte(p.Secret)), root: root,
			spaces: make(map[string]*counters),
		}
		if s.cfg.Authorisation == "trust" {
			s.trusted = s.partners[p.Name]
		}
	}
	run, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.work.Go(func() { s.tend(run) })
	if s.deps.Store.Shared() {
		s.work.Go(func() { s.follow(run, position) })
	}
	return nil
}

func begin(ctx context.Context, cfg Config, deps Deps) (*System, error) {
	s, err := New(cfg, deps)
	if err != nil {
		return nil, err
	}
	return s, s.Start(ctx)
}

// SetRules sets the rules of a firewall. A domain that only inherits the default firewall gets its own.
func (s *System) SetRules(ctx context.Context, d *Domain, name, text string) error {
	f, err := d.Firewall(name)
	if err != nil {
		return err
	}
	key := string(f.key)
	if f.key == nil {
		key = componentKey(d, name) + "rules"
		own := newFirewall(s.deps.Store, []byte(key), s.options)
		if err := own.set(ctx, text); err != nil {
			return err
		}
		s.firewalls.Store(componentKey(d, name), own)
		d.put(name, own)
	} else if err := f.set(ctx, text); err != nil {
		return err
	}
	return s.tell(ctx, change{Component: strings.TrimSuffix(key, "rules")})
}

func (s *System) tend(ctx context.Context) {
	flush := time.NewTicker(logFlush)
	defer flush.Stop()
	shorten := time.NewTicker(30 * time.Second)
	defer shorten.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-flush.C:
			for key, l := range s.logs {
				if err := l.flush(ctx); err != nil && ctx.Err() == nil {
					s.deps.Log.Error().Err(err).Str("log", key).Msg("log entries were lost")
				}
			}
		case <-shorten.C:
			s.shorten(ctx)
		}
	}
}

func (s *System) shorten(ctx context.Context) {
	for key, m := range s.models {
		if err := m.shorten(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.Error().Err(err).Str("model", key).Msg("a model could not be shortened")
		}
	}
}

// Close stops the goroutines and writes pending log entries.
func (s *System) Close() error {
	if s.cancel != nil {
		s.cancel()
	}
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
		return nil, rules.Faultf(CodeAuthorisation, "there is no partner %q", rules.Clip(partner, 64))
	}
	d, ok := p.root.find(path)
	if !ok {
		return nil, rules.Faultf(CodeDomain, "there is no domain %q", rules.Clip(path, 128))
	}
	return d, nil
}

// Recompile compiles all rules again, for changed formulas.
func (s *System) Recompile() {
	s.firewalls.Range(func(key, v any) bool {
		if f, ok := v.(*Firewall); ok {
			if err := f.recompile(); err != nil {
				s.deps.Log.Error().Err(err).Any("firewall",
					key).Msg("rules do not fit the new formulas and keep the old ones")
			}
		}
		return true
	})
}

// Partners returns the names of all partners, sorted.
func (s *System) Partners() []string { return slices.Sorted(maps.Keys(s.partners)) }

// Trusted returns the only partner, if authorisation is trust.
func (s *System) Trusted() (partner string, ok bool) {
	if s.trusted == nil {
		return "", false
	}
	return s.trusted.name, true
}

// PartnerOfKey returns the partner of an Akismet key. All keys are compared, in constant time.
func (s *System) PartnerOfKey(key string) (partner string, ok bool) {
	if name, trust := s.Trusted(); trust {
		own := sha256.Sum256([]byte(s.cfg.Akismet.Key))
		sum := sha256.Sum256([]byte(key))
		return name, s.cfg.Akismet.Key != "" && subtle.ConstantTimeCompare(own[:], sum[:]) == 1
	}
	for name := range s.partners {
		if s.Authorised(name, key) {
			partner, ok = name, true
		}
	}
	return partner, ok
}

// Authorised reports whether secret is the partner's.
func (s *System) Authorised(name, secret string) bool {
	p, ok := s.partners[name]
	sum := sha256.Sum256([]byte(secret))
	return ok && subtle.ConstantTimeCompare(sum[:], p.secret[:]) == 1
}
