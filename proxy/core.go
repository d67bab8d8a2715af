package proxy

import (
	"bytes"
	"errors"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/label"
)

// Core is the part of a request's journey that does not depend on where the request comes from: it is routed, its sender
// identified, its verdict given, the answer made if it is stopped, and the slow half informed. Gateway serves requests with
// it, Check answers questions about them, and replay reads them from a log. Safe for concurrent use.
type Core struct {
	deps    Deps
	metrics *coreMetrics
	snap    atomic.Pointer[Snapshot]

	decisions, accesses *lines
	underWay            underWay
	served              served
	programs            programs
	pages               pages
}

// NewCore returns a Core that judges by s.
func NewCore(s *Snapshot, d Deps) (*Core, error) {
	if d.Resolver == nil || d.Decider == nil || d.Metrics == nil {
		return nil, errors.New("proxy: resolver, decider and metrics are needed")
	}
	m := newCoreMetrics(d.Metrics)
	c := &Core{
		deps: d, metrics: m,
		decisions: newLines(d.DecisionLines, m.leftOut("decision")), accesses: newLines(d.AccessLines, m.leftOut("access")),
	}
	c.programs = newPrograms()
	c.served.seed, c.pages.seed = maphash.MakeSeed(), maphash.MakeSeed()
	commit, err := c.Prepare(s)
	if err != nil {
		return nil, err
	}
	commit()
	return c, nil
}

// Prepare prepares another Snapshot, and returns the function that puts it into use; requests in progress finish with the
// old one.
func (c *Core) Prepare(s *Snapshot) (commit func(), err error) {
	if s == nil || s.Router == nil || s.Captcha == nil {
		return nil, errors.New("proxy: a snapshot has a router and a captcha")
	}
	s.Router.count(c.metrics)
	return func() { c.snap.Store(s) }, nil
}

// Case is one request being judged. Open starts one and Close ends it; it can be opened again. The zero value is ready for
// use. It is for one goroutine, and borrows the View while it is open.
type Case struct {
	core *Core
	snap *Snapshot
	svc  *Service
	view *request.View

	id       identity.Identity
	xml      bool             // the path belongs to the XML interface
	asks     request.Kind     // what is asked for, once read
	read     bool             // asks is known
	asked    kind             // the kind of answer, once classified
	sorted   bool             // asked is known
	flood    bool             // one preflight too many of a stopped client
	partner  *captcha.Partner // the XML partner that acts for a user, or nil
	decision verdict.Decision
	event    verdict.Event
	ask      captcha.Request
	idText   [26]byte      // the request's ID
	turn     [2]uint16     // that the request has taken, if any
	paths    request.Paths // the possible readings of the path
	under    readings      // the settings of all these readings
	scratch  []byte
	cookie   []byte
}

// Open starts the case of v under the current Snapshot.
func (c *Case) Open(core *Core, v *request.View) {
	c.core, c.snap, c.view = core, core.snap.Load(), v
	v.Posted, v.Claims, v.Overclaims = nil, nil, false
	c.read, c.sorted, c.flood = false, false, false
	c.id.Addr = v.Peer // until the client is identified
}

// Close forgets what was borrowed. Large parts stay as they are: each request overwrites them.
func (c *Case) Close() {
	c.endTurn()
	c.core, c.snap, c.svc, c.view, c.partner = nil, nil, nil, nil, nil
	c.ask = captcha.Request{}
	c.xml = false
	c.under.forget()
	c.paths.Forget()
}

// Service returns the settings that the request is judged by; nil before Route, or if no service has the host.
func (c *Case) Service() *Service { return c.svc }

// Identity returns the identity of the client, once Identify has run. It is valid until Close.
func (c *Case) Identity() *identity.Identity { return &c.id }

// Decision returns the verdict, once there is one. It is valid until Close.
func (c *Case) Decision() *verdict.Decision { return &c.decision }

