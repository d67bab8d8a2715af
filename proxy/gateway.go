// Package proxy routes a request to its service, identifies the client, decides, and then forwards, challenges or
// refuses.
//
// Gateway.ServeExchange is the journey of a request, over a Case, which check mode and replay share. The order matters:
// 1. route: without a service there is no journey
// 2. identity: the address, and valid cookies
// 3. the gateway's own pages: open to robots, closed to blocked clients
// 4. the verdict, from memory, and that of the message rules; it is stored before the answer
// 5. the answer to a stopped request, or forwarding
// 6. the event, the log, the metrics
//
// A Snapshot is immutable and swapped as a whole; a request keeps its own. A later ban cuts no answer in progress; a
// block does, within
// seconds.
package proxy

import (
	"bytes"
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

// Decider decides from memory. *verdict.Cacher implements it.
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
	IsNear(v *request.View, id *identity.Identity, s *verdict.Settings) bool
}

// Snapshot is one configuration of the gateway. Immutable.
type Snapshot struct {
	Router  *Router
	Captcha *captcha.Captcha
	// Unserved is the style of answers to requests that reach no service; nil: plain text.
	Unserved *captcha.Settings
}

// Deps are safe for concurrent use. Resolver, Decider and Metrics are required.
type Deps struct {
	Resolver     *identity.Resolver
	Decider      Decider
	Sink         verdict.Sink               // nil: no events
	InFlight     *InFlight                  // nil: no limit on requests in flight
	Exempt       func(addr netip.Addr) bool // addresses without that limit; nil: none
	Messages     Messages                   // nil: no message firewall
	Queue        Queue                      // nil: no queue
	Seconds      Seconds                    // nil: no second opinions
	Journal      verdict.Journal            // nil: none
	Traces       *traces.Tracer             // nil: none
	Crawlers     bool                       // verified crawlers become events: for training data
	Log          zerolog.Logger             // decisions
	Access       *zerolog.Logger            // a line per request; nil: none
	Metrics      *metrics.Set
	AccessFields bool            // lines quote User-Agent and Referer
	Hash         request.HashKey // of queries in the lines
	// DecisionLines and AccessLines limit the lines written during a flood. The zero values write every line.
	DecisionLines, AccessLines LineLimits
}

// Gateway serves exchanges. Safe for concurrent use.
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

type journey struct {
	Case
	x *h1.Exchange

	requestID request.ID
	status    int
	result    h1.Result
	outcome   captcha.Outcome
	evidence  request.Evidence
	work      bool // solved by work of the browser
	ownPage   bool // no event
	failure   error
	traced    traced
	part      bool            // stopped unless the answer is a subresource
	stopped   verdict.Verdict // with part: the verdict
	embed     bool            // requested by another site's page
	declined  bool            // a refused prefetch or embed: counts for no visitor
	under     *atomic.Int32   // pages in flight of the network; nil: this is none
	early     bool            // the event was offered at the head of the answer
	fields    []request.Field // of the answer

	moderation moderation
	relay      relay
	reporter   reporter
}

func newJourney() *journey {
	j := &journey{}
	j.join()
	return j
}

func (j *journey) join() {
	j.moderation.journey, j.relay.journey, j.reporter.journey = j, j, j
	r := &j.relay
	r.hold, r.head, r.onlySubresource, r.noPage, r.unblocked = r.withholds, j.begun, j.onlySubresources, j.holdsPage,
		r.isUnblocked
}

// ServeExchange serves a request. After a panic, which h1 recovers and answers, it frees slots that others would wait
// for.
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

func (j *journey) release() {
	j.arrived()
	j.freeSlots()
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
	if j.Stopped() && j.mayBeSubresource() {
		j.forwardSubresource()
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

func (j *journey) end() {
	j.Close()
	clear(j.fields)
	j.x, j.status, j.result, j.outcome, j.ownPage, j.failure = nil, 0, h1.Result{}, captcha.OutcomeNone, false, nil
	j.under, j.early, j.part, j.embed, j.declined = nil, false, false, false, false
	j.evidence, j.traced, j.work = request.Evidence{}, traced{}, false
	j.moderation.taken, j.moderation.written = captcha.HeaderField{}, ""
	j.relay.end()
}

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

// timedShare is the reciprocal of the share of timed decisions: reading the clock twice costs a tenth of a decision.
const timedShare = 8

// Redirect sends visitors of a listener without TLS to https.
type Redirect struct {
	Port string // of TLS
}

var nameLocation = []byte("Location")

// ServeExchange implements h1.Handler. Methods with a body keep it: 308.
func (r Redirect) ServeExchange(x *h1.Exchange) {
	v := &x.View
	if len(v.Host) == 0 || len(v.Target) == 0 || v.Target[0] != '/' {
		_ = x.Reply(400, nil, nil)
		return
	}
	to := []byte("https://")
	if bytes.IndexByte(v.Host, ':') >= 0 {
		to = append(append(append(to, '['), v.Host...), ']')
	} else {
		to = append(to, v.Host...)
	}
	if r.Port != "443" {
		to = append(append(to, ':'), r.Port...)
	}
	status := 308
	if m := string(v.Method); m == "GET" || m == "HEAD" {
		status = 301
	}
	_ = x.Reply(status, []request.Field{{Name: nameLocation, Value: append(to, v.Target...)}}, nil)
}

// Refuse returns the answer to a request that could not be read.
func (g *Gateway) Refuse(status int, v *request.View) ([]request.Field, []byte) {
	a, ok := g.snap.Load().unserved(status, &captcha.Request{View: v})
	if !ok {
		return nil, nil
	}
	return appendFields(nil, a.Header), a.Body
}

// unserved makes the answer to a request that reaches no service; ok is false if its client states no form, or wants
// neither a page nor data.
func (s *Snapshot) unserved(status int, q *captcha.Request) (_ captcha.Response, ok bool) {
	r := readerOf(q.View)
	if s.Unserved == nil || r == captcha.ReadsNothing {
		return captcha.Response{}, false
	}
	q.Service = s.Unserved
	return s.Captcha.Failed(q, status, r), true
}

func readerOf(v *request.View) captcha.Reader {
	var f purpose
	v.ReadPurpose(&f.Purpose)
	switch accept := v.Accept(); {
	case f.XHR, accept.PrefersJSON(), len(f.Mode) > 0 && f.isScript(v):
		return captcha.ReadsJSON
	case f.isPart(v, true):
		return captcha.ReadsNothing
	case accept.WantsHTML():
		return captcha.ReadsPage
	case bytes.Contains(f.Accept, []byte("xml")):
		return captcha.ReadsXML
	}
	return captcha.ReadsNothing
}

func (j *journey) unrouted(status int, problem string) {
	a, ok := j.snap.unserved(status, &captcha.Request{View: j.view, RequestID: string(j.idText[:])})
	if !ok {
		a = captcha.Response{
			Status: status, Body: []byte(problem),
			Header: []captcha.HeaderField{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}},
		}
	}
	j.answer(a)
}
