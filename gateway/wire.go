package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/admin"
	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/config"
	"antirobot/identity"
	"antirobot/proxy"
	"antirobot/proxy/h1"
	"antirobot/proxy/h2"
	"antirobot/proxy/upstream"
	"antirobot/rules/requestrules"
	"antirobot/settings"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/templates"
	"antirobot/verdict"
	"antirobot/verdict/counter"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// Server is the running gateway: the one place where the parts are put together. The parts that live as long as the
// process stand here; what a reload replaces is in the gateway's Snapshot.
type Server struct {
	version string
	reread  func() (*config.Config, error) // the configuration as it stands now; nil: it is not read again
	logs    *logWriter
	log     zerolog.Logger
	set     *metrics.Set
	began   time.Time
	Token   string // of the private listener

	store        *Backend
	losses       *store.Losses       // nil: the store is not shared
	sharedRing   *spravka.SharedRing // nil: the ring is not shared
	counters     *counter.Shingler
	messages     *messageKeeper
	requestRules *requestrules.Engine
	formulas     heldFormulas
	keys         *spravka.Keys
	lists        *cbb.Lists
	cacher       *verdict.Cacher
	proc         *processor.Processor
	formula      *formula.Live
	resolver     *identity.Resolver
	pages        *templates.Set
	captcha      *captcha.Captcha
	metrics      *proxy.Metrics
	gateway      *proxy.Gateway
	server       *h1.Server
	http2        *h2.Server // nil: only HTTP/1 is spoken
	admin        *admin.Server

	check       *proxy.Check // nil: check mode is off
	checkServer *h1.Server

	mu       sync.Mutex // serialises reloads
	Cfg      *config.Config
	groups   map[string]*upstream.Group // by service, kept over a reload that does not change them
	indexes  map[string]uint16          // of the settings of services and paths
	certs    map[int]*h1.Certificates   // by listener
	serving  sync.WaitGroup
	failed   chan error // a listener that ended by itself
	draining atomic.Bool

	AdminAddr    string   // where the private listener is
	visitorAddrs []string // where visitors are served
}

// New builds everything up to the listeners. What it has opened is closed again when it fails.
func New(cfg *config.Config, version string, reread func() (*config.Config, error)) (_ *Server, err error) {
	a := &Server{
		version: version, reread: reread, Cfg: cfg, set: metrics.NewSet(), began: time.Now(), groups: map[string]*upstream.Group{},
		indexes: map[string]uint16{}, certs: map[int]*h1.Certificates{}, failed: make(chan error, 8),
	}
	a.openLog()
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	steps := []struct {
		what string
		do   func() error
	}{
		{"data directory", a.openDataDir},
		{"store", a.openStore},
		{"keys", a.openKeys},
		{"counters", a.openCounters},
		{"lists", a.openLists},
		{"rules", a.openRules},
		{"messages", a.openMessages},
		{"verdict", a.openVerdict},
		{"identity", a.openIdentity},
		{"captcha", a.openCaptcha},
		{"services", a.openGateway},
		{"check mode", a.openCheck},
		{"private listener", a.openAdmin},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.what, err)
		}
	}
	for _, w := range cfg.Warnings() {
		a.log.Warn().Msg(w)
	}
	return a, nil
}

func (a *Server) openDataDir() error {
	return os.MkdirAll(a.Cfg.DataDir, 0o700)
}

func (a *Server) openLists() (err error) {
	a.lists, err = cbb.New(a.Cfg.Lists, cbb.Deps{
		KV: a.store, Feed: a.store, Dir: filepath.Join(a.Cfg.DataDir, "lists"), Log: a.Logger("lists"), Metrics: a.set,
		Shared: a.store.Shared(), Copy: a.sharedCopy("lists"), Losses: a.losses,
	})
	if err != nil {
		return err
	}
	return a.lists.Start(context.Background())
}

