package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/config"
	"antirobot/identity"
	"antirobot/proxy"
	"antirobot/replay"
	"antirobot/request"
	"antirobot/rules/requestrules"
	"antirobot/rules/sources"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/counter"
	"antirobot/verdict/processor"
)

// Rehearsal is the judging parts of a gateway on memory alone, with the time of the traffic that runs through them:
// nothing is asked of a network, and nothing is kept.
type Rehearsal struct {
	Gateway *replay.Gateway
	Host    string // that the first service of the configuration has
	lists   *cbb.Lists
	cacher  *verdict.Cacher
	memory  *store.Memory
	counts  *counter.Shingler
}

// NewRehearsal builds a gateway named name for traffic that is recorded or made up. observer, if there is one, is told of
// each evaluation.
func NewRehearsal(name string, cfg *config.Config, observer processor.Observer, log zerolog.Logger) (_ *Rehearsal, err error) {
	clock := new(replay.Clock)
	r := &Rehearsal{memory: store.NewMemory(clock.Now), Host: cfg.FirstHost()}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	if r.lists, err = openRecordedLists(cfg, r.memory, clock, log); err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	set := metrics.NewSet()
	kept := cfg.Verdict
	kept.Decisions = verdict.RecentConfig{Stopped: 1} // nobody asks why one by one
	if r.cacher, err = verdict.New(kept, verdict.Deps{
		Store: r.memory, Lists: r.lists, Now: clock.Now, Log: log, Metrics: set,
	}); err != nil {
		return nil, err
	}
	g := &replay.Gateway{Name: name, Cacher: r.cacher, Clock: clock}
	live, err := openFormula(cfg.Formula, set)
	if err != nil {
		return nil, err
	}
	proc, err := processor.New(cfg.Processor, processor.Deps{Keeper: r.cacher, Formula: live, Observer: observer, Log: log, Metrics: set})
	if err != nil {
		return nil, err
	}
	if err := r.cacher.Start(context.Background()); err != nil {
		return nil, err
	}
	if cfg.Processor.Enabled {
		g.Processor = proc
	}
	ring, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(time.Now())})
	if err != nil {
		return nil, err
	}
	g.Resolver, err = identity.New(cfg.Identity, identity.Deps{Keys: spravka.NewKeys(ring), Revocations: r.cacher})
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	if r.counts, err = counter.New(cfg.Counters, counter.Deps{Store: store.NewMemoryCounters(), Log: log, Now: clock.Now}); err != nil {
		return nil, fmt.Errorf("counters: %w", err)
	}
	if err := r.counts.Start(context.Background()); err != nil {
		return nil, err
	}
	engine, err := requestrules.New(requestrules.DefaultConfig(), requestrules.Deps{
		Store: r.memory, Counters: sources.NewCounters(r.counts, clock.Now), Lists: r.lists, Now: clock.Now, Log: log, Metrics: set,
	})
	if err != nil {
		return nil, err
	}
	front, services, err := newRecordedFront(cfg, r.lists, proc, engine, proxy.NewMetrics(set))
	if err != nil {
		return nil, err
	}
	use, err := proc.Prepare(services)
	if err != nil {
		return nil, err
	}
	use()
	g.Front = front
	r.Gateway = g
	return r, nil
}

// Close ends what runs in the background.
func (r *Rehearsal) Close() error {
	var errs []error
	if r.cacher != nil {
		errs = append(errs, r.cacher.Close())
	}
	if r.counts != nil {
		errs = append(errs, r.counts.Close())
	}
	return errors.Join(append(errs, r.memory.Close())...)
}

// openRecordedLists reads the lists of a configuration: own entries, files, and the copies that a gateway with the same
// data directory has kept of lists from URLs.
func openRecordedLists(cfg *config.Config, memory *store.Memory, clock *replay.Clock, log zerolog.Logger) (*cbb.Lists, error) {
	lists := cfg.Lists
	lists.Crawlers.DNS.Grace = 0 // the DNS is not asked, so nobody has the benefit of the doubt while it is
	dir := filepath.Join(cfg.DataDir, "lists")
	if _, err := os.Stat(dir); err != nil {
		dir = ""
	}
	return cbb.New(lists, cbb.Deps{KV: memory, Feed: memory, Dir: dir, ReadOnly: true, Now: clock.Now, Log: log})
}

// recordedFront is the gateway's own front for requests that nobody waits for. It is for one goroutine.
type recordedFront struct {
	router   *proxy.Router
	services map[*proxy.Service]*replay.RecordedService
	lists    *cbb.Lists
	paths    request.Paths
	found    []*proxy.Service
}

func newRecordedFront(cfg *config.Config, lists *cbb.Lists, proc *processor.Processor, engine *requestrules.Engine, m *proxy.Metrics) (*recordedFront, []*verdict.Settings, error) {
	pages, err := loadPages(cfg)
	if err != nil {
		return nil, nil, err
	}
	names, err := cfg.RuleNames()
	if err != nil {
		return nil, nil, err
	}
	a := &Server{indexes: map[string]uint16{}, proc: proc, requestRules: engine}
	b := recordedBuilder{builder: builder{app: a, pages: pages, names: names}, services: map[*proxy.Service]*replay.RecordedService{}}
	var services []*proxy.Service
	for i := range cfg.Resolved {
		whole := &cfg.Resolved[i]
		s := b.recorded(whole, whole, "")
		for k := range whole.Resolved {
			path := &whole.Resolved[k]
			s.Paths = append(s.Paths, proxy.PathRule{Prefix: path.Prefix, Service: b.recorded(whole, &path.Service, path.Prefix)})
		}
		services = append(services, s)
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, nil, err
	}
	router, err := proxy.NewRouter(services, m)
	if err != nil {
		return nil, nil, err
	}
	return &recordedFront{router: router, services: b.services, lists: lists}, b.verdicts, nil
}

// recordedBuilder builds services without what only a living gateway needs: upstreams, brands, and the keys of cookies
// that no log holds.
type recordedBuilder struct {
	builder
	services map[*proxy.Service]*replay.RecordedService
}

func (b *recordedBuilder) recorded(whole, s *config.Service, prefix string) *proxy.Service {
	bare := *s
	bare.Captcha.Branding = captcha.DefaultServiceConfig().Branding
	bare.Cookies.Login = identity.DefaultServiceConfig().Login
	bare.Cookies.ServiceCookie = identity.DefaultServiceConfig().ServiceCookie
	p := b.settings(whole, &bare, prefix, nil)
	if p.Identity != nil {
		b.services[p] = &replay.RecordedService{Identity: p.Identity, Verdict: p.Verdict, IsOwn: p.IsOwn, Stopped: p.Stopped}
	}
	return p
}

// Route implements replay.Front.
func (f *recordedFront) Route(v *request.View) *replay.RecordedService {
	f.paths.Read(v.Path)
	f.found = f.router.Find(f.found[:0], v.Host, &f.paths)
	return f.services[proxy.Strictest(f.found)]
}

// IsStatic implements replay.Front.
func (f *recordedFront) IsStatic(v *request.View) bool { return proxy.IsStatic(v) }

// Crawler implements replay.Front.
func (f *recordedFront) Crawler(agent []byte, addr netip.Addr) (string, replay.CrawlerClaim) {
	name, is := f.lists.Crawler(agent, addr)
	switch is {
	case cbb.ClaimUnknown:
		return name, replay.ClaimUnknown
	case cbb.ClaimVerified:
		return name, replay.ClaimVerified
	case cbb.ClaimOutside:
		return name, replay.ClaimOutside
	default:
		return "", replay.ClaimNone
	}
}
