package replay

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/config"
	"antirobot/gateway"
	"antirobot/identity"
	"antirobot/proxy"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/processor"
	"antirobot/verdict/words"
)

// clock is the time of the traffic. A Gateway moves it, and all its parts read it. The zero value is the year 1970.
// Safe for concurrent use.
type clock struct{ ns atomic.Int64 }

// now returns the time of the traffic.
func (c *clock) now() time.Time { return time.Unix(0, c.ns.Load()).UTC() }

// advance moves the clock forward to at, but never back.
func (c *clock) advance(at time.Time) {
	if ns := at.UnixNano(); ns > c.ns.Load() {
		c.ns.Store(ns)
	}
}

// Gateway is one configuration through which traffic runs: a gateway.Judge in memory, at the time of the traffic. It makes
// no network requests, and keeps nothing. Make it with NewGateway; it is for one goroutine.
type Gateway struct {
	Name string
	Host string // of the first service in the configuration

	anyHost bool // the first service has no hosts, and so has any
	judge   *gateway.Judge
	memory  *store.Memory
	clock   *clock
	core    *proxy.Core
	one     proxy.Case // the current request
	served  Served
	swept   time.Time
}

// Deps is what a Gateway works with.
type Deps struct {
	Name       string             // of the configuration, for display
	Observer   processor.Observer // is told about each evaluation; nil: none
	Processors int                // how many processes judge, each a share of the networks; 0 is 1
	Log        zerolog.Logger
}