func (a *Server) openVerdict() (err error) {
	a.cacher, err = verdict.New(a.Cfg.Verdict, verdict.Deps{
		Store: a.store, Lists: a.lists, Log: a.Logger("verdict"), Metrics: a.set,
		Copy: a.sharedCopy("bans"), Losses: a.losses,
	})
	if err != nil {
		return err
	}
	if a.formula, err = openFormula(a.Cfg.Formula, a.set); err != nil {
		return err
	}
	a.proc, err = processor.New(a.Cfg.Processor, processor.Deps{
		Keeper: a.cacher, Formula: a.formula, Counters: a.counters, Training: config.TrainingDir(a.Cfg.DataDir),
		Log: a.Logger("processor"), Metrics: a.set,
	})
	if err != nil {
		return err
	}
	if err := a.cacher.Start(context.Background()); err != nil {
		return err
	}
	return a.proc.Start(context.Background())
}

// openFormula returns the configured model, with the candidate beside it.
func openFormula(cfg formula.Config, set *metrics.Set) (*formula.Live, error) {
	models, err := config.LoadModels(cfg)
	if err != nil {
		return nil, err
	}
	return formula.NewLive(models, formula.Deps{Metrics: set})
}

func (a *Server) openIdentity() (err error) {
	a.resolver, err = identity.New(a.Cfg.Identity, identity.Deps{
		Keys: a.keys, Revocations: a.cacher, Store: a.store, Log: a.Logger("identity"), Metrics: a.set,
	})
	if err != nil {
		return err
	}
	return a.resolver.Start(context.Background())
}

func (a *Server) openCaptcha() (err error) {
	a.pages, a.captcha, err = a.newCaptcha(a.Cfg)
	return err
}

// newCaptcha builds what makes and checks challenges, with the pages of the configured directory over the built-in ones.
func (a *Server) newCaptcha(cfg *config.Config) (*templates.Set, *captcha.Captcha, error) {
	pages, err := loadPages(cfg)
	if err != nil {
		return nil, nil, err
	}
	c, err := captcha.New(cfg.Captcha, captcha.Deps{
		Keys: a.keys, Store: a.store, Log: a.Logger("captcha"), Metrics: a.set, Previous: a.captcha,
	})
	return pages, c, err
}

// loadPages reads the pages and catalogues, with those of the configured directory over the built-in ones.
func loadPages(cfg *config.Config) (*templates.Set, error) {
	var override fs.FS
	if dir := cfg.Captcha.Templates; dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("captcha.templates: %w", err)
		}
		override = os.DirFS(dir)
	}
	pages, err := templates.New(override)
	if err != nil {
		return nil, fmt.Errorf("captcha.templates: %w", err)
	}
	return pages, nil
}

func (a *Server) openGateway() error {
	a.metrics = proxy.NewMetrics(a.set)
	snap, groups, services, err := a.snapshot(a.Cfg, a.pages, a.captcha)
	if err != nil {
		return err
	}
	a.groups = groups
	use, err := a.proc.Prepare(services)
	if err != nil {
		return err
	}
	use()
	deps := proxy.Deps{Resolver: a.resolver, Decider: a.cacher, Log: a.Logger("gateway"), Metrics: a.metrics}
	deps.Messages = a.messagesForGateway
	if a.Cfg.Processor.Enabled {
		deps.Sink = a.proc
		deps.Crawlers = a.proc.Learns()
	}
	deps.DecisionLines, deps.AccessLines = a.Cfg.Log.DecisionLines, a.Cfg.Log.AccessLines
	if a.Cfg.Log.Access {
		access := a.Logger("access")
		deps.Access = &access
	}
	a.gateway = proxy.New(snap, deps)
	a.server = h1.NewServer(a.Cfg.HTTP, a.gateway, a.Logger("http"), a.set)
	if a.Cfg.HTTP2.Enabled {
		a.http2 = h2.New(a.Cfg.HTTP2, a.server, a.set)
	}
	return nil
}

// Logger is the log of one part of the gateway.
func (a *Server) Logger(name string) zerolog.Logger { return a.log.With().Str("part", name).Logger() }