// Route finds the service, or returns with which status and words there is none: the host is unknown, or the path is
// ambiguous. With a service the status is 0.
func (c *Case) Route() (status int, problem string) {
	c.paths.Read(c.view.Path)
	c.svc = c.under.find(c.snap.Router, c.view.Host, &c.paths, asksForPart(c.view))
	if c.svc != nil && c.under.addRewritten(c.snap.Router, c.view) {
		c.svc = c.under.service()
	}
	if c.svc == nil {
		return 421, "No service is configured for this host.\n"
	}
	if problem = c.unclear(); problem != "" {
		c.svc = nil
		return 400, problem
	}
	if slices.ContainsFunc(c.under.list, func(s *Service) bool { return s.Verdict.Rules != nil }) {
		ReadClaims(c.view)
	}
	return 0, ""
}

// asksForPart reports whether a GET or HEAD names a subresource.
func asksForPart(v *request.View) bool {
	return (string(v.Method) == "GET" || string(v.Method) == "HEAD") && v.NamesPart()
}

// Identify identifies the client. An XML partner asks on behalf of its user, whom it names.
func (c *Case) Identify() {
	c.core.deps.Resolver.Handshake(c.view, false)
	c.core.deps.Resolver.Resolve(&c.id, c.view, c.svc.Identity)
	c.xml = c.svc.isXML(&c.paths)
	if c.xml {
		c.identifyPartner()
	}
}

// Assume treats the visitor as a subject that no cookie proves. It is for recorded traffic, which names its visitors in its
// own way, and is called after Identify.
func (c *Case) Assume(s identity.Subject) { c.id.Assume(s) }

func (c *Case) identifyPartner() {
	p := c.svc.Captcha.FindPartner(c.view, c.id.Addr)
	if p == nil {
		return
	}
	user, ok := identity.PartnerUser(c.view)
	if !ok {
		return // it asks for itself
	}
	c.partner = p
	c.ask.Partner = p
	c.core.deps.Resolver.ResolvePartner(&c.id, c.view, c.svc.Identity, spravka.PartnerOf(p.Name), user)
}

// Own returns which of the gateway's own pages is requested.
func (c *Case) Own() captcha.Endpoint { return c.svc.Captcha.Route(c.view.Path) }

// Decide asks the fast half.
func (c *Case) Decide() { c.conclude(false) }

// watch asks for the verdict without spending anything: the request is judged a second time.
func (c *Case) watch() { c.conclude(true) }

func (c *Case) conclude(watch bool) {
	if c.svc.isHealthCheck(c.view) {
		c.decision = verdict.Decision{Cause: verdict.CauseOff, Mode: c.svc.Verdict.Mode}
		return
	}
	c.view.WellKnown = c.svc.isNamedSitemap(c.view)
	c.judge(watch)
	c.core.programs.limit(c, watch)
	c.core.programs.limitPreflight(c, watch)
}

// Visit asks for the verdict on a visit to one of the gateway's own pages, as in mode observe: it costs nothing and stops
// nobody.
func (c *Case) Visit() { c.core.deps.Decider.Decide(&c.decision, c.view, &c.id, c.svc.watching) }

// kind returns what is requested. Only requests that do not simply pass need to know.
func (c *Case) kind() kind {
	if !c.sorted {
		c.asked, c.sorted = classify(c.view, &c.paths, c.svc, c.xml), true
	}
	return c.asked
}

// Stopped reports whether the request ends here.
func (c *Case) Stopped() bool { return c.decision.Stops() && c.WouldStop() }

// goOn notes that the request goes on to its service: with a pass that was earned here just now, its solver came back.
func (c *Case) goOn() {
	if c.id.NPasses > 0 {
		c.snap.Captcha.CameBack(c.id.Passes[:c.id.NPasses])
	}
}

// WouldStop reports whether the request would end here in mode enforce. A preflight is never challenged, but it can be
// blocked, and a flood of them is stopped.
func (c *Case) WouldStop() bool {
	return c.decision.Verdict != verdict.Human && (c.kind() != kindPreflight || c.decision.Verdict == verdict.Blocked || c.flood)
}