// NewGateway makes a gateway for recorded or generated traffic. Close it after use.
func NewGateway(cfg *config.Config, d Deps) (*Gateway, error) {
	cfg = bare(cfg)
	ring, err := spravka.NewRing([]spravka.Key{spravka.MakeKey(time.Now())})
	if err != nil {
		return nil, err
	}
	clock, set := new(clock), metrics.NewSet()
	g := &Gateway{
		Name: d.Name, Host: cfg.FirstHost(), anyHost: cfg.AnyHost(), clock: clock, memory: store.NewMemory(clock.now),
	}
	g.judge, err = gateway.NewJudge(cfg, gateway.JudgeDeps{
		Store: g.memory, Counters: store.NewMemoryCounters(), Keys: spravka.NewKeys(ring), Metrics: set,
		Log: func(string) zerolog.Logger { return d.Log },
		Now: clock.now, Observer: d.Observer, Processors: d.Processors,
	})
	if err != nil {
		return nil, errors.Join(err, g.memory.Close())
	}
	deps := proxy.Deps{Resolver: g.judge.Resolver, Decider: g.judge.Cacher, Log: d.Log, Metrics: set}
	if cfg.Processor.Enabled {
		deps.Sink = g
	}
	if g.core, err = proxy.NewCore(g.judge.Snapshot(), deps); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close stops what runs in the background.
func (g *Gateway) Close() error { return errors.Join(g.judge.Close(), g.memory.Close()) }

// leastCache is the size of caches for concurrent visitors: a log has no cookies to open, and counters are in memory.
const leastCache = 4 << 20

// bare returns cfg without the parts that only a live gateway needs: brands, the keys of cookies, large caches, and the
// memory of single decisions.
func bare(cfg *config.Config) *config.Config {
	strip := func(s *config.Service) {
		s.Captcha.Branding = captcha.DefaultServiceConfig().Branding
		s.Cookies.Login = identity.DefaultServiceConfig().Login
		s.Cookies.ServiceCookie = identity.DefaultServiceConfig().ServiceCookie
	}
	c := *cfg
	c.Counters.CacheBytes = min(c.Counters.CacheBytes, leastCache)
	c.Verdict.Stopped, c.Verdict.Human = 1, 0
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

// Served is the outcome of a request. It is valid until the next one.
type Served struct {
	Service  *proxy.Service // nil: no service is configured for the host; then nothing else is set
	Identity *identity.Identity
	Decision *verdict.Decision
	Static   bool // it claims to request a part of a page
	Judged   bool // the slow half has learned about it
	Stopped  bool // it would not have reached the service (in mode observe: would not in mode enforce)
	// SetCookie is the browser cookie that the gateway sets, as the value of Set-Cookie; nil if it sets none. Whoever is
	// stopped and keeps it is led back at once.
	SetCookie []byte
	// Sent is what a stopped client is answered that follows redirects.
	Sent OwnAnswer
}

// Asked reports whether the visitor was asked because of what its network reads or how it arrives, and not taken for a robot.
func (s *Served) Asked() bool {
	return s.Stopped && (s.Decision.Cause == verdict.CauseQuota || s.Decision.Cause == verdict.CauseCampaign)
}

// Checks reports whether a silent check is all that the visitor is asked for, unless the ladder leads higher.
func (s *Served) Checks() bool {
	return s.Stopped && s.Decision.Checks()
}

// Why says briefly why a visitor was stopped or asked.
func (s *Served) Why() string {
	if x := &s.Decision.Campaign; s.Decision.Cause == verdict.CauseCampaign {
		return words.Sprintf(words.English, "arrives like %d {robot|robots} and %d {person|people}", x.Robots, x.People)
	}
	if !s.Asked() {
		return s.Decision.Ban.Reason
	}
	x := &s.Decision.Excess
	return fmt.Sprintf("quota of %s: more than %d pages in %s", x.Scope, x.Most, x.Window)
}

// Serve gives a request its verdict, and tells the slow half about it and about the answer, given by the service or by
// the gateway in its place.
func (g *Gateway) Serve(v *request.View, a *Response) *Served {
	return g.serve(v, a, identity.Subject{}, v.Kind(), true)
}

// record is Serve for a recorded request, of a visitor whom the record identifies, of kind KindNone: it does not; asks is what is asked for. Nobody has
// seen a challenge then, and so nobody has ignored one.
func (g *Gateway) record(v *request.View, a *Response, who identity.Subject, asks request.Kind) *Served {
	return g.serve(v, a, who, asks, false)
}

func (g *Gateway) serve(v *request.View, a *Response, who identity.Subject, asks request.Kind, seen bool) *Served {
	s := &g.served
	if !g.begin(v, asks) {
		return s
	}
	if who.Kind != identity.KindNone {
		g.one.Assume(who)
	}
	if g.one.Own() != captcha.EndpointNone { // no log says what a visitor did there
		g.one.Visit()
		return s
	}
	g.one.Decide()
	s.Stopped = g.one.WouldStop()
	if g.one.Stopped() {
		r := g.one.Refusal(!a.Follows)
		if s.SetCookie = g.one.Named(); a.Follows {
			s.Sent = ownAnswer(&r)
		}
		f := proxy.Facts{Status: r.Status}
		if seen {
			f.Kind = proxy.KindOf(r.Outcome)
		}
		s.Judged = g.one.Tell(&f)
		return s
	}
	f := proxy.Facts{Status: int(a.Status), ContentType: a.ContentType, Bytes: int64(min(a.Bytes, math.MaxInt64)), Took: a.Took} //nolint:gosec // bounded
	if a.Advised {
		f = proxy.Facts{Advised: true}
	}
	s.Judged = g.one.Tell(&f)
	s.SetCookie = g.one.Cookie()
	return s
}

// Show records a visit to the captcha page, as made by a client that follows the redirect of a challenge.
func (g *Gateway) Show(v *request.View) {
	if !g.begin(v, v.Kind()) {
		return
	}
	g.one.Visit()
	g.served.Judged = g.one.Tell(&proxy.Facts{Status: 200, Kind: verdict.EventShown})
}

// begin finds a request's service and client, and reports whether there is such a service.
func (g *Gateway) begin(v *request.View, asks request.Kind) bool {
	g.clock.advance(v.At)
	g.one.Close()
	g.one.Open(g.core, v)
	g.one.Asks(asks)
	g.served = Served{Identity: g.one.Identity(), Decision: g.one.Decision()}
	if status, _ := g.one.Route(); status != 0 {
		return false
	}
	g.served.Service, g.served.Static = g.one.Service(), g.one.IsStatic()
	g.one.Identify()
	return true
}

// sweepEvery is how often idle entries are forgotten, in the time of the traffic.
const sweepEvery = time.Hour

// Offer implements verdict.Sink: the slow half learns at once, in the same goroutine, so that every run gives the same
// result.
func (g *Gateway) Offer(e *verdict.Event) bool {
	if e.At.Sub(g.swept) >= sweepEvery {
		g.swept = e.At
		for _, p := range g.judge.Processors {
			p.Sweep(e.At)
		}
	}
	g.judge.Processor(e.Subjects[e.N-1].ID).Process(e)
	return true
}

// crawler returns the crawler that a User-Agent declares, and what is known about it without asking anybody. Safe for
// concurrent use.
func (g *Gateway) crawler(agent []byte, addr netip.Addr) (name string, is cbb.CrawlerClaim) {
	return g.judge.Lists.Crawler(agent, addr)
}
