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

// ownPrefixes are fields that services trust, so that only the gateway may set them.
var ownPrefixes = [...]string{"x-antirobot-", "x-accel-", "x-forwarded-", "x-original-"}

var ownNames = [...]string{"forwarded", "x-real-ip", "x-request-id", "x-rewrite-url"}

// defaultDropFields name the client or the method for other gateways, networks and frameworks.
func defaultDropFields() []string {
	return []string{
		"Client-IP", "X-Client-IP", "True-Client-IP", "X-Cluster-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6",
		"Fastly-Client-IP", "X-Remote-IP", "X-Remote-Addr", "Proxy-Client-IP", "WL-Proxy-Client-IP", "X-ProxyUser-IP",
		"Incap-Client-IP",
		"X-Azure-ClientIP", "X-AppEngine-User-IP", "X-Envoy-External-Address", "X-HTTP-Method-Override",
		"X-HTTP-Method", "X-Method-Override", "Proxy",
	}
}

// fieldFilter drops client fields. It is immutable.
type fieldFilter struct {
	names   []string
	lengths uint64 // bit set
}

func newFieldFilter(names []string) *fieldFilter {
	f := &fieldFilter{names: names}
	for _, n := range names {
		f.lengths |= 1 << len(n)
	}
	return f
}

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

func clientMayNotSend(name []byte) bool {
	if len(name) == 0 || request.Lower(name[0]) != 'x' && request.Lower(name[0]) != 'f' {
		return false // the common case
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

// serviceMayNotSend reports whether an answer's field is dropped: the script in the page trusts it.
func serviceMayNotSend(name []byte) bool { return request.HasPrefixFold(name, "x-antirobot-") }

func serviceMayNotSendHSTS(name []byte) bool {
	return serviceMayNotSend(name) || len(name) == len(nameHSTS) && request.EqualFold(name, "Strict-Transport-Security")
}

// relay is the exchange with the service. Its functions are bound once.
type relay struct {
	*journey

	options         h1.ForwardOptions
	hold            func([]byte) bool
	head            func(h1.Result)
	onlySubresource func(int, []request.Field) bool
	noPage          func(int, []request.Field) bool
	unblocked       func() bool
	insertion       *insert.Insertion
	required        captcha.Step // by the withheld answer
	resent          bool         // the request was carried through a captcha
	sent            []request.Field
	own             [1]request.Field // fields for the visitor alone, which no shared cache keeps
	passed          []byte
}

func (j *relay) end() {
	clear(j.own[:])
	clear(j.sent)
	j.options, j.required = h1.ForwardOptions{}, 0
	if j.insertion != nil {
		j.insertion.Page = insert.Page{}
	}
}

func (j *relay) hsts() []byte {
	if j.svc == nil || j.svc.Config.HSTS == "" || j.id.Proto != "https" {
		return nil
	}
	return []byte(j.svc.Config.HSTS)
}

// forward relays the request and the answer. With a, the request sealed in it is sent instead, and a's fields (the new
// pass) are added.
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
		o.HoldHead = j.relay.onlySubresource
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

func (j *journey) unanswered(a *captcha.Response, err error) {
	r := j.reads()
	// not refused, so any form that it accepts will do
	if says := readerOf(j.view); r == captcha.ReadsText && says != captcha.ReadsNothing {
		r = says
	}
	down := j.snap.Captcha.Failed(j.request(), h1.Status(err), r)
	if a != nil { // the pass was earned
		down.Header = append(down.Header, a.Header...)
	}
	j.answer(down)
}

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

func (j *relay) appendMarks(dst []request.Field) []request.Field {
	d := &j.decision
	if j.svc.Verdict.Mode != verdict.Enforce { // d.Mode is observe for own pages
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

// A block cuts answers in progress. A ban does not: the person could not answer a challenge there, and would lose a
// download or a WebSocket.

// isUnblocked reports whether the visitor is still not blocked. Another goroutine may call it, so it does not change
// the journey.
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

// headOnly removes the body of a stopped client's preflight: browsers read the head alone, and services that answer
// OPTIONS like GET would give away all their pages.
type headOnly struct{}

func (headOnly) Head(_ int, fields []request.Field) ([]request.Field, bool) {
	return slices.DeleteFunc(fields, func(f request.Field) bool {
		return request.EqualFold(f.Name,
			"Content-Encoding")
	}), true
}

// spareBody is the largest body that is read to keep the service's connection, in bytes.
const spareBody = 64 << 10

func (headOnly) Body(_ io.Writer, r io.Reader) error {
	_, err := io.CopyN(io.Discard, r, spareBody)
	if err == io.EOF { //nolint:errorlint // bare
		return nil
	}
	return err
}

func (headOnly) Flush() error { return nil }

// inserting puts the script's tag into a page that a browser opens, and requests an encoding that it can open.
func (j *relay) inserting(o *h1.ForwardOptions) {
	script, extends := j.svc.Captcha.Inserts()
	if script == "" || !j.opensPage() {
		return
	}
	if j.insertion == nil {
		j.insertion = &insert.Insertion{}
	}
	host, mount := j.outside()
	if len(mount) > 0 {
		script = string(mount) + script
	}
	j.insertion.Page = insert.Page{
		Script: script, Scheme: j.id.Proto, Host: host, Extend: extends,
		NoneMatch: j.view.Get("If-None-Match"), Reserve: j.x.Reserve, Told: j.inserted,
	}
	o.Rewrite = j.insertion
	if a := insert.Accepts(j.view.Get("Accept-Encoding")); a != nil {
		o.SetFields = append(o.SetFields, request.Field{Name: nameAcceptEncoding, Value: a})
		j.sent = o.SetFields
	}
}

func (j *relay) opensPage() bool {
	v := j.view
	if m := string(v.Method); m != "GET" && m != "HEAD" || j.decision.Cause == verdict.CauseWhite ||
		j.decision.Cause == verdict.CauseOff {
		return false
	}
	if dest := v.Get("Sec-Fetch-Dest"); len(dest) > 0 && string(dest) != "document" {
		return false // a frame
	}
	return j.kind() == kindPage && !insert.ForbidsTransform(v.Get("Cache-Control"))
}

const forbiddenEvery = 3600

func (j *relay) inserted(r insert.Result) {
	m := j.svc.metrics
	m.inserted[r].Inc()
	if r != insert.Policy {
		return
	}
	if last, now := m.forbidden.Load(), j.view.At.Unix(); now-last >= forbiddenEvery &&
		m.forbidden.CompareAndSwap(last, now) {
		j.core.deps.Log.Warn().Str("service", j.svc.Name).Bytes("path", j.view.Path).
			Msg("the page's Content-Security-Policy forbids the script of captcha.evidence_insert: nothing is put " +
				"into it")
	}
}

var nameAcceptEncoding = []byte("Accept-Encoding")
