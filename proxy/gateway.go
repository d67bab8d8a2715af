// Package proxy is the gateway: it routes a request to its service, asks who is asking, decides, and then forwards,
// challenges or refuses.
//
// Gateway.ServeExchange reads as the journey of a request. The order matters:
//  1. route: no service, no journey
//  2. identity: whose address, which cookies hold
//  3. the gateway's own pages (the captcha, its picture, its check): open to robots, closed to the blocked
//  4. the verdict, from memory alone, and that of the message's rules where people post; it is kept for those who ask
//     why before anybody can ask
//  5. enforcement, by what was asked for, or the way to the service
//  6. the event for the slow half, the log, the metrics
//
// A Snapshot is immutable and swapped whole; a request keeps the one that it began with. A verdict is given when a
// request comes and never taken back: a ban made later cuts no stream and no tunnel.
package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/verdict"
)

// Decider answers who asks, from memory. *verdict.Cacher is the one that serves.
type Decider interface {
	Decide(d *verdict.Decision, v *request.View, id *identity.Identity, s *verdict.Settings)
	DecideDemand(d *verdict.Decision, v *request.View, id *identity.Identity, s *verdict.Settings)
	Issued(p *spravka.Pass)
	Decisions() *verdict.Recent
}

// Snapshot is one configuration of the gateway: immutable, built by the caller, swapped as a whole.
type Snapshot struct {
	Router  *Router
	Captcha *captcha.Captcha
}

// Deps is what a Gateway works with over its whole life. All of it is safe for concurrent use.
type Deps struct {
	Resolver *identity.Resolver
	Decider  Decider
	Sink     verdict.Sink    // nil: nobody learns
	Messages func() Messages // nil, or returns nil: it is not there (yet)
	Crawlers bool            // verified crawlers, which are not judged, become events too: for training data
	Log      zerolog.Logger  // decisions about those who are not human
	Access   *zerolog.Logger // a line for each request; nil: none
	Metrics  *Metrics
	// How many lines are written under a flood. The zero values write every line.
	DecisionLines, AccessLines LineLimits
}

// Gateway serves exchanges. It is safe for concurrent use.
type Gateway struct {
	deps Deps
	snap atomic.Pointer[Snapshot]
	pool sync.Pool

	decisions, accesses *lines
}

// New returns a Gateway that serves s.
func New(s *Snapshot, deps Deps) *Gateway {
	g := &Gateway{
		deps:      deps,
		decisions: newLines(deps.DecisionLines, deps.Metrics.leftOut("decision")),
		accesses:  newLines(deps.AccessLines, deps.Metrics.leftOut("access")),
	}
	g.pool.New = func() any { return new(journey) }
	g.snap.Store(s)
	return g
}

// Swap replaces the configuration; requests under way finish with the old one.
func (g *Gateway) Swap(s *Snapshot) { g.snap.Store(s) }

// journey is the state of one request. It is pooled; nothing of it outlives ServeExchange.
type journey struct {
	g    *Gateway
	x    *h1.Exchange
	snap *Snapshot
	svc  *Service
	view *request.View

	id       identity.Identity
	xml      bool             // the path speaks the XML interface
	asked    kind             // what is asked for, once classified
	sorted   bool             // asked is known
	partner  *captcha.Partner // the XML partner that calls for a user, or nil
	decision verdict.Decision
	event    verdict.Event
	ask      captcha.Request

	requestID request.ID
	idText    [26]byte
	status    int
	result    h1.Result
	outcome   captcha.Outcome
	advised   bool                // a balancer sends the request on itself
	work      bool                // the captcha was answered by work of the browser
	ownPage   bool                // one of the gateway's own pages was asked for
	failure   error               // why there was no proper answer
	message   captcha.Message     // the fingerprint of the message that was judged
	taken     captcha.HeaderField // takes away the grant that was spent

	sent    []request.Field // to the service
	fields  []request.Field // in the answer
	paths   request.Paths   // how the path can be read
	under   readings        // of all these readings
	scratch []byte
	cookie  []byte
}

// ServeExchange is the journey of a request. A panic leaves the journey to the garbage collector: h1 recovers, counts
// and answers it.
func (g *Gateway) ServeExchange(x *h1.Exchange) {
	j := g.pool.Get().(*journey)
	j.begin(g, x)
	j.serve()
	j.report()
	j.end()
}