// snapshot builds what a configuration says of the services. Connection pools of services whose upstream has not
// changed are taken over from the present configuration.
func (a *Server) snapshot(cfg *config.Config, pages *templates.Set, c *captcha.Captcha) (*proxy.Snapshot, map[string]*upstream.Group, []*verdict.Settings, error) {
	names, err := cfg.RuleNames()
	if err != nil {
		return nil, nil, nil, settings.At("formula", err)
	}
	b := builder{app: a, pages: pages, names: names, groups: map[string]*upstream.Group{}}
	var services []*proxy.Service
	for i := range cfg.Resolved {
		services = append(services, b.service(&cfg.Resolved[i]))
	}
	if err := errors.Join(b.errs...); err != nil {
		b.discard()
		return nil, nil, nil, err
	}
	router, err := proxy.NewRouter(services, a.metrics)
	if err != nil {
		b.discard()
		return nil, nil, nil, err
	}
	return &proxy.Snapshot{Router: router, Captcha: c}, b.groups, b.verdicts, nil
}

// builder builds services and collects what goes wrong.
type builder struct {
	app      *Server
	pages    *templates.Set
	names    *requestrules.Names
	groups   map[string]*upstream.Group
	fresh    []*upstream.Group // made here, not taken over
	verdicts []*verdict.Settings
	errs     []error
}

func (b *builder) discard() {
	for _, g := range b.fresh {
		_ = g.Close()
	}
}

func (b *builder) service(s *config.Service) *proxy.Service {
	group := b.group(s)
	p := b.settings(s, s, "", group)
	for i := range s.Resolved {
		path := &s.Resolved[i]
		p.Paths = append(p.Paths, proxy.PathRule{Prefix: path.Prefix, Service: b.settings(s, &path.Service, path.Prefix, group)})
	}
	return p
}

// settings builds the settings of a whole service or of a path below it.
func (b *builder) settings(whole, s *config.Service, prefix string, group *upstream.Group) *proxy.Service {
	fail := func(section string, err error) {
		b.errs = append(b.errs, settings.At(s.Path+"."+section, err))
	}
	who, err := identity.NewCookieSettings(s.Cookies)
	if err != nil {
		fail("cookies", err)
		return &proxy.Service{}
	}
	v, err := s.Verdict.Settings(whole.Name, b.app.index(whole.Name, prefix))
	fail("verdict", err)
	c, err := captcha.NewSettings(whole.Name, s.Captcha, who, whole.OwnsHost, b.pages)
	fail("captcha", err)
	if v != nil && b.app.proc != nil {
		v.Scorer = b.app.proc
	}
	b.rules(s, whole.Name, v, fail)
	b.verdicts = append(b.verdicts, v)
	return &proxy.Service{
		Name: whole.Name, Hosts: whole.Hosts, Prefixes: whole.Prefixes, Upstream: group, Verdict: v, Identity: who, Captcha: c,
		Config: s.Requests, Messages: s.Messages,
	}
}

func (b *builder) group(s *config.Service) *upstream.Group {
	cfg := s.Upstream
	cfg.Service = s.Name
	if old := b.app.groups[s.Name]; old != nil && reflect.DeepEqual(*old.Config(), cfg) {
		b.groups[s.Name] = old
		return old
	}
	g, err := upstream.New(cfg, b.app.Logger("upstream"), b.app.set)
	if err != nil {
		b.errs = append(b.errs, settings.At(s.Path+".upstream", err))
		return nil
	}
	b.groups[s.Name] = g
	b.fresh = append(b.fresh, g)
	return g
}

// index numbers the settings of a service's path. A number keeps its meaning over reloads, because events that wait are
// judged by it.
func (a *Server) index(name, prefix string) uint16 {
	key := name + " " + prefix
	if i, ok := a.indexes[key]; ok {
		return i
	}
	i := uint16(len(a.indexes)) //nolint:gosec // far fewer services than that
	a.indexes[key] = i
	return i
}
