package proxy

import (
	"bytes"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/captcha"
	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/verdict"
)

// Check serves balancers that hold a request and ask about it, on a private listener, with Gateway's journey, in one of
// two styles:
//
// - verdict: the check path answers 200, 401 or 403 for the request that the balancer describes in header fields
// (style=forward:
// the visitor's own answer, never 2xx). Any other call is a challenge call: the stopped request itself, sent here for
// its answer.
// - full: every call is the original request. A human gets 200 with X-Accel-Redirect, others get their answer.
//
// Invariants:
// 1. A check spends allowance and becomes an event once per request; a challenge call decides again and spends nothing.
// 2. A challenge call that finds a human redirects to the same URL, so that the balancer checks again.
// 3. Only a balancer's address or the secret admits a call. An ambiguous call is refused, whatever OnError says.
// 4. A stopped visitor can't make the balancer send a request for the check path: it would speak for the balancer.
// 5. Lists and rules see the original request, without fields that the balancer added.
//
// Safe for concurrent use.
type Check struct {
	core  *Core
	rules atomic.Pointer[CheckRules]
	pool  sync.Pool
	count map[checkOutcome]*metrics.Counter
	said  seldom
	round rounds
}

type checkOutcome struct{ style, answer string }

// NewCheck returns the check mode of a gateway.
func NewCheck(cfg CheckConfig, g *Gateway) (*Check, error) {
	c := &Check{core: g.Core, count: map[checkOutcome]*metrics.Counter{}}
	commit, err := c.Prepare(cfg)
	if err != nil {
		return nil, err
	}
	commit()
	c.pool.New = func() any {
		k := &checkCall{}
		k.join()
		return k
	}
	for _, style := range [...]string{styleVerdict, styleForward, styleChallenge, styleFull, styleAnswer} {
		for _, answer := range [...]string{
			answerHuman, answerCaptcha, answerBlocked, answerOwn, answerError,
			answerRefused, answerLearned,
		} {
			c.count[checkOutcome{style, answer}] = c.core.deps.Metrics.GetOrCreateCounter(
				`antirobot_checks_total{style="` + style + `",answer="` + answer + `"}`)
		}
	}
	return c, nil
}

const (
	styleForward   = "forward"
	styleChallenge = "challenge"
	styleAnswer    = "answer" // the balancer reports the service's answer

	answerHuman   = "human"
	answerCaptcha = "captcha"
	answerBlocked = "blocked"
	answerOwn     = "own"     // one of the gateway's own pages
	answerError   = "error"   // answered by OnError
	answerRefused = "refused" // the call itself was invalid
	answerLearned = "learned"
)

// Prepare returns the function that puts a configuration into use; calls in progress keep the old one.
func (c *Check) Prepare(cfg CheckConfig) (commit func(), err error) {
	r, err := NewCheckRules(cfg)
	if err != nil {
		return nil, err
	}
	return func() { c.rules.Store(r) }, nil
}

// Trusts reports whether addr is a balancer's.
func (c *Check) Trusts(addr netip.Addr) bool { return c.rules.Load().allows(addr) }

// checkCall is the state of one call. It is pooled.
type checkCall struct {
	journey
	c        *Check
	rules    *CheckRules
	style    string
	answered string

	original original
	about    request.View // the original request; view points to it
	kept     []request.Field
	host     []byte
}

// ServeExchange answers one call of a balancer. A panic in a check is answered as OnError says.
func (c *Check) ServeExchange(x *h1.Exchange) {
	k := c.pool.Get().(*checkCall)
	k.begin(c, x)
	if k.style == styleVerdict || k.style == styleForward {
		defer k.survive()
	}
	k.serve()
	k.report()
	k.end()
}

func (k *checkCall) begin(c *Check, x *h1.Exchange) {
	k.journey.begin(c.core, x)
	k.c, k.rules = c, c.rules.Load()
	k.style, k.answered = k.styleOf(&x.View), ""
}

func (k *checkCall) end() {
	k.journey.end()
	c := k.c
	clear(k.kept)
	k.kept = k.kept[:0]
	k.c, k.rules, k.original, k.about = nil, nil, original{}, request.View{}
	c.pool.Put(k)
}