func (j *journey) serve() {
	if !j.route() {
		return
	}
	j.identify()
	if e := j.svc.Captcha.Route(j.view.Path); e != captcha.EndpointNone {
		j.serveOwn(e)
		return
	}
	j.decide()
	if len(j.svc.routes) > 0 {
		j.judgeMessage()
	}
	j.remember()
	if j.stopped() {
		j.enforce()
		return
	}
	j.forward(nil)
}

func (j *journey) begin(g *Gateway, x *h1.Exchange) {
	j.g, j.x, j.snap, j.view = g, x, g.snap.Load(), &x.View
	j.id.Addr = j.view.Peer // until it is known who asks
	j.requestID = request.NewID(j.view.At)
	j.requestID.AppendTo(j.idText[:0])
}

// end empties j and returns it to the pool. What is large is left as it is: each request writes it anew.
func (j *journey) end() {
	g := j.g
	clear(j.fields)
	clear(j.sent)
	j.g, j.x, j.snap, j.svc, j.view, j.partner = nil, nil, nil, nil, nil, nil
	j.ask = captcha.Request{}
	j.status, j.result, j.outcome, j.ownPage, j.failure = 0, h1.Result{}, captcha.OutcomeNone, false, nil
	j.advised, j.work = false, false
	j.taken = captcha.HeaderField{}
	j.xml, j.sorted = false, false
	j.under.forget()
	j.paths.Forget()
	g.pool.Put(j)
}

// route finds the service. Without one the visitor is told so, and the journey ends.
func (j *journey) route() bool {
	status, problem := j.findService()
	if status == 0 {
		return true
	}
	j.answer(captcha.Response{
		Status: status, Body: []byte(problem),
		Header: []captcha.HeaderField{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}},
	})
	return false
}

// findService finds the service, or says why there is none: the host is unknown, or nobody knows what the path means.
func (j *journey) findService() (status int, problem string) {
	j.paths.Read(j.view.Path)
	j.svc = j.under.find(j.snap.Router, j.view.Host, &j.paths)
	if j.svc == nil {
		return 421, "No service is configured for this host.\n"
	}
	if problem = j.unclear(); problem != "" {
		j.svc = nil
		return 400, problem
	}
	return 0, ""
}

// identify finds out who asks. An XML partner asks for its user, whom it names.
func (j *journey) identify() {
	j.g.deps.Resolver.Resolve(&j.id, j.view, j.svc.Identity)
	j.xml = j.svc.isXML(&j.paths)
	if j.xml {
		j.identifyPartner()
	}
}

func (j *journey) identifyPartner() {
	p := j.svc.Captcha.FindPartner(j.view, j.id.Addr)
	if p == nil {
		return
	}
	user, ok := identity.PartnerUser(j.view)
	if !ok {
		return // it asks for itself
	}
	j.partner = p
	j.ask.Partner = p
	j.g.deps.Resolver.ResolvePartner(&j.id, j.view, j.svc.Identity, spravka.PartnerOf(p.Name), user)
}

// decide asks the fast half.
func (j *journey) decide() {
	if j.svc.isHealthCheck(j.view) {
		j.decision = verdict.Decision{Cause: verdict.CauseOff, Mode: j.svc.Verdict.Mode}
		return
	}
	timed := j.requestID[15]%timedShare == 0
	var began time.Time
	if timed {
		began = time.Now()
	}
	j.judge(false)
	if timed {
		j.g.deps.Metrics.decided.observe(time.Since(began))
	}
}

// timedShare is one in how many decisions is timed: two looks at the clock are a tenth of a decision.
const timedShare = 8

// kind says what is asked for. Only requests that do not simply go on need to know.
func (j *journey) kind() kind {
	if !j.sorted {
		j.asked, j.sorted = classify(j.view, &j.paths, j.svc, j.xml), true
	}
	return j.asked
}

// stopped reports whether the request ends here. A preflight is never challenged, but it can be blocked.
func (j *journey) stopped() bool {
	return j.decision.Stops() && (j.kind() != kindPreflight || j.decision.Verdict == verdict.Blocked)
}
