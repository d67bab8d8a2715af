package proxy

import (
	"bytes"
	"net/netip"
	"runtime/debug"
	"strconv"
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
		k.answered = answerOf(&k.decision)
		k.enforce()
		return
	}
	// the ban has ended, or a pass pays: the balancer checks again
	k.answered = answerHuman
	k.reply(captcha.Response{Status: 307, Header: []captcha.HeaderField{{Name: "Location", Value: k.request().
		Original()}}})
}

func (k *checkCall) full() {
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

// human tells the balancer to forward the request. The answer has no field that a balancer could mix into the service's
// answer (nginx does so with Cache-Control and Content-Type), except the i cookie.
func (k *checkCall) human(extra ...captcha.HeaderField) {
	j := &k.journey
	k.answered = answerHuman
	j.goOn()
	j.fields = append(append(j.relay.answerFields(nil), j.relay.cookieFields()...),
		request.Field{Name: []byte(k.snap.Captcha.Headers().Verdict), Value: []byte(answerHuman)},
		request.Field{Name: nameReason, Value: []byte(j.decision.Cause.String())},
		request.Field{Name: nameRequestID, Value: j.idText[:]})
	j.fields = j.relay.appendMarks(j.fields)
	j.fields = appendFields(j.fields, extra)
	k.send(200, nil)
}

func (k *checkCall) accelerate() []captcha.HeaderField {
	if len(k.rules.accel) == 0 {
		return nil
	}
	return []captcha.HeaderField{{Name: "X-Accel-Redirect", Value: string(k.rules.accel)}}
}

// stop answers 401 with the captcha page's address, or 403, without a body.
func (k *checkCall) stop(blocked bool) {
	j := &k.journey
	k.answered = answerBlocked
	var a captcha.Response
	switch r := j.decision.Throttle(); {
	case !blocked && j.kind() != kindProgram: // a program would take the link for a success
		k.answered = answerCaptcha
		a = j.snap.Captcha.Link(j.request())
	case r != nil: // no balancer relays a 429
		a = j.snap.Captcha.Throttled(j.request(), r.Wait, captcha.ReadsNothing)
		a.Status = 403
	default:
		a = j.snap.Captcha.SubResource(j.request(), true)
	}
	k.reply(k.reasoned(a))
}

// forwardStyle sends the visitor's answer with a status that no balancer takes for a yes: 403 in place of 200.
func (k *checkCall) forwardStyle() {
	j := &k.journey
	q := j.request()
	k.answered = answerOf(&j.decision)
	var a captcha.Response
	if j.kind() == kindForm && j.decision.Verdict != verdict.Blocked { // the balancer has the body
		a = j.snap.Captcha.Redirect(q)
	} else {
		a = j.refusal(q)
	}
	if a.Status < 300 {
		a.Status = 403
	}
	j.outcome = a.Outcome
	k.reply(k.reasoned(a))
}

func (k *checkCall) reasoned(a captcha.Response) captcha.Response {
	a.Header = append(a.Header, captcha.HeaderField{Name: "X-Antirobot-Reason", Value: k.decision.Cause.String()})
	return a
}

func (k *checkCall) refusesEmbed() bool {
	refused := k.journey.refusesEmbed()
	if refused {
		k.answered = answerBlocked
	}
	return refused
}

func (k *checkCall) unknown(status int, problem string) {
	if k.style == styleChallenge {
		k.answered = answerError
		k.unrouted(status, problem)
		return
	}
	k.unjudged("no-service")
}

// reachesVisitor reports whether the balancer relays the answer and its body.
func (k *checkCall) reachesVisitor() bool {
	return k.style != styleVerdict && k.style != styleAnswer && k.style != ""
}

func unjudgedText(reason string) string {
	return "The gateway can't judge this request: " + reason + ".\n"
}

func (k *checkCall) unjudged(reason string) {
	j := &k.journey
	k.answered = answerError
	j.fields = append(j.fields[:0],
		request.Field{Name: nameReason, Value: []byte(reason)}, request.Field{Name: nameRequestID, Value: j.idText[:]})
	if !k.rules.open && k.reachesVisitor() {
		k.unrouted(503, unjudgedText(reason))
		return
	}
	if !k.rules.open {
		j.fields = append(j.fields, request.Field{Name: nameContentType, Value: textPlain},
			request.Field{Name: nameCacheControl, Value: noStore})
		k.send(503, []byte(unjudgedText(reason)))
		return
	}
	j.fields = append(j.fields, request.Field{
		Name:  []byte(k.snap.Captcha.Headers().Verdict),
		Value: []byte(answerHuman),
	})
	if k.style == styleFull {
		j.fields = appendFields(j.fields, k.accelerate())
	}
	k.send(200, nil)
}

// refuse answers an invalid call. It is logged rarely, since a misconfigured balancer makes many.
func (k *checkCall) refuse(status int, problem string) {
	j := &k.journey
	k.answered = answerRefused
	if k.c.said.due(j.x.View.At) {
		j.core.deps.Log.Warn().Stringer("caller", j.x.View.Peer).Bytes("request_id", j.idText[:]).
			Str("problem", problem).
			Msg("a balancer's call was refused; see docs/balancers.md")
	}
	j.fields = append(j.fields[:0], request.Field{Name: nameContentType, Value: textPlain},
		request.Field{Name: nameCacheControl, Value: noStore}, request.Field{Name: nameRequestID, Value: j.idText[:]})
	k.send(status, []byte("Antirobot: "+problem+".\n"))
}

// seldom limits how often a log line is repeated. Safe for concurrent use; the zero value is ready.
type seldom struct{ last atomic.Int64 } // unix seconds

// due reports whether the line may be logged, and notes that it was.
func (s *seldom) due(at time.Time) bool {
	now, last := at.Unix(), s.last.Load()
	return now-last >= int64(saidEvery/time.Second) && s.last.CompareAndSwap(last, now)
}

const saidEvery = 10 * time.Second

func (k *checkCall) reply(a captcha.Response) { k.journey.answer(a) }

func (k *checkCall) send(status int, body []byte) {
	j := &k.journey
	j.status = status
	j.result.BytesOut = int64(len(body))
	if err := j.x.Reply(status, j.fields, body); err != nil && j.failure == nil {
		j.failure = err
	}
}

var (
	nameReason      = []byte("X-Antirobot-Reason")
	nameContentType = []byte("Content-Type")
	textPlain       = []byte("text/plain; charset=utf-8")
)

const answerHeader = "X-Antirobot-Answer"

// learnAnswer takes a balancer's report of the service's answer, which shows what kind of path it is. A query that is
// the visitor's own could forge the report.
func (k *checkCall) learnAnswer(call *request.View) {
	if len(k.view.Query) > 0 && bytes.Equal(call.Query, k.view.Query) {
		k.refuse(400, "the query of the call is the visitor's own: the balancer must set it")
		return
	}
	var value []byte
	for i := range call.Fields {
		if !is(&call.Fields[i], answerHeader) {
			continue
		}
		if value != nil {
			k.refuse(400, answerHeader+" comes twice")
			return
		}
		value = call.Fields[i].Value
	}
	code, contentType, _ := bytes.Cut(bytes.TrimSpace(value), []byte{' '})
	status, err := strconv.Atoi(string(code))
	if err != nil || status < 100 || status > 999 {
		k.refuse(400, answerHeader+" must say status and type of the answer, such as: 200 text/html")
		return
	}
	k.core.deps.Resolver.Answered(k.view, k.svc.Identity, status, k.svc.drop)
	k.core.pages.note(k.svc.Name, k.view, status, bytes.TrimSpace(contentType))
	k.core.deps.Decider.Answered(k.view, k.svc.Verdict, status, bytes.TrimSpace(contentType))
	if r, ok := k.svc.Verdict.Rules.(verdict.AnswerRules); ok {
		r.Answered(k.view, &k.id, k.svc.Verdict, &verdict.Answer{
			Status:      status,
			ContentType: bytes.TrimSpace(contentType), Bytes: -1,
		})
	}
	k.answered = answerLearned
	k.fields = append(k.fields[:0], request.Field{Name: nameRequestID, Value: k.idText[:]})
	k.send(204, nil)
}