// styleOf distinguishes checks from the requests themselves; "": unknown style.
func (k *checkCall) styleOf(v *request.View) string {
	r := k.rules
	switch {
	case r.full:
		return styleFull
	case r.set.inPath() && bytes.HasPrefix(v.Target, []byte(r.path)) && len(v.Target) > len(r.path) &&
		(v.Target[len(r.path)] == '/' || v.Target[len(r.path)] == '*'):
		return styleForward
	case r.set.inPath() || string(v.Path) != r.path:
		return styleChallenge
	}
	for pair := range bytes.SplitSeq(v.Query, []byte{'&'}) {
		if value, ok := bytes.CutPrefix(pair, []byte("style=")); ok {
			switch string(value) {
			case styleVerdict:
				return styleVerdict
			case styleForward:
				return styleForward
			case styleAnswer:
				return styleAnswer
			}
			return ""
		}
	}
	return styleVerdict
}

func (k *checkCall) serve() {
	call := &k.x.View
	switch {
	case !k.rules.admits(call):
		k.refuse(403, "this address may not ask: it is not in check.allowed, and sent no secret")
		return
	case k.style == "":
		k.refuse(400, "style is none of verdict, forward and answer")
		return
	}
	if problem := k.read(call); problem != "" {
		k.refuse(400, problem)
		return
	}
	switch status, problem := k.Route(); status {
	case 0:
	case 400: // a client may have caused it
		if k.reachesVisitor() {
			k.answered = answerRefused
			k.unrouted(status, problem)
			return
		}
		k.refuse(status, strings.TrimSuffix(problem, ".\n"))
		return
	default:
		k.unknown(status, problem)
		return
	}
	if k.style == styleAnswer {
		k.learnAnswer(call)
		return
	}
	k.beginTrace()
	k.Identify()
	switch k.style {
	case styleFull:
		k.full()
	case styleChallenge:
		k.challenge()
	default:
		k.check()
	}
}

func (k *checkCall) read(call *request.View) (problem string) {
	k.core.deps.Resolver.Handshake(call, true)
	k.about, k.view = *call, &k.about
	set := k.rules.sender
	isCheck := k.style == styleVerdict || k.style == styleForward || k.style == styleAnswer
	if isCheck {
		set = k.rules.set
	}
	o := &k.original
	if problem = o.collect(call.Fields, set, k.rules.full); problem != "" {
		return problem
	}
	if problem = o.whence(&k.about, set); problem != "" {
		return problem
	}
	if isCheck {
		if set.inPath() {
			if !setTarget(&k.about, call.Target[len(k.rules.path):]) {
				return "no path stands below " + k.rules.path
			}
		} else if k.host, problem = o.what(&k.about, set, k.host); problem != "" {
			return problem
		}
	}
	k.kept = o.fields(k.kept[:0], call.Fields, set, &k.about)
	rewrite(&k.about, k.kept)
	return ""
}

func (k *checkCall) check() {
	k.c.round.end()
	if e := k.Own(); e != captcha.EndpointNone {
		k.checkOwn()
		return
	}
	if k.refusesEmbed() {
		return
	}
	k.decide()
	k.ask.Tight = k.style == styleVerdict
	switch {
	case !k.stops(true):
		k.human(captcha.HeaderField{Name: "Cache-Control", Value: "no-store"})
	case k.style == styleForward:
		k.forwardStyle()
	case string(k.about.Path) == k.rules.asked:
		k.refuse(400, "a visitor who is stopped asks for the path of checks: brought here, the request would be a "+
			"balancer's question")
	default:
		k.stop(k.decision.Verdict == verdict.Blocked)
	}
}

// checkOwn answers a check of one of the gateway's own pages, which the balancer must send here.
func (k *checkCall) checkOwn() {
	k.ownPage = true
	k.watch()
	switch {
	case k.Stopped() && k.decision.Verdict == verdict.Blocked && k.style == styleForward:
		k.forwardStyle()
	case k.Stopped() && k.decision.Verdict == verdict.Blocked:
		k.stop(true)
	case k.style == styleForward: // a redirect would loop
		k.refuse(421, "this path is the gateway's own: the balancer must send it to the gateway without a check")
	default:
		k.answered = answerOwn
		k.reply(captcha.Response{Status: 401, Header: []captcha.HeaderField{
			{Name: k.snap.Captcha.Headers().Verdict, Value: answerCaptcha},
			{Name: "X-Antirobot-Reason", Value: "own-page"},
		}})
	}
}

