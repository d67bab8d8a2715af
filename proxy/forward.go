package proxy

import (
	"errors"
	"io"
	"slices"

	"antirobot/captcha"
	"antirobot/proxy/h1"
	"antirobot/proxy/insert"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/label"
)

// ownPrefixes are the fields that only the gateway may set on the way to a service: the service would trust them even if a
// client sent them.
var ownPrefixes = [...]string{"x-antirobot-", "x-accel-", "x-forwarded-", "x-original-"}

// ownNames are further such fields.
var ownNames = [...]string{"forwarded", "x-real-ip", "x-request-id", "x-rewrite-url"}

// defaultDropFields are fields that other gateways, networks and frameworks set and trust: for the client's identity and
// the method.
func defaultDropFields() []string {
	return []string{
		"Client-IP", "X-Client-IP", "True-Client-IP", "X-Cluster-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6",
		"Fastly-Client-IP", "X-Remote-IP", "X-Remote-Addr", "Proxy-Client-IP", "WL-Proxy-Client-IP", "X-ProxyUser-IP", "Incap-Client-IP",
		"X-Azure-ClientIP", "X-AppEngine-User-IP", "X-Envoy-External-Address", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "Proxy",
	}
}

// fieldFilter decides which client fields are not passed on. It is immutable.
type fieldFilter struct {
	names   []string
	lengths uint64 // bit set of the names' lengths
}

func newFieldFilter(names []string) *fieldFilter {
	f := &fieldFilter{names: names}
	for _, n := range names {
		f.lengths |= 1 << len(n)
	}
	return f
}

// drops reports whether a client's request field is not passed on.
func (f *fieldFilter) drops(name []byte) bool {
	if clientMayNotSend(name) {
		return true
	}
	if len(name) > maxDropName || f.lengths&(1<<len(name)) == 0 {
		return false
	}
	for _, n := range f.names {
		if request.EqualCGI(name, n) {
			return true
		}
	}
	return false
}

// clientMayNotSend reports whether a request field is one of those that are always the gateway's own.
func clientMayNotSend(name []byte) bool {
	if len(name) == 0 || request.Lower(name[0]) != 'x' && request.Lower(name[0]) != 'f' {
		return false // most end here: all of them begin so
	}
	for _, p := range ownPrefixes {
		if request.HasPrefixCGI(name, p) {
			return true
		}
	}
	for _, n := range ownNames {
		if request.EqualCGI(name, n) {
			return true
		}
	}
	return false
}

// serviceMayNotSend reports whether an answer's field is not passed on: the script in the page trusts it.
func serviceMayNotSend(name []byte) bool { return request.HasPrefixFold(name, "x-antirobot-") }

// serviceMayNotSendHSTS is serviceMayNotSend where the gateway has a Strict-Transport-Security of its own.
func serviceMayNotSendHSTS(name []byte) bool {
	return serviceMayNotSend(name) || len(name) == len(nameHSTS) && request.EqualFold(name, "Strict-Transport-Security")
}

// relay is what a journey tells its service, and makes of the service's answer. The functions are bound once.
type relay struct {
	*journey

	options   h1.ForwardOptions
	hold      func([]byte) bool               // withholds
	head      func(h1.Result)                 // journey.begun
	onlyPart  func(int, []request.Field) bool // journey.onlyParts
	noPage    func(int, []request.Field) bool // journey.holdsPage
	unblocked func() bool                     // isUnblocked
	insertion *insert.Insertion               // into the page that the service answers with
	required  captcha.Step                    // what the service's withheld answer asks for
	resent    bool                            // the request was carried through a captcha
	sent      []request.Field                 // to the service
	own       [1]request.Field                // in an answer that no shared cache may keep
	passed    []byte                          // what the service is told about the visitor's pass
}

func (j *relay) end() {
	clear(j.own[:])
	clear(j.sent)
	j.options, j.required = h1.ForwardOptions{}, 0
	if j.insertion != nil {
		j.insertion.Page = insert.Page{}
	}
}

// hsts returns the Strict-Transport-Security of the answer; nil: it gets none of ours.
func (j *relay) hsts() []byte {
	if j.svc == nil || j.svc.Config.HSTS == "" || j.id.Proto != "https" {
		return nil
	}
	return []byte(j.svc.Config.HSTS)
}

