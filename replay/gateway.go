package replay

import (
	"fmt"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/processor"
)

// Clock is the time of the traffic. A Gateway moves it; its Cacher and whatever else has a time of its own reads it. The
// zero value is the year 1970. Safe for concurrent use.
type Clock struct{ ns atomic.Int64 }

// Now returns the time of the traffic.
func (c *Clock) Now() time.Time { return time.Unix(0, c.ns.Load()).UTC() }

// Advance moves the clock to at, but never back.
func (c *Clock) Advance(at time.Time) {
	if ns := at.UnixNano(); ns > c.ns.Load() {
		c.ns.Store(ns)
	}
}

// RecordedService is the settings that a request is judged by.
type RecordedService struct {
	Identity *identity.CookieSettings
	Verdict  *verdict.Settings
	// IsOwn reports whether a request is not judged: one of the gateway's own pages, or a balancer's health check.
	IsOwn func(v *request.View) bool
	// Stopped says what a request that is not human gets: the status, and whether that is a challenge; ok is false for
	// one that passes all the same.
	Stopped func(v *request.View, is verdict.Verdict) (status int, shown, ok bool)
}

// Front is what stands before the verdict and knows of HTTP: the gateway's own front does.
type Front interface {
	// Route returns the service of a request; nil if there is none.
	Route(v *request.View) *RecordedService
	// IsStatic reports whether a request is for a part of a page.
	IsStatic(v *request.View) bool
	// Crawler returns the crawler that a User-Agent declares, and what is known of that; without asking anybody.
	Crawler(agent []byte, addr netip.Addr) (name string, is CrawlerClaim)
}

// CrawlerClaim is what is known of a client that declares a crawler.
type CrawlerClaim uint8

// The claims.
const (
	ClaimNone     CrawlerClaim = iota
	ClaimUnknown               // nothing at hand could tell; live, the DNS is asked
	ClaimVerified              // the address is in the ranges that the crawler's owner published
	ClaimOutside               // there are such ranges, and the address is in none of them
)

// Gateway is one configuration that traffic runs through. All its parts read Clock. It is for one goroutine.
type Gateway struct {
	Name      string
	Front     Front
	Resolver  *identity.Resolver
	Cacher    *verdict.Cacher
	Processor *processor.Processor // nil: nobody is judged by what they do
	Clock     *Clock

	served Served
	cookie []byte
	swept  time.Time
}

// sweepEvery is how often what is idle is forgotten, in the time of the traffic.
const sweepEvery = time.Hour

// Served is what became of a request. It is valid until the next one.
type Served struct {
	Service  *RecordedService // nil: no service is configured for the host; nothing else is set then
	Identity identity.Identity
	Decision verdict.Decision
	Event    verdict.Event
	Judged   bool // the slow half has learned of it
	Stopped  bool // it would not have reached the service, or in mode observe: would not in mode enforce
	// SetCookie is the browser cookie that the gateway gives, as the value of Set-Cookie; nil if it gives none.
	SetCookie []byte
}

// Asked reports whether the visitor was asked for what its network reads, and not taken for a robot.
func (s *Served) Asked() bool { return s.Stopped && s.Decision.Cause == verdict.CauseBudget }

// Why says in a few words why a visitor was stopped or asked.
func (s *Served) Why() string {
	if q := &s.Decision.Question; s.Asked() {
		return fmt.Sprintf("more than %d documents in %s from a network of %d bits", q.Most, q.Window, q.Prefix.Bits)
	}
	return s.Decision.Ban.Reason
}

// Serve gives a request its verdict, and tells the slow half of it and of the answer that the service gives, or that the
// gateway gives instead of it.
func (g *Gateway) Serve(v *request.View, a *Response) *Served {
	g.Clock.Advance(v.At)
	s := &g.served
	s.Judged, s.Stopped, s.SetCookie = false, false, nil
	if s.Service = g.Front.Route(v); s.Service == nil {
		return s
	}
	svc := s.Service
	g.Resolver.Resolve(&s.Identity, v, svc.Identity)
	if svc.IsOwn(v) {
		s.Decision = verdict.Decision{Cause: verdict.CauseOff, Mode: svc.Verdict.Mode}
		return s
	}
	g.Cacher.Decide(&s.Decision, v, &s.Identity, svc.Verdict)
	status, kind := a.Status, verdict.EventRequest
	if is := s.Decision.Verdict; is != verdict.Human {
		code, shown, ok := svc.Stopped(v, is)
		s.Stopped = ok
		if ok && s.Decision.Stops() {
			status = uint16(code) //nolint:gosec // an HTTP status
			if shown {
				kind = verdict.EventShown
			}
		}
	}
	g.tell(v, a, status, kind)
	if s.Identity.WantI && !(s.Stopped && s.Decision.Stops()) {
		if g.cookie = g.Resolver.MintI(g.cookie[:0], &s.Identity, v, svc.Identity); len(g.cookie) > 0 {
			s.SetCookie = g.cookie
		}
	}
	return s
}

// Show tells of a visit to the captcha page, as who follows the redirect of a challenge makes it.
func (g *Gateway) Show(v *request.View) {
	g.Clock.Advance(v.At)
	s := &g.served
	if s.Service = g.Front.Route(v); s.Service == nil {
		return
	}
	g.Resolver.Resolve(&s.Identity, v, s.Service.Identity)
	watching := *s.Service.Verdict
	watching.Mode = verdict.Observe // the gateway's own pages cost nothing
	g.Cacher.Decide(&s.Decision, v, &s.Identity, &watching)
	g.tell(v, &Response{}, 200, verdict.EventShown)
}

func (g *Gateway) tell(v *request.View, a *Response, status uint16, kind verdict.EventKind) {
	s := &g.served
	if g.Processor == nil || !s.Decision.Judged() {
		return
	}
	e := &s.Event
	s.Decision.Event(e, v, &s.Identity, s.Service.Verdict)
	e.Static = g.Front.IsStatic(v)
	e.Kind = kind
	if a.Advised && status == a.Status {
		e.Advised = true
		e.Answered(0, nil, 0, 0)
	} else if status == a.Status {
		e.Answered(int(status), a.ContentType, int64(min(a.Bytes, math.MaxInt64)), a.Took) //nolint:gosec // bounded
	} else { // the gateway answers, and with little
		e.Answered(int(status), nil, 0, 0)
	}
	s.Judged = true
	if v.At.Sub(g.swept) >= sweepEvery {
		g.swept = v.At
		g.Processor.Sweep(v.At)
	}
	g.Processor.Process(e)
}
