// Package proxy is the gateway: it routes a request to its service, asks who is asking, decides, and then forwards,
// challenges or refuses.
//
// Gateway.ServeExchange reads as the journey of a request. The order matters:
//  1. route: no service, no journey
//  2. identity: whose address, which cookies hold
//  3. the gateway's own pages (captcha, its picture, its check)
//  4. the verdict, from memory alone
//  5. enforcement, by what was asked for, or the way to the service
//  6. the event for the slow half, the log line, the metrics
//
// A Snapshot is immutable and swapped whole; a request keeps the one it began with.
package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/proxy/h1"
	"antirobot/verdict"
)

// Decider answers who asks, from memory. *verdict.Cacher is the one that serves.
type Decider interface {
	Decide(d *verdict.Decision, v *identity.View, id *identity.Identity, s *verdict.Service)
}

// Snapshot is one configuration of the gateway: immutable, built by the caller, swapped as a whole.
type Snapshot struct {
	Router   *Router
	Resolver *identity.Resolver
	Captcha  *captcha.Captcha
}

// Deps is what the Gateway works with over its whole life.
type Deps struct {
	Decider   Decider
	Decisions *verdict.Decisions
	Sink      verdict.Sink
	Log       zerolog.Logger // decisions and errors
	AccessLog zerolog.Logger // a line per request; disabled by level
	Metrics   *Metrics
	StoreUp   func() bool // whether the store answers; consulted for services that chose to fail closed
}

// Gateway serves exchanges. It is safe for concurrent use.
type Gateway struct {
	deps Deps
	snap atomic.Pointer[Snapshot]
	pool sync.Pool
}

// New returns a Gateway that serves s.
func New(s *Snapshot, deps Deps) *Gateway {
	g := &Gateway{deps: deps}
	g.pool.New = func() any { return new(journey) }
	g.snap.Store(s)
	return g
}

// Swap replaces the configuration; requests under way finish with the old one. It returns the old one.
func (g *Gateway) Swap(s *Snapshot) *Snapshot { return g.snap.Swap(s) }

// journey is the state of one request. It is pooled; nothing of it outlives ServeExchange.
type journey struct {
	g    *Gateway
	x    *h1.Exchange
	snap *Snapshot
	svc  *Service
	view *identity.View

	id       identity.Identity
	partner  *captcha.Partner // the XML partner that calls for a user, or nil
	partView identity.View    // the View with the user's address in place of the partner's
	decision verdict.Decision
	want     kind
	answer   captcha.Answer
	event    verdict.Event

	requestID [verdict.RequestIDLen]byte
	fields    []identity.Field
	scratch   []byte
	status    int
	result    h1.Result
	decidedIn time.Duration
	own       bool // the gateway answered itself
	failure   error
}

// ServeExchange is the journey of a request. A panic leaves the journey to the garbage collector: h1 recovers, counts
// and answers it.
func (g *Gateway) ServeExchange(x *h1.Exchange) {
	j := g.pool.Get().(*journey) //nolint:forcetypeassert // the pool holds nothing else
	j.begin(g, x)
	j.serve()
	j.observe()
	j.log()
	j.release()
}

func (j *journey) serve() {
	if !j.route() {
		return
	}
	j.identify()
	if page := j.svc.own.find(j.view.Path); page != nil {
		j.serveOwn(page)
		return
	}
	j.decide()
	if j.stopped() {
		j.enforce()
		return
	}
	j.forward(nil)
}

func (j *journey) begin(g *Gateway, x *h1.Exchange) {
	j.g, j.x, j.snap, j.view = g, x, g.snap.Load(), &x.View
	verdict.NewRequestID(&j.requestID)
}

func (j *journey) release() {
	g := j.g
	clear(j.fields)
	*j = journey{fields: j.fields[:0], scratch: j.scratch[:0]}
	g.pool.Put(j)
}