// forward sends the request to the service and returns its answer. If a is set, the sealed request in it is sent instead,
// once, and a's fields (the new pass) are added to the service's answer.
func (j *journey) forward(a *captcha.Response) {
	o := &j.relay.options
	*o = h1.ForwardOptions{
		SetFields:    j.relay.appendPassed(j.relay.upstreamFields(), a),
		Drop:         j.svc.drop,
		DropAnswer:   serviceMayNotSend,
		Read:         label.Field,
		DropCookies:  j.svc.ownCookies,
		MaxBodyBytes: j.svc.Config.MaxBody,
		HeadTimeout:  j.svc.Config.ResponseTimeout,
		AddAnswer:    j.relay.answerFields(a),
		Head:         j.relay.head,
	}
	if hsts := j.relay.hsts(); hsts != nil {
		o.AddAnswer = append(o.AddAnswer, request.Field{Name: nameHSTS, Value: hsts})
		o.DropAnswer = serviceMayNotSendHSTS
	}
	if j.svc.Captcha.Requires() {
		o.HoldField, o.Hold = captcha.RequireField, j.relay.hold
	}
	if j.decision.Cause != verdict.CauseOff {
		o.GoOn = j.relay.unblocked
	}
	j.relay.inserting(o)
	if j.decision.Stops() && j.kind() == kindPreflight {
		o.Rewrite = headOnly{}
	}
	switch {
	case j.part:
		o.HoldHead = j.relay.onlyPart
	case j.embed && j.decision.Judged():
		o.HoldHead = j.relay.noPage
	}
	robots := j.relay.readingRobots(o)
	if j.relay.resent = a != nil; j.relay.resent {
		o.Replay = replay(a.Resend)
	} else {
		o.AddPrivate = j.relay.cookieFields()
		j.relay.keepForm()
	}
	var err error
	j.result, err = j.x.Forward(j.svc.Upstream, o)
	j.status = j.result.Status
	if j.result.Held && j.part {
		j.enforce()
		return
	}
	if j.result.Held && j.declined {
		j.answer(j.crossSite())
		return
	}
	if j.result.Held {
		j.require()
		return
	}
	if err == nil {
		if robots != nil {
			j.relay.readRobots(robots)
		}
		return
	}
	j.failure = err
	if j.x.Answered() || errors.Is(err, h1.ErrClientGone) {
		return
	}
	j.svc.metrics.failed.Inc()
	j.unanswered(a, err)
}

// unanswered is the gateway's own answer when a service gave none.
func (j *journey) unanswered(a *captcha.Response, err error) {
	r := j.reads()
	if says := readerOf(j.view); r == captcha.ReadsText && says != captcha.ReadsNothing { // nobody is refused: what it accepts will do
		r = says
	}
	down := j.snap.Captcha.Failed(j.request(), h1.Status(err), r)
	if a != nil { // the pass was earned, whatever happened at the service
		down.Header = append(down.Header, a.Header...)
	}
	j.answer(down)
}

// upstreamFields are what the gateway tells the service, in place of anything that the client sent under these names.
func (j *relay) upstreamFields() []request.Field {
	j.scratch = j.id.Addr.AppendTo(j.scratch[:0])
	j.sent = append(j.sent[:0],
		request.Field{Name: nameForwardedFor, Value: j.scratch},
		request.Field{Name: nameForwardedHost, Value: j.view.HostPort},
		request.Field{Name: nameForwardedProto, Value: protoBytes(j.id.Proto)},
		request.Field{Name: nameRealIP, Value: j.scratch},
		request.Field{Name: nameRequestID, Value: j.idText[:]},
	)
	if len(j.view.Client) > 0 {
		j.sent = append(j.sent, request.Field{Name: nameClient, Value: j.view.Client})
	}
	if j.svc.Config.TellService {
		j.sent = append(j.sent, request.Field{Name: nameVerdict, Value: verdictNames[j.decision.Told()]})
	}
	j.sent = j.appendTrace(j.appendMarks(j.sent))
	return j.sent
}