// Refusal is the answer to a stopped request of recorded traffic; unread says that its client reads none, so that hardly any is made. A form
// whose body is missing is not carried through its captcha.
func (c *Case) Refusal(unread bool) captcha.Response {
	q := c.unaddressed()
	if !unread {
		q = c.request()
	}
	q.Unread = unread
	q.BodyTooLarge = q.BodyTooLarge || q.Body == nil
	return c.refusal(q)
}

// refusal makes the answer to a stopped request, in a form that its kind can read.
func (c *Case) refusal(q *captcha.Request) captcha.Response {
	if c.decision.Verdict == verdict.Blocked {
		return c.blocked(q)
	}
	return c.challenge(q)
}

// challenge asks the visitor, in a form that the request's kind can read. A program can answer no challenge: it is refused.
func (c *Case) challenge(q *captcha.Request) captcha.Response {
	switch c.kind() {
	case kindXML:
		return c.snap.Captcha.ChallengeXML(q, false)
	case kindScript:
		return c.snap.Captcha.ChallengeJSON(q)
	case kindAsks:
		a := c.snap.Captcha.ChallengeJSON(q)
		if string(c.view.Method) != "GET" {
			a.Status = 403
		}
		return a
	case kindPart, kindPreflight:
		return c.snap.Captcha.SubResource(q, false)
	case kindForm:
		return c.snap.Captcha.ChallengeForm(q)
	case kindProgram:
		return c.refuse(q)
	default:
		return c.redirect(q)
	}
}

// refuse answers a program that is stopped.
func (c *Case) refuse(q *captcha.Request) captcha.Response {
	if wait := c.decision.RetryAfter(c.view.At); wait > 0 {
		return c.snap.Captcha.Throttled(q, wait, captcha.ReadsText)
	}
	return c.snap.Captcha.Blocked(q, captcha.ReadsText)
}

func (c *Case) blocked(q *captcha.Request) captcha.Response {
	if r := c.decision.Quarantine(); r != nil {
		if c.kind() == kindXML {
			return c.snap.Captcha.QuarantinedXML(q)
		}
		return c.snap.Captcha.Quarantined(q, r.Decision, r.AppendTags(nil))
	}
	if c.decision.Queue() != nil {
		return c.snap.Captcha.Queued(q, c.kind().page())
	}
	if r := c.decision.Throttle(); r != nil {
		return c.snap.Captcha.Throttled(q, r.Wait, c.reads())
	}
	return c.snap.Captcha.Blocked(q, c.reads())
}

// reads returns what the client of the request can read.
func (c *Case) reads() captcha.Reader {
	switch c.kind() {
	case kindPage, kindForm:
		return captcha.ReadsPage
	case kindScript, kindAsks:
		return captcha.ReadsJSON
	case kindXML:
		return captcha.ReadsXML
	case kindProgram:
		return captcha.ReadsText
	}
	return captcha.ReadsNothing
}

// request is the captcha's view of the request; it is valid until Close.
func (c *Case) request() *captcha.Request {
	q := c.unaddressed()
	q.RequestID = string(c.idText[:])
	host, mount := c.outside()
	q.Mount = string(mount)
	q.Base = c.id.Proto + "://" + string(host) + q.Mount
	return q
}

// unaddressed is request without what only the text of an answer needs.
func (c *Case) unaddressed() *captcha.Request {
	q := &c.ask
	q.View, q.ID, q.Service = c.view, &c.id, c.svc.Captcha
	q.Unsure, q.Read = c.decision.Checks(), c.decision.Cause == verdict.CauseBudget && c.decision.Question.Reason == ""
	q.Reason = reasonOf(&c.decision)
	q.Named, q.Unread = false, false
	return q
}

