// Package proxy is the gateway: it routes a request to its service, identifies the client, decides, and then forwards,
// challenges or refuses.
//
// Gateway.ServeExchange reads as the journey of a request, over a Case, which is the part that check mode and replay
// share. The order matters:
//  1. route: without a service there is no journey
//  2. identity: whose address, which cookies are valid
//  3. the gateway's own pages (the captcha, its picture, its check): open to robots, closed to blocked clients
//  4. the verdict, from memory alone, and that of the message rules on routes where people post; it is stored before
//     anybody can ask why
//  5. enforcement, depending on the kind of request, or forwarding to the service
//  6. the event for the slow half, the log, the metrics
//
// A Snapshot is immutable and swapped as a whole; a request keeps the one that it started with. A verdict is given when
// a request arrives: a later ban cuts no stream and no tunnel. A block does, within seconds: see journey.isUnblocked.
package proxy

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/proxy/h1"
	"antirobot/proxy/traces"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/verdict"
)

// Decider decides from memory. *verdict.Cacher is the implementation in use.
type Decider interface {
	Decide(d *verdict.Decision, v *request.View, id *identity.Identity, s *verdict.Settings)
	Blocks(v *request.View, id *identity.Identity, s *verdict.Settings) (by string)
	DecideDemand(d *verdict.Decision, v *request.View, id *identity.Identity, s *verdict.Settings)
	Delivered(d *verdict.Decision, e *verdict.Event)
	Issued(p *spravka.Pass, v *request.View, id *identity.Identity)
	Decisions() *verdict.Recent
	Answered(v *request.View, s *verdict.Settings, status int, contentType []byte)
	Preflight(v *request.View, id *identity.Identity, count bool) bool
	Took(v *request.View, s *verdict.Settings, took time.Duration, waiting int64)
	Required(rid request.ID, d *verdict.Decision, step string)
	Counted(rid request.ID, d *verdict.Decision, e *verdict.Event, s *verdict.Settings)
	NoDocument(v *request.View, s *verdict.Settings) bool
	IsNear(id *identity.Identity, s *verdict.Settings, at time.Time) bool
}

// Snapshot is one configuration of the gateway: immutable, built by the caller, swapped as a whole.
type Snapshot struct {
	Router  *Router
	Captcha *captcha.Captcha
	// Unserved says what the answers look like to requests that reach no service; nil: they are plain text.
	Unserved *captcha.Settings
}

// Deps is what a Core, and a Gateway, works with during its whole life. All of it is safe for concurrent use. Resolver,
// Decider and Metrics are required.
type Deps struct {
	Resolver     *identity.Resolver
	Decider      Decider
	Sink         verdict.Sink               // nil: events are discarded
	Turns        *Turns                     // nil: nobody waits until what came before is judged
	Spared       func(addr netip.Addr) bool // addresses that never wait for it; nil: there are none
	Messages     Messages                   // nil: there is no message firewall
	Queue        Queue                      // nil: no message can wait for a person
	Seconds      Seconds                    // nil: nobody is asked for a second opinion
	Journal      verdict.Journal            // nil: none is kept
	Traces       *traces.Tracer             // nil: nothing is traced
	Crawlers     bool                       // verified crawlers, which are not judged, become events too: for training data
	Log          zerolog.Logger             // decisions about those who are not human
	Access       *zerolog.Logger            // a line for each request; nil: none
	Metrics      *metrics.Set
	AccessFields bool            // a request's line quotes its User-Agent and Referer
	Hash         request.HashKey // by which queries are hashed in the lines; the zero one is known to everybody
	// DecisionLines and AccessLines limit the lines written during a flood. The zero values write every line.
	DecisionLines, AccessLines LineLimits
}

// Gateway serves exchanges. It is safe for concurrent use.
type Gateway struct {
	*Core
	pool sync.Pool
}

// New returns a Gateway that serves s.
func New(s *Snapshot, d Deps) (*Gateway, error) {
	core, err := NewCore(s, d)
	if err != nil {
		return nil, err
	}
	g := &Gateway{Core: core}
	g.pool.New = func() any { return newJourney() }
	return g, nil
}