// appendMarks appends what the service is told about the rules' decisions.
func (j *relay) appendMarks(dst []request.Field) []request.Field {
	d := &j.decision
	if j.svc.Verdict.Mode != verdict.Enforce { // not that of the decision: an own page's is made as in mode observe
		return dst
	}
	for _, r := range [...]*verdict.Ruling{d.Rules, d.Message} {
		if r != nil && (r.Action == verdict.RuleMark || r.Granted) {
			dst = append(dst, request.Field{Name: nameMark, Value: r.AppendMark(nil)})
		}
	}
	return dst
}

// answerFields are added to the service's answer: the new pass, or a fresh pass for a partner's user.
func (j *relay) answerFields(a *captcha.Response) []request.Field {
	j.fields = j.moderation.messageFields(j.fields[:0])
	if a != nil {
		j.fields = appendFields(j.fields, a.Header)
		return j.fields
	}
	if j.partner != nil {
		if fresh, ok := j.snap.Captcha.FreshPass(j.request()); ok {
			j.fields = append(j.fields, request.Field{Name: nameSetCookie, Value: []byte(fresh.Value)})
		}
		return j.fields
	}
	return j.fields
}

// cookieFields are the visitor's own cookie, if it gets one: a shared cache must not hand it to others.
func (j *relay) cookieFields() []request.Field {
	if j.partner != nil {
		return nil
	}
	cookie := j.Cookie()
	if cookie == nil {
		return nil
	}
	j.own[0] = request.Field{Name: nameSetCookie, Value: cookie}
	return j.own[:]
}

func protoBytes(proto string) []byte {
	if proto == "https" {
		return schemeHTTPS
	}
	return schemeHTTP
}

func replay(r *captcha.SavedRequest) *h1.Request {
	return &h1.Request{
		Method: []byte(r.Method), Target: []byte(r.Target), Fields: appendFields(nil, r.Header), Body: r.Body,
	}
}

var (
	nameForwardedFor   = []byte("X-Forwarded-For")
	nameForwardedHost  = []byte("X-Forwarded-Host")
	nameForwardedProto = []byte("X-Forwarded-Proto")
	nameRealIP         = []byte("X-Real-IP")
	nameRequestID      = []byte("X-Request-Id")
	nameClient         = []byte("X-Antirobot-Client")
	nameVerdict        = []byte("X-Antirobot-Verdict")
	nameMark           = []byte("X-Antirobot-Mark")
	nameSetCookie      = []byte("Set-Cookie")
	nameHSTS           = []byte("Strict-Transport-Security")
	nameCacheControl   = []byte("Cache-Control")
	noStore            = []byte("no-store")

	schemeHTTP, schemeHTTPS = []byte("http"), []byte("https")

	verdictNames = [...][]byte{[]byte("human"), []byte("unsure"), []byte("robot"), []byte("blocked")}
)

// A block cuts what has begun: operators, or lists that they chose, say that the client gets nothing more. A ban does not: a person could
// answer no challenge there, and would lose a download or a conversation.

// isUnblocked reports whether the visitor is not blocked since, and logs it otherwise. It changes nothing of the journey: in a tunnel another
// goroutine may ask.
func (j *relay) isUnblocked() bool {
	by := j.core.deps.Decider.Blocks(j.view, &j.id, j.svc.Verdict)
	if by == "" {
		return true
	}
	j.core.deps.Log.Info().Bytes("request_id", j.idText[:]).Str("service", j.svc.Name).Stringer("client", j.id.Addr).
		Stringer("verdict", verdict.Blocked).Str("reason", by).
		Msg("answer cut")
	return false
}

// headOnly takes the body out of the answer to a preflight of a stopped client: browsers read the head alone, and services that answer
// OPTIONS like GET would give a robot all their pages.
type headOnly struct{}

// Head implements h1.Rewriter.
func (headOnly) Head(_ int, fields []request.Field) ([]request.Field, bool) {
	return slices.DeleteFunc(fields, func(f request.Field) bool { return request.EqualFold(f.Name, "Content-Encoding") }), true
}

// spareBody is the largest body that is read, in bytes, so that the service's connection can serve another request.
const spareBody = 64 << 10

// Body implements h1.Rewriter.
func (headOnly) Body(_ io.Writer, r io.Reader) error {
	_, err := io.CopyN(io.Discard, r, spareBody)
	if err == io.EOF { //nolint:errorlint // the reader returns it bare
		return nil
	}
	return err
}

// Flush implements h1.Rewriter.
func (headOnly) Flush() error { return nil }