// reasonOf returns what a challenged visitor is told about why.
func reasonOf(d *verdict.Decision) templates.Reason {
	switch {
	case d.Cause == verdict.CauseAttack || d.Busy:
		return templates.ReasonLoad
	case d.Cause == verdict.CauseMessage:
		return templates.ReasonMessage
	case d.Cause == verdict.CauseBan && d.Own && d.Ban.Source == bans.SourceProcessor && d.Ban.Model == "":
		return templates.ReasonPace // a limit, and the visitor's own
	}
	return templates.ReasonNetwork
}

// Cookie returns the browser cookie given to a request that passes, as the value of Set-Cookie; nil for none. It is valid
// until the next call.
func (c *Case) Cookie() []byte {
	if c.partner != nil || !c.id.WantI || c.decision.Cause == verdict.CauseOff {
		return nil
	}
	if made := c.core.deps.Resolver.MintI(c.cookie[:0], &c.id, c.view, c.svc.Identity); made != nil {
		c.cookie = made
		return made
	}
	return nil
}

// IsStatic reports whether the request claims to be for a part of a page.
func (c *Case) IsStatic() bool { return namesStatic(c.view, c.asksFor()) }

// Asks says what the request asks for, where that is known already; it is called after Open.
func (c *Case) Asks(k request.Kind) { c.asks, c.read = k, true }

// asksFor returns what the request asks for, which all fields say together: they are read for that once.
func (c *Case) asksFor() request.Kind {
	if !c.read {
		c.asks, c.read = c.view.Kind(), true
	}
	return c.asks
}

// Facts is what is known about the answer to a request, or about the captcha that it led to.
type Facts struct {
	Status      int           // 0: unknown
	ContentType []byte        // empty: unknown
	Bytes       int64         // of the body
	Took        time.Duration // 0: unknown
	Kind        verdict.EventKind
	Mark        label.Mark // what the service says of its visitor
	Evidence    request.Evidence
	Work        bool // the captcha was answered by work of the browser
	Uncounted   bool // the slow half is not told
	Advised     bool // a balancer forwards the request itself: nothing is known about the answer
}

// Tell settles what a pass paid, now that the answer is known, and tells the slow half about the request. It reports
// whether the slow half had to be told.
func (c *Case) Tell(f *Facts) bool {
	d := &c.core.deps
	told := d.Sink != nil && !f.Uncounted && (c.decision.Judged() || d.Crawlers && c.decision.Crawler())
	settles := (c.decision.Cost > 0 || c.decision.Stood) && !f.Advised
	if !told && !settles {
		return false
	}
	e := &c.event
	c.decision.Event(e, c.view, &c.id, c.under.charged(c.svc))
	e.Asked = c.asksFor()
	e.Static = namesStatic(c.view, e.Asked)
	e.Answered(f.Status, f.ContentType, f.Bytes, f.Took)
	if f.Advised && bytes.IndexByte(c.view.Get("Range"), ',') >= 0 {
		e.Type = verdict.TypeRanges // as far as the answer is not something else
	}
	e.Kind, e.Work, e.Advised, e.Mark, e.Evidence = f.Kind, f.Work, f.Advised, f.Mark, f.Evidence
	if settles {
		d.Decider.Delivered(&c.decision, e)
	}
	if told {
		if t := d.Turns; t != nil && !t.apart {
			e.Turn = c.turn
		}
		if d.Sink.Offer(e) && e.Turn != ([2]uint16{}) {
			c.turn = [2]uint16{} // until it is judged
		}
	}
	return told
}

// KindOf returns the kind of event for a captcha outcome.
func KindOf(o captcha.Outcome) verdict.EventKind { return eventKinds[o] }

var eventKinds = [...]verdict.EventKind{
	captcha.OutcomeNone: verdict.EventRequest, captcha.OutcomeShown: verdict.EventShown, captcha.OutcomeSolved: verdict.EventSolved,
	captcha.OutcomeFailed: verdict.EventFailed, captcha.OutcomeLimited: verdict.EventFailed, captcha.OutcomeEvidence: verdict.EventEvidence,
}
