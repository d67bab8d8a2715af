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

// Core routes, identifies and judges requests, makes the answers of stopped ones and offers events, wherever the
// requests come from: Gateway, Check or replay. Safe for concurrent use.
type Core struct {
	deps    Deps
	metrics *coreMetrics
	snap    atomic.Pointer[Snapshot]

	decisions, accesses *lines
	pagesInFlight       pagesInFlight
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
		decisions: newLines(d.DecisionLines, m.leftOut("decision")),
		accesses:  newLines(d.AccessLines, m.leftOut("access")),
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

// Prepare returns the function that puts a Snapshot into use; requests in progress keep the old one.
func (c *Core) Prepare(s *Snapshot) (commit func(), err error) {
	if s == nil || s.Router == nil || s.Captcha == nil {
		return nil, errors.New("proxy: a snapshot has a router and a captcha")
	}
	s.Router.count(c.metrics)
	return func() { c.snap.Store(s) }, nil
}

// Case is one request being judged, between Open and Close. The zero value is ready. It is for one goroutine, and
// borrows the View while open.
type Case struct {
	core *Core
	snap *Snapshot
	svc  *Service
	view *request.View

	id       identity.Identity
	xml      bool
	asks     request.Kind // set if read
	purpose  purpose      // set if read
	read     bool
	asked    kind // set if sorted
	sorted   bool
	flood    bool             // one preflight too many of a stopped client
	partner  *captcha.Partner // acts for a user; or nil
	decision verdict.Decision
	event    verdict.Event
	ask      captcha.Request
	idText   [26]byte
	slots    [2]uint16     // see InFlight
	paths    request.Paths // readings of the path
	under    readings      // settings of all readings
	scratch  []byte
	cookie   []byte
}

// Open starts the case of v under the current Snapshot.
func (c *Case) Open(core *Core, v *request.View) {
	c.core, c.snap, c.view = core, core.snap.Load(), v
	v.Posted, v.Claims, v.Overclaims = nil, nil, false
	c.read, c.sorted, c.flood = false, false, false
	c.id.Addr = v.Peer // until Identify
}

// Close forgets borrowed bytes. Large parts stay: each request overwrites them.
func (c *Case) Close() {
	c.freeSlots()
	c.core, c.snap, c.svc, c.view, c.partner = nil, nil, nil, nil, nil
	c.ask, c.purpose = captcha.Request{}, purpose{}
	c.xml = false
	c.under.forget()
	c.paths.Forget()
}

// Service returns the settings of the request; nil before Route, or if no service has the host.
func (c *Case) Service() *Service { return c.svc }

// Identity returns the identity of the client, after Identify and until Close.
func (c *Case) Identity() *identity.Identity { return &c.id }

// Decision returns the verdict, until Close.
func (c *Case) Decision() *verdict.Decision { return &c.decision }

// Route finds the service. Otherwise it returns a status and text: the host is unknown, or the path is ambiguous.
func (c *Case) Route() (status int, problem string) {
	c.paths.Read(c.view.Path)
	c.svc = c.under.find(c.snap.Router, c.view.Host, &c.paths, namesSubresource(c.view))
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

func namesSubresource(v *request.View) bool {
	return (string(v.Method) == "GET" || string(v.Method) == "HEAD") && v.NamesPart()
}

// Identify identifies the client. An XML partner names its user.
func (c *Case) Identify() {
	c.core.deps.Resolver.Handshake(c.view, false)
	c.core.deps.Resolver.Resolve(&c.id, c.view, c.svc.Identity)
	c.xml = c.svc.isXML(&c.paths)
	if c.xml {
		c.identifyPartner()
	}
}

// Assume sets a subject that no cookie proves, for recorded traffic. It is called after Identify.
func (c *Case) Assume(s identity.Subject) { c.id.Assume(s) }

func (c *Case) identifyPartner() {
	p := c.svc.Captcha.FindPartner(c.view, c.id.Addr)
	if p == nil {
		return
	}
	user, ok := identity.PartnerUser(c.view)
	if !ok {
		return
	}
	c.partner = p
	c.ask.Partner = p
	c.core.deps.Resolver.ResolvePartner(&c.id, c.view, c.svc.Identity, spravka.PartnerOf(p.Name), user)
}

// Own returns which of the gateway's own pages is requested.
func (c *Case) Own() captcha.Endpoint { return c.svc.Captcha.Route(c.view.Path) }

// Decide sets the decision.
func (c *Case) Decide() { c.conclude(false) }

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

// Visit decides about a visit to one of the gateway's own pages, as in mode observe.
func (c *Case) Visit() { c.core.deps.Decider.Decide(&c.decision, c.view, &c.id, c.svc.watching) }

// kind classifies on demand: requests that pass do not need it.
func (c *Case) kind() kind {
	if !c.sorted {
		c.wants()
		c.asked, c.sorted = classify(c.view, &c.purpose, &c.paths, c.svc, c.xml), true
	}
	return c.asked
}

// Stopped reports whether the request ends here.
func (c *Case) Stopped() bool { return c.decision.Stops() && c.WouldStop() }

// goOn tells the captcha that the solver of a pass has returned.
func (c *Case) goOn() {
	if c.id.NPasses > 0 {
		c.snap.Captcha.CameBack(c.id.Passes[:c.id.NPasses])
	}
}

// WouldStop reports whether the request would end here in mode enforce. Preflights are never challenged; blocked
// clients' and floods are stopped.
func (c *Case) WouldStop() bool {
	return c.decision.Verdict != verdict.Human && (c.kind() != kindPreflight || c.decision.Verdict == verdict.Blocked ||
		c.flood)
}

// Refusal is the answer to a stopped request of recorded traffic; unread: nobody reads it. A form without its body is
// not sealed.
func (c *Case) Refusal(unread bool) captcha.Response {
	q := c.unaddressed()
	if !unread {
		q = c.request()
	}
	q.Unread = unread
	q.BodyTooLarge = q.BodyTooLarge || q.Body == nil
	return c.refusal(q)
}

func (c *Case) refusal(q *captcha.Request) captcha.Response {
	if c.decision.Verdict == verdict.Blocked {
		return c.blocked(q)
	}
	return c.challenge(q)
}

// challenge answers in a form that the client can read. A program can't answer a challenge, and is refused.
func (c *Case) challenge(q *captcha.Request) captcha.Response {
	switch c.kind() {
	case kindXML:
		return c.snap.Captcha.ChallengeXML(q, false)
	case kindScript:
		return c.snap.Captcha.ChallengeJSON(q)
	case kindJSON:
		a := c.snap.Captcha.ChallengeJSON(q)
		if string(c.view.Method) != "GET" {
			a.Status = 403
		}
		return a
	case kindSubresource, kindPreflight:
		return c.snap.Captcha.SubResource(q, false)
	case kindForm:
		return c.snap.Captcha.ChallengeForm(q)
	case kindProgram:
		return c.refuse(q)
	default:
		return c.redirect(q)
	}
}

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

func (c *Case) reads() captcha.Reader {
	switch c.kind() {
	case kindPage, kindForm:
		return captcha.ReadsPage
	case kindScript, kindJSON:
		return captcha.ReadsJSON
	case kindXML:
		return captcha.ReadsXML
	case kindProgram:
		return captcha.ReadsText
	}
	return captcha.ReadsNothing
}

// request is the captcha's view of the request, until Close.
func (c *Case) request() *captcha.Request {
	q := c.unaddressed()
	q.RequestID = string(c.idText[:])
	host, mount := c.outside()
	q.Mount = string(mount)
	q.Base = c.id.Proto + "://" + string(host) + q.Mount
	return q
}

func (c *Case) unaddressed() *captcha.Request {
	q := &c.ask
	q.View, q.ID, q.Service = c.view, &c.id, c.svc.Captcha
	d := &c.decision
	q.Unsure, q.Press = d.Checks(), d.Step == verdict.StepPress
	q.Read = d.Cause == verdict.CauseQuota && d.Excess.Bare
	q.Reason = reasonOf(&c.decision)
	q.Named, q.Unread = false, false
	return q
}

func reasonOf(d *verdict.Decision) templates.Reason {
	switch {
	case d.Cause == verdict.CauseAttack || d.Busy:
		return templates.ReasonLoad
	case d.Cause == verdict.CauseMessage:
		return templates.ReasonMessage
	case d.Cause == verdict.CauseBan && d.Own && d.Ban.Source == bans.SourceProcessor && d.Ban.Model == "":
		return templates.ReasonPace // the visitor's own limit
	}
	return templates.ReasonNetwork
}

// Cookie returns the Set-Cookie value of a new browser cookie, until the next call; nil: none.
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

// IsStatic reports whether the request claims to be for a subresource.
func (c *Case) IsStatic() bool { return namesStatic(c.view, c.wants()) }

// Asks sets a known request kind, after Open.
func (c *Case) Asks(k request.Kind) {
	c.view.ReadPurpose(&c.purpose.Purpose)
	c.asks, c.read = k, true
}

func (c *Case) wants() request.Kind {
	if !c.read {
		c.view.ReadPurpose(&c.purpose.Purpose)
		c.asks, c.read = c.view.KindOf(&c.purpose.Purpose), true
	}
	return c.asks
}

// Facts describe the answer to a request, or the captcha that it led to.
type Facts struct {
	Status      int    // 0: unknown
	ContentType []byte // empty: unknown
	Bytes       int64
	Took        time.Duration // 0: unknown
	Kind        verdict.EventKind
	Mark        label.Mark // from the service
	Evidence    request.Evidence
	Work        bool // answered by work of the browser
	Uncounted   bool // no event
	Advised     bool // a balancer forwards the request; the answer is unknown
}

// Tell settles the price that a pass paid, now that the answer is known, and offers the event. It reports whether there
// was one.
func (c *Case) Tell(f *Facts) bool {
	d := &c.core.deps
	told := d.Sink != nil && !f.Uncounted && (c.decision.Judged() || d.Crawlers && c.decision.Crawler())
	settles := c.decision.Cost > 0 && !f.Advised
	if !told && !settles {
		return false
	}
	e := &c.event
	c.decision.Event(e, c.view, &c.id, c.under.charged(c.svc))
	e.Asked = c.wants()
	e.Static = namesStatic(c.view, e.Asked)
	e.Answered(f.Status, f.ContentType, f.Bytes, f.Took)
	if f.Advised && bytes.IndexByte(c.view.Get("Range"), ',') >= 0 {
		e.Type = verdict.TypeRanges // unless the answer is something else
	}
	e.Kind, e.Work, e.Advised, e.Mark, e.Evidence = f.Kind, f.Work, f.Advised, f.Mark, f.Evidence
	if settles {
		d.Decider.Delivered(&c.decision, e)
	}
	if told {
		if t := d.InFlight; t != nil && !t.apart {
			e.Turn = c.slots
		}
		if d.Sink.Offer(e) && e.Turn != ([2]uint16{}) {
			c.slots = [2]uint16{} // until it is judged
		}
	}
	return told
}

// KindOf returns the kind of event for a captcha outcome.
func KindOf(o captcha.Outcome) verdict.EventKind { return eventKinds[o] }

var eventKinds = [...]verdict.EventKind{
	captcha.OutcomeNone: verdict.EventRequest, captcha.OutcomeShown: verdict.EventShown,
	captcha.OutcomeSolved: verdict.EventSolved,
	captcha.OutcomeFailed: verdict.EventFailed, captcha.OutcomeLimited: verdict.EventFailed,
	captcha.OutcomeEvidence: verdict.EventEvidence,
}

// longestMount bounds X-Forwarded-Prefix, in bytes.
const longestMount = 128

// outside returns the authority and path prefix under which visitors reach the service, if a trusted proxy rewrites
// them (X-Forwarded-Host, X-Forwarded-Prefix). They are used in URLs for visitors only: some proxies pass these fields
// on from clients, so the host must belong to the same service, and both must be plain.
func (c *Case) outside() (host, mount []byte) {
	v := c.view
	host = v.HostPort
	if !c.core.deps.Resolver.Trusts(v.Peer) {
		return host, nil
	}
	for i := range v.Fields {
		switch f := &v.Fields[i]; {
		case request.EqualFold(f.Name, "X-Forwarded-Host"):
			if h := lastOf(f.Value); c.snap.Router.sameSite(v, h) {
				host = h
			} else {
				host = v.HostPort
			}
		case request.EqualFold(f.Name, "X-Forwarded-Prefix"):
			if mount = bytes.TrimSuffix(lastOf(f.Value), rootPath); !isMount(mount) {
				mount = nil
			}
		}
	}
	return host, mount
}

func lastOf(list []byte) []byte { return bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:]) }

// sameSite reports whether the service of a request also serves an authority.
func (r *Router) sameSite(v *request.View, authority []byte) bool {
	name, ok := request.AppendHostName(nil, authority)
	if !ok || !request.PlainHost(string(name)) {
		return false
	}
	site := r.site(name, v.Path, false)
	return site != nil && site == r.site(v.Host, v.Path, false)
}

// isMount reports whether all readers agree on b: segments of letters, digits and "-._~", none of them dots alone.
func isMount(b []byte) bool {
	if len(b) == 0 || len(b) > longestMount || b[0] != '/' {
		return false
	}
	for segment := range bytes.SplitSeq(b[1:], rootPath) {
		if len(bytes.Trim(segment, ".")) == 0 {
			return false
		}
		for _, c := range segment {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' &&
				c != '_' && c != '~' {
				return false
			}
		}
	}
	return true
}