// stops is Stopped with a limit on preflights: the service's answer to one is not seen here, and may be a page.
func (k *checkCall) stops(count bool) bool {
	return k.Stopped() || k.decision.Stops() && !k.core.deps.Decider.Preflight(k.view, &k.id, count)
}

func (k *checkCall) challenge() {
	if e := k.Own(); e != captcha.EndpointNone {
		k.answered = answerOwn
		k.ask.Beside = true
		k.serveOwn(e)
		return
	}
	if k.refusesEmbed() {
		return
	}
	k.watch()
	if k.stops(false) {
		k.c.round.end()
		k.answered = answerOf(&k.decision)
		k.enforce()
		return
	}
	if k.c.round.again(k.x.View.At) {
		k.core.deps.Log.Warn().Stringer("caller", k.x.View.Peer).Bytes("request_id", k.idText[:]).
			Msg("requests come here that nobody asked about, and are sent round in circles: a balancer that sends " +
				"every request (X-Accel-Redirect) needs check.style full; see docs/balancers.md")
	}
	// the ban has ended, or a pass pays: the balancer checks again
	k.answered = answerHuman
	k.reply(captcha.Response{Status: 307, Header: []captcha.HeaderField{{Name: "Location", Value: k.request().
		Original()}}})
}

func (k *checkCall) full() {
	if k.isQuestion() && k.c.round.due(k.x.View.At) {
		k.core.deps.Log.Warn().Stringer("caller", k.x.View.Peer).Bytes("request_id", k.idText[:]).
			Msg("a balancer asks about requests (auth_request), and check.style is full, which judges the question " +
				"itself: set check.style verdict; see docs/balancers.md")
	}
	if e := k.Own(); e != captcha.EndpointNone {
		k.answered = answerOwn
		k.ask.Beside = true
		k.serveOwn(e)
		return
	}
	if k.refusesEmbed() {
		return
	}
	k.decide()
	k.ask.Tight = !k.rules.roomy
	if len(k.svc.routes) > 0 { // only this style has the body
		k.moderation.judgeMessage()
	}
	if k.stops(true) {
		k.answered = answerOf(&k.decision)
		k.enforce()
		return
	}
	k.human(k.accelerate()...)
}

// report records the outcome of the call. The status, length and time of requests that the balancer forwards are
// unknown.
func (k *checkCall) report() {
	if n := k.c.count[checkOutcome{k.style, k.answered}]; n != nil {
		n.Inc()
	}
	took := time.Since(k.x.View.At)
	if k.svc != nil && k.view == &k.about && k.answered != answerError && k.answered != answerRefused &&
		k.answered != answerLearned {
		k.learn(took)
	}
	if k.core.deps.Access != nil {
		k.reporter.logAccess(took)
	}
	k.reporter.offerTrace()
}

func (k *checkCall) learn(took time.Duration) {
	if k.answered == answerOwn && k.style == styleVerdict {
		return
	}
	if k.declined {
		k.reporter.count(took)
		return
	}
	k.reporter.remember() // the decision must be found from now on
	switch {
	case k.answered == answerOwn:
		k.reporter.tell(took)
		k.reporter.count(took)
	case k.style == styleChallenge:
		if k.outcome != captcha.OutcomeNone {
			k.reporter.tell(took)
		}
	case k.style != styleFull || k.answered == answerHuman:
		k.reporter.told(&Facts{Kind: KindOf(k.outcome), Advised: true})
		k.reporter.count(took)
	default:
		k.reporter.tell(took)
		k.reporter.count(took)
	}
	if k.core.deps.Journal != nil && (k.style != styleChallenge || k.outcome != captcha.OutcomeNone) {
		k.reporter.note(took)
	}
}

// survive answers a check that panicked as OnError says. The journey is left to the garbage collector.
func (k *checkCall) survive() {
	p := recover()
	if p == nil {
		return
	}
	if k.x.Answered() {
		panic(p)
	}
	k.core.deps.Log.Error().Interface("panic", p).Bytes("request_id", k.idText[:]).Bytes("stack", debug.Stack()).
		Msg("check")
	k.c.count[checkOutcome{k.style, answerError}].Inc()
	k.unjudged("error")
}

func answerOf(d *verdict.Decision) string {
	if d.Verdict == verdict.Blocked {
		return answerBlocked
	}
	return answerCaptcha
}
