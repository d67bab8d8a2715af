package replay

import (
	"fmt"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/proxy"
	"antirobot/request"
	"antirobot/store"
	events "antirobot/stream"
	"antirobot/verdict"
	"antirobot/verdict/counter"
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

// Gateway is one configuration through which traffic runs: the judging parts of a gateway, purely in memory, with the
// time of the traffic. It makes no network requests, and keeps nothing. Make it with NewGateway; it is for one
// goroutine.
type Gateway struct {
	Name string
	Host string // of the first service in the configuration

	anyHost bool // the first service has no hosts: any is its

	core   *proxy.Core
	one    proxy.Case // the current request
	served Served
	clock  *clock
	procs  []*processor.Processor // each judges its share of the partitions
	swept  time.Time

	partitions int

	lists    *cbb.Lists
	cacher   *verdict.Cacher
	resolver *identity.Resolver
	memory   *store.Memory
	counts   *counter.Shingler
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
	return s.Stopped && (s.Decision.Cause == verdict.CauseBudget || s.Decision.Cause == verdict.CauseCampaign)
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
	switch q := &s.Decision.Question; {
	case !s.Asked():
		return s.Decision.Ban.Reason
	case q.Reason != "":
		return q.Reason
	default:
		return fmt.Sprintf("more than %d documents in %s from a network of %d bits", q.Most, q.Window, q.Prefix.Bits)
	}
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
		for _, p := range g.procs {
			p.Sweep(e.At)
		}
	}
	g.judgeOf(e.Subjects[e.N-1].ID).Process(e)
	return true
}

// judgeOf returns who judges the events of an address (the ID of its Subject).
func (g *Gateway) judgeOf(addr [16]byte) *processor.Processor {
	return g.procs[events.Partition(addr, g.partitions)%len(g.procs)]
}

// Bareness implements captcha.Manners.
func (g *Gateway) Bareness(service string, a netip.Addr) float64 {
	return g.judgeOf(identity.AddrSubject(a).ID).Bareness(service, a)
}

// crawler returns the crawler that a User-Agent declares, and what is known about it without asking anybody. Safe for
// concurrent use.
func (g *Gateway) crawler(agent []byte, addr netip.Addr) (name string, is cbb.CrawlerClaim) {
	return g.lists.Crawler(agent, addr)
}