// journey is the state of one exchange: the case of its request, and the answer.
type journey struct {
	Case
	x *h1.Exchange

	requestID request.ID
	status    int
	result    h1.Result
	outcome   captcha.Outcome
	evidence  request.Evidence
	work      bool            // the captcha was answered by work of the browser
	ownPage   bool            // the answer is one of the gateway's own pages, and no event
	failure   error           // why there was no proper answer
	traced    traced          // for its spans
	part      bool            // stopped, unless the answer is a subresource of the last page
	stopped   verdict.Verdict // with part: the verdict that stops anything else
	embed     bool            // a page of another site requests it, without navigating
	declined  bool            // refused as a prefetch or an embed: it counts for no visitor
	under     *atomic.Int32   // counts the pages under way; nil: this is none of them
	early     bool            // the event was offered when the answer began
	fields    []request.Field // in the answer

	moderation moderation
	relay      relay
	reporter   reporter
}

func newJourney() *journey {
	j := &journey{}
	j.join()
	return j
}

// join makes the parts of j one.
func (j *journey) join() {
	j.moderation.journey, j.relay.journey, j.reporter.journey = j, j, j
	r := &j.relay
	r.hold, r.head, r.onlyPart, r.noPage, r.unblocked = r.withholds, j.begun, j.onlyParts, j.holdsPage, r.isUnblocked
}

// ServeExchange is the journey of a request. A panic leaves the journey to the garbage collector, and gives back what others would wait
// for: h1 recovers, counts and answers it.
func (g *Gateway) ServeExchange(x *h1.Exchange) {
	j, ended := g.pool.Get().(*journey), false
	defer func() {
		if !ended {
			j.release()
		}
	}()
	j.begin(g.Core, x)
	j.serve()
	j.report()
	j.end()
	ended = true
	g.pool.Put(j)
}

// release gives back what a journey holds that others would wait for.
func (j *journey) release() {
	j.arrived()
	j.endTurn()
}

func (j *journey) serve() {
	if status, problem := j.Route(); status != 0 {
		j.unrouted(status, problem)
		return
	}
	j.beginTrace()
	j.Identify()
	if e := j.Own(); e != captcha.EndpointNone {
		j.serveOwn(e)
		return
	}
	if j.comesBack() {
		return
	}
	if j.refusesEmbed() || j.decideAll() {
		return
	}
	j.await()
	if len(j.svc.routes) > 0 {
		j.moderation.judgeMessage()
	}
	if j.Stopped() && j.mayBePart() {
		j.forwardPart()
		return
	}
	j.reporter.remember()
	if j.Stopped() {
		j.enforce()
		return
	}
	j.goOn()
	j.forward(nil)
}

func (j *journey) begin(c *Core, x *h1.Exchange) {
	j.x = x
	j.Open(c, &x.View)
	j.requestID = request.NewID(j.view.At)
	j.requestID.AppendTo(j.idText[:0])
}

// end clears j for the next exchange.
func (j *journey) end() {
	j.Close()
	clear(j.fields)
	j.x, j.status, j.result, j.outcome, j.ownPage, j.failure = nil, 0, h1.Result{}, captcha.OutcomeNone, false, nil
	j.under, j.early, j.part, j.embed, j.declined = nil, false, false, false, false
	j.evidence, j.traced, j.work = request.Evidence{}, traced{}, false
	j.moderation.taken, j.moderation.written = captcha.HeaderField{}, ""
	j.relay.end()
}

// decide is Case.Decide, sometimes timed.
func (j *journey) decide() {
	if len(j.svc.bodies) > 0 {
		j.moderation.readPosted()
	}
	if j.traced.Sampled() {
		j.decideTraced()
		return
	}
	if j.requestID[15]%timedShare != 0 {
		j.Decide()
		return
	}
	began := time.Now()
	j.Decide()
	j.core.metrics.decided.observe(time.Since(began))
}

// timedShare says that one decision in so many is timed: reading the clock twice costs a tenth of a decision.
const timedShare = 8
