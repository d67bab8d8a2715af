package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/config"
	"antirobot/gateway"
	"antirobot/identity"
	"antirobot/identity/geo"
	"antirobot/proxy"
	"antirobot/rules/requestrules"
	"antirobot/rules/sources"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/counter"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// Deps is what a Gateway works with.
type Deps struct {
	Name     string             // of the configuration, for display
	Observer processor.Observer // is told about each evaluation; nil: nobody
	// Processors is among how many processes the judgement is divided, by network, as behind a stream of events; 0 or 1: it is not.
	Processors int
	Log        zerolog.Logger
}

// NewGateway makes a gateway for recorded or generated traffic. Close it after use.
func NewGateway(cfg *config.Config, d Deps) (_ *Gateway, err error) {
	cfg = bare(cfg)
	clock, set := new(clock), metrics.NewSet()
	g := &Gateway{Name: d.Name, Host: cfg.FirstHost(), anyHost: cfg.AnyHost(), clock: clock, memory: store.NewMemory(clock.now)}
	defer func() {
		if err != nil {
			_ = g.Close()
		}
	}()
	if g.lists, err = openLists(cfg, g.memory, clock, d.Log); err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	if err := g.judge(cfg, d, set); err != nil {
		return nil, err
	}
	keys, err := makeKeys()
	if err != nil {
		return nil, err
	}
	if g.resolver, err = identity.New(cfg.Identity, identity.Deps{Keys: keys, Revocations: g.cacher, Visitors: g.cacher, Now: clock.now, Log: d.Log}); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	snap, judged, err := g.snapshot(cfg, keys, d.Log, set)
	if err != nil {
		return nil, err
	}
	for _, p := range g.procs {
		know, err := p.Prepare(judged)
		if err != nil {
			return nil, err
		}
		know()
	}
	deps := proxy.Deps{Resolver: g.resolver, Decider: g.cacher, Log: d.Log, Metrics: set}
	if cfg.Processor.Enabled {
		deps.Sink = g
	}
	g.core, err = proxy.NewCore(snap, deps)
	return g, err
}

// judge makes the two halves of the verdict, and the counters.
func (g *Gateway) judge(cfg *config.Config, d Deps, set *metrics.Set) (err error) {
	kept := cfg.Verdict
	kept.Decisions = verdict.RecentConfig{Stopped: 1} // nobody asks about single decisions
	g.cacher, err = verdict.New(kept, verdict.Deps{Store: g.memory, Lists: g.lists, Now: g.clock.now, Log: d.Log, Metrics: set})
	if err != nil {
		return err
	}
	if err := g.cacher.Start(context.Background()); err != nil {
		return err
	}
	models, err := config.LoadModels(cfg.Formula)
	if err != nil {
		return err
	}
	live, err := formula.NewLive(models, formula.Deps{Metrics: set})
	if err != nil {
		return err
	}
	g.partitions = cfg.Stream.Partitions
	for i := range min(max(d.Processors, 1), g.partitions) {
		if i > 0 {
			set = metrics.NewSet()
		}
		p, err := processor.New(cfg.Processor, processor.Deps{Keeper: g.cacher, Formula: live, Observer: d.Observer, Log: d.Log, Metrics: set})
		if err != nil {
			return err
		}
		g.procs = append(g.procs, p)
	}
	g.counts, err = counter.New(cfg.Counters, counter.Deps{Store: store.NewMemoryCounters(), Now: g.clock.now, Log: d.Log})
	if err != nil {
		return fmt.Errorf("counters: %w", err)
	}
	return g.counts.Start(context.Background())
}

// snapshot makes the services as the gateway does, but without upstreams, and the captcha.
func (g *Gateway) snapshot(cfg *config.Config, keys *spravka.Keys, log zerolog.Logger, set *metrics.Set) (*proxy.Snapshot, []*verdict.Settings, error) {
	pages, err := gateway.LoadPages(cfg)
	if err != nil {
		return nil, nil, err
	}
	places, err := geo.New(cfg.Geo, geo.Deps{Log: log})
	if err != nil {
		return nil, nil, err
	}
	engine, err := requestrules.New(cfg.RequestRules, requestrules.Deps{
		Store: g.memory, Counters: sources.NewCounters(g.counts, g.clock.now), Lists: g.lists, Places: places, Now: g.clock.now, Log: log, Metrics: set,
	})
	if err != nil {
		return nil, nil, err
	}
	s, err := gateway.NewServices(cfg, gateway.ServiceDeps{Pages: pages, Rules: engine, Scorer: g.procs[0], Indexes: &gateway.Indexes{}})
	if err != nil {
		return nil, nil, err
	}
	c, err := captcha.New(cfg.Captcha, captcha.Deps{Keys: keys, Store: g.memory, Visitors: g.cacher, Manners: g, Now: g.clock.now, Log: log, Metrics: set})
	if err != nil {
		return nil, nil, fmt.Errorf("captcha: %w", err)
	}
	return &proxy.Snapshot{Router: s.Router, Captcha: c}, s.Judged, nil
}

// Close stops what runs in the background.
func (g *Gateway) Close() error {
	var errs []error
	for _, p := range g.procs {
		errs = append(errs, p.Close())
	}
	if g.cacher != nil {
		errs = append(errs, g.cacher.Close())
	}
	if g.counts != nil {
		errs = append(errs, g.counts.Close())
	}
	return errors.Join(append(errs, g.memory.Close())...)
}

// leastCache is what caches for many visitors at once get here: a log has no cookies to open, and counters are in memory anyway.
const leastCache = 4 << 20

// bare is a configuration without what only a live gateway needs: brands, the keys of cookies that no log contains, and large caches.
func bare(cfg *config.Config) *config.Config {
	strip := func(s *config.Service) {
		s.Captcha.Branding = captcha.DefaultServiceConfig().Branding
		s.Cookies.Login = identity.DefaultServiceConfig().Login
		s.Cookies.ServiceCookie = identity.DefaultServiceConfig().ServiceCookie
	}
	c := *cfg
	c.Identity.TokenCacheBytes = min(c.Identity.TokenCacheBytes, leastCache)
	c.Counters.CacheBytes = min(c.Counters.CacheBytes, leastCache)
	c.Resolved = slices.Clone(cfg.Resolved)
	for i := range c.Resolved {
		s := &c.Resolved[i]
		strip(s)
		s.Resolved = slices.Clone(s.Resolved)
		for k := range s.Resolved {
			strip(&s.Resolved[k].Service)
		}
	}
	return &c
}

func makeKeys() (*spravka.Keys, error) {
	ring, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(time.Now())})
	if err != nil {
		return nil, err
	}
	return spravka.NewKeys(ring), nil
}

// openLists reads the lists of a configuration: own entries, files, and the copies of lists from URLs that a gateway
// with the same data directory has kept.
func openLists(cfg *config.Config, memory *store.Memory, clock *clock, log zerolog.Logger) (*cbb.Lists, error) {
	lists := cfg.Lists
	lists.Crawlers.DNS.Grace = 0 // DNS is not asked, so nobody gets the benefit of the doubt meanwhile
	dir := filepath.Join(cfg.DataDir, "lists")
	if _, err := os.Stat(dir); err != nil {
		dir = ""
	}
	return cbb.New(lists, cbb.Deps{KV: memory, Feed: memory, Dir: dir, ReadOnly: true, Now: clock.now, Log: log})
}
