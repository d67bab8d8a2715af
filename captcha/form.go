package captcha

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"antirobot/captcha/location"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
)

// saved is a form that is carried through its challenge, sealed into a hidden field of the page. It is sent on once,
// and only for its sender: otherwise another site's page could make a visitor's browser send it, and the visitor
// would get the response, including cookies, meant for another.
type saved struct {
	nonce   [16]byte
	subject identity.Subject // who sent it
	mark    string           // their probe cookie
	grant   string           // the decision of the message rules that asked for the captcha; empty: they were not run
	reason  templates.Reason // why it was asked for
	require Step             // what the service asked for
	written string           // what its sender wrote, as far as the page shows it
	request SavedRequest
}

const (
	savedVersion = 4
	// maxWritten bounds the text on the page, in bytes.
	maxWritten = 2000
	// maxSavedHead bounds target and header fields of a saved request, in bytes.
	maxSavedHead = 16 << 10
	// requireShift is where the byte of the reason holds the step that the service asked for.
	requireShift = 4
)

func keptFields() []string {
	return []string{"User-Agent", "Accept", "Accept-Language", "Accept-Encoding", "Authorization"}
}

// sealed says whether a field of the form's own request is carried with it. Credentials are sealed if the form had
// them.
func sealed(v *request.View, name string) bool {
	for _, answering := range []string{"User-Agent", "Accept", "Accept-Language", "Accept-Encoding"} {
		if request.EqualFold([]byte(name), answering) {
			return false
		}
	}
	return Carried(v, name)
}

// Carried says whether a field belongs to the request as sent: all but those of the connection and those that the
// gateway sets.
func Carried(v *request.View, name string) bool {
	for _, own := range []string{
		"Host", "Content-Length", "Transfer-Encoding", "TE", "Trailer",
		"Connection", "Keep-Alive", "Upgrade", "Expect", "Via", "Forwarded", "X-Real-IP", "X-Request-Id",
	} {
		if request.EqualFold([]byte(name), own) {
			return false
		}
	}
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "x-forwarded-") || strings.HasPrefix(lower, "x-antirobot-") ||
		strings.HasPrefix(lower, "proxy-") {
		return false
	}
	for nominated := range strings.SplitSeq(string(v.Get("Connection")), ",") {
		if strings.ToLower(strings.TrimSpace(nominated)) == lower {
			return false
		}
	}
	return true
}

func capture(q *Request, mark, grant string) (s saved, ok bool) {
	s = saved{
		nonce: spravka.NewID(), subject: q.ID.Winner(), mark: mark, grant: grant, reason: q.Reason,
		require: q.Require, written: beginning(q.Written),
		request: SavedRequest{Method: q.method(), Target: string(q.View.Target), Body: q.Body},
	}
	size := len(s.request.Target) + len(s.request.Method) + len(mark)
	for i := range q.View.Fields {
		f := &q.View.Fields[i]
		if name := string(f.Name); sealed(q.View, name) {
			s.request.Header = append(s.request.Header, HeaderField{name, string(f.Value)})
			size += len(name) + len(f.Value) + 8
		}
	}
	return s, size <= maxSavedHead
}

func beginning(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) <= maxWritten {
		return text
	}
	return strings.ToValidUTF8(text[:maxWritten-len("…")], "") + "…"
}

func (s *saved) append(dst []byte) []byte {
	dst = append(dst, savedVersion)
	dst = append(dst, s.nonce[:]...)
	dst = append(dst, byte(s.subject.Kind), byte(s.reason)|byte(s.require)<<requireShift)
	dst = append(dst, s.subject.ID[:]...)
	text := func(t string) {
		dst = binary.AppendUvarint(dst, uint64(len(t)))
		dst = append(dst, t...)
	}
	text(s.mark)
	text(s.grant)
	text(s.written)
	text(s.request.Method)
	text(s.request.Target)
	dst = binary.AppendUvarint(dst, uint64(len(s.request.Header)))
	for _, f := range s.request.Header {
		text(f.Name)
		text(f.Value)
	}
	return append(dst, s.request.Body...)
}

var errSaved = errors.New("sealed request is malformed")

func parseSaved(b []byte) (s saved, err error) {
	if len(b) < 35 || b[0] != savedVersion {
		return saved{}, errSaved
	}
	copy(s.nonce[:], b[1:])
	s.subject.Kind = identity.Kind(b[17])
	s.reason, s.require = templates.Reason(b[18]&(1<<requireShift-1)), Step(b[18]>>requireShift)
	copy(s.subject.ID[:], b[19:])
	b = b[35:]
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			err = errSaved
			return 0
		}
		b = b[size:]
		return n
	}
	text := func() string {
		n := number()
		if err != nil || n > uint64(len(b)) {
			err = errSaved
			return ""
		}
		t := string(b[:n])
		b = b[n:]
		return t
	}
	s.mark, s.grant, s.written = text(), text(), text()
	s.request.Method, s.request.Target = text(), text()
	fields := number()
	for range fields {
		if err != nil {
			return saved{}, err
		}
		s.request.Header = append(s.request.Header, HeaderField{text(), text()})
	}
	s.request.Body = b
	return s, err
}

// sameSender reports whether q comes from the form's sender: they share a verified identity, or the browser's mark,
// which survives a change of networks.
func (s *saved) sameSender(q *Request, p probeState) bool {
	if p.returned && sameSecret(p.mark, s.mark) {
		return true
	}
	for i := range q.ID.N {
		if q.ID.Subjects[i] == s.subject {
			return true
		}
	}
	return false
}

// forms carries forms through their challenges.
type forms struct {
	*asks
}

// ChallengeForm returns the captcha page instead of a redirect: the page carries the form's request, or says before
// the visitor starts that it is too large to be carried.
func (c *Captcha) ChallengeForm(q *Request) Response { return c.forms.challengeForm(q, "") }

func (fs *forms) challengeForm(q *Request, grant string) Response {
	if q.framedElsewhere() {
		return fs.asks.framed(q)
	}
	at := fs.now()
	fs.count.shown["form"].Inc()
	pr := fs.probes.probeOf(q)
	s, ok := capture(q, pr.mark, grant)
	if !ok || q.BodyTooLarge || int64(len(q.Body)) > fs.cfg.FormMaxBytes {
		return fs.asks.tooLargePage(q, nil, templates.ProblemNone, at)
	}
	token := fs.keys.Ring().SealSecret(nil, spravka.PurposeSaved, q.savedContext(), s.append(nil), at.Add(formTTL))
	asked := fs.askForm(q, at)
	asked.move = fs.asks.mayMove(q, q.Reason, q.least(), false)
	if wait := fs.prices.exhausted(q, asked.step, at); wait > 0 && !asked.move {
		a := fs.limitedForm(q, nil, string(token), wait, nil)
		fs.probes.probe(q, &a, pr)
		return a
	}
	q.Written = s.written
	return fs.formPage(q, nil, string(token), asked, pr, templates.ProblemNone, at)
}

func (fs *forms) askForm(q *Request, at time.Time) question {
	asked := fs.ladder.ask(q, q.least(), at)
	asked.way = wayForm
	return asked
}

func (fs *forms) formPage(
	q *Request, p *params, token string, asked question, pr probeState, problem templates.Problem, at time.Time,
) Response {
	lang := fs.pages.language(q, p)
	lost := fs.probes.cookiesLost(q, pr, at)
	if !lost && asked.move {
		return fs.checkingForm(q, p, token, asked, at)
	}
	if !lost && asked.step < stepDigits && (p == nil || pr.returned && p.step == "" && p.fresh == "") {
		return fs.checkingForm(q, p, token, asked, at)
	}
	key, moves := fs.asks.reading(q, p, asked, "", at)
	if moves {
		asked.way = wayDynamic
	}
	if p == nil || key != p.key {
		fs.watch.noteShown(q, asked.way, at)
	}
	page := fs.asks.challenge(q, lang, key)
	if moves {
		fs.asks.showMoving(q, page, lang, asked, "", at)
	}
	page.Problem, page.Reason = problem, q.Reason
	page.FormKept, page.Written, page.OverURL = true, q.Written, fs.links.overURL(q, at)
	page.CookiesLost = lost
	page.CookiesOff = p != nil && !pr.returned
	page.Hidden = append(page.Hidden, hidden(fieldSaved, token))
	a := fs.pages.html(q, 200, verdictCaptcha, lang)
	// Without fetch metadata, on plain http or in older browsers, only Origin shows that this page sent the answer,
	// and no-referrer would make it "null". This policy still tells other origins nothing.
	a.set("Referrer-Policy", "same-origin")
	fs.probes.probe(q, &a, pr)
	if p != nil {
		fs.pages.rememberLang(q, &a, p)
	}
	return fs.asks.show(q, a, lang, page)
}

func (fs *forms) checkingForm(q *Request, p *params, token string, asked question, at time.Time) Response {
	page := fs.asks.checking(q, asked, "", at)
	page.FormKept, page.Reason, page.Written, page.OverURL = true, q.Reason, q.Written, fs.links.overURL(q, at)
	page.Hidden = append(page.Hidden, hidden(fieldSaved, token))
	return fs.asks.showChecking(q, p, page, asked, "same-origin", at)
}

// tooLargePage says that a form can't be carried; after the right answer it must be sent again.
func (ak *asks) tooLargePage(q *Request, p *params, problem templates.Problem, at time.Time) Response {
	lang := ak.pages.language(q, p)
	ak.watch.noteShown(q, wayPage, at)
	page := ak.challenge(q, lang, ak.issuer.issueDigits(q, question{step: stepDigits}, "", at))
	page.Problem, page.Reason = problem, q.Reason
	page.FormTooLarge = true
	page.Hidden = append(page.Hidden, hidden(fieldBack, "1"))
	a := ak.pages.html(q, 200, verdictCaptcha, lang)
	if p != nil {
		ak.pages.rememberLang(q, &a, p)
	}
	return ak.show(q, a, lang, page)
}

// limitedForm makes a visitor with a carried form wait: the page carries it on, with the answer if r has a right one
// that is not spent.
func (fs *forms) limitedForm(q *Request, p *params, token string, wait time.Duration, r *result) Response {
	fields := []templates.HiddenField{hidden(fieldSaved, token)}
	switch {
	case r == nil || !r.early:
		fields = append(fields, hidden(fieldFresh, "1"))
	case p.proof != "":
		fields = append(fields, hidden("key", p.key), hidden("rep", p.rep), hidden(fieldProof, p.proof))
	default:
		fields = append(fields, hidden("key", p.key), hidden("rep", p.rep))
	}
	if p != nil && p.lang != "" {
		fields = append(fields, hidden("lang", p.lang))
	}
	a := fs.pages.messagePage(q, p, 429, verdictCaptcha, &templates.MessagePage{
		Message: templates.Limited, Wait: wait, SendURL: q.prefix() + "/checkcaptcha", Hidden: fields,
	})
	a.set("Referrer-Policy", "same-origin") // the form says where it comes from
	a.after(wait)
	a.Outcome = OutcomeLimited
	return a
}

func (fs *forms) checkForm(q *Request, p *params, at time.Time) Response {
	pr := fs.probes.probeOf(q)
	s, err := fs.openSaved(q, p.saved, at)
	page := q.answeringPage()
	if err != nil || page == pageForeign || !s.sameSender(q, pr) {
		return fs.pages.message(q, p, 410, verdictCaptcha, templates.FormExpired, "")
	}
	q.Reason, q.Require, q.Written = s.reason, s.require, s.written
	if fs.wasSent(q, &s) { // a reload of its answer
		a := fs.pages.message(q, p, 409, verdictCaptcha, templates.FormSent, s.cameFrom(q))
		fs.answers.repeat(q, p, &a, at)
		return a
	}
	if p.fresh != "" || p.toLang != "" || p.step != "" { // another picture, language or step: nothing was answered
		asked := fs.askForm(q, at)
		if wait := fs.prices.exhausted(q, p.chose(asked.step), at); wait > 0 {
			return fs.limitedForm(q, p, p.saved, wait, nil)
		}
		p.step, p.key = fs.asks.instead(q, p, at), ""
		return fs.formPage(q, p, p.saved, asked, pr, templates.ProblemNone, at)
	}
	r := fs.answers.judge(q, channelPage, p, at)
	if r.state == stateLimited {
		a := fs.limitedForm(q, p, p.saved, r.wait, &r)
		r.note(&a)
		return a
	}
	p.step, p.key = fs.asks.instead(q, p, at), ""
	if r.state == stateNext {
		p.key = fs.issuer.seal(q, r.next, "", at)
	}
	var a Response
	switch r.state {
	case stateSolved, stateMoved, stateHas, stateLost:
		var back bool
		if a, back = fs.comeBack(q, &s, page, pr, at); !back {
			a = fs.resend(q, p, s, page, at)
		}
		if r.state != stateHas {
			fs.answers.addPass(q, &a, &r)
			fs.probes.noteSolved(q, &a, at)
		}
	case stateUnavailable:
		a = fs.formPage(q, p, p.saved, fs.askForm(q, at), pr, templates.ProblemExpired, at)
	default:
		a = fs.formPage(q, p, p.saved, fs.askForm(q, at), pr, r.problem(), at)
	}
	r.note(&a)
	return a
}

func (fs *forms) openSaved(q *Request, token string, at time.Time) (saved, error) {
	b, err := fs.keys.Ring().OpenSecret(nil, spravka.PurposeSaved, q.savedContext(), []byte(token), at)
	if err != nil {
		return saved{}, err
	}
	return parseSaved(b)
}

// resend sends the form on, once: its nonce is durably spent first.
func (fs *forms) resend(q *Request, p *params, s saved, page answeringPage, at time.Time) Response {
	ctx, cancel := context.WithTimeout(context.Background(), fs.patience)
	defer cancel()
	first := fs.answers.spent.Add(s.nonce, at)
	if first {
		var known bool
		first, known = fs.spend(ctx, q, append([]byte("captcha/form/"), s.nonce[:]...), formTTL, true, "spend a form")
		if !known {
			return fs.pages.message(q, p, 503, verdictCaptcha, templates.Unavailable, "")
		}
	}
	if !first {
		return fs.pages.message(q, p, 409, verdictCaptcha, templates.FormSent, s.cameFrom(q))
	}
	_, _ = fs.store.Incr(
		ctx, sentKey(s.nonce), 1, formTTL,
	) // if this fails, a reload gets one more challenge before it is told
	fs.count.resent.Inc()
	for _, name := range keptFields() {
		if name == "Authorization" && (page != pageOwn || s.has(name)) {
			continue
		}
		if v := q.View.Get(name); v != nil {
			s.request.Header = append(s.request.Header, HeaderField{name, string(v)})
		}
	}
	s.request.Grant = s.grant
	return Response{Resend: &s.request}
}

func sentKey(nonce [16]byte) []byte { return append([]byte("captcha/sent/"), nonce[:]...) }

// wasSent reports whether a form was sent on: a reload of its response is not challenged again.
func (fs *forms) wasSent(q *Request, s *saved) bool {
	ctx, cancel := context.WithTimeout(context.Background(), fs.patience)
	defer cancel()
	n, err := fs.store.Incr(ctx, sentKey(s.nonce), 0, formTTL)
	return err == nil && n > 0
}

func (s *saved) has(name string) bool {
	for _, f := range s.request.Header {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

func (s *saved) cameFrom(q *Request) string {
	for _, f := range s.request.Header {
		if path, ok := strings.CutPrefix(f.Value, q.Base+"/"); ok && strings.EqualFold(f.Name, "Referer") {
			return q.Base + "/" + path
		}
	}
	return q.Base + "/"
}

// answeringPage says, by its origin, which page sent the answer to a carried form. A browser adds the credentials of
// our origin to any request that a page makes it send, while the sealed fields claim that the service's own page sent
// it. So the answer must come from our own page.
type answeringPage uint8

const (
	pageUnknown answeringPage = iota // not a current browser: nothing says where the answer comes from
	pageOwn
	pageForeign
)

func (q *Request) answeringPage() answeringPage {
	if q.method() != "POST" {
		return pageForeign // any page's link or picture could do this
	}
	if site := string(q.View.Get("Sec-Fetch-Site")); site != "" {
		return pageIf(site == "same-origin") // the browser's own statement about the requested URL
	}
	if origin := string(q.View.Get("Origin")); origin != "" {
		return pageIf(q.isOwnOrigin(origin)) // "null" is a page that hides its origin
	}
	if referer := string(q.View.Get("Referer")); referer != "" {
		return pageIf(q.isOwnOrigin(referer))
	}
	return pageUnknown
}

func pageIf(own bool) answeringPage {
	if own {
		return pageOwn
	}
	return pageForeign
}

func (q *Request) isOwnOrigin(rawURL string) bool {
	theirs, ok := location.Parse(rawURL)
	ours, known := location.Parse(q.Base)
	return ok && known && theirs.Scheme == ours.Scheme && theirs.Host == ours.Host && theirs.Port == ours.Port
}

func (q *Request) savedContext() []byte {
	return spravka.AppendContext(nil, q.Service.name, string(request.AppendLower(nil, q.Base)))
}

// A carried form comes back to its own address. After the right answer a browser that keeps cookies is sent there
// with 307, which repeats the captcha page's form, and with a cookie that says that the form was answered; then the
// carried request is sent on. So the response stands under the service's own URL, and a reload finds that the form
// was sent.

const (
	formCookie  = "antirobot_form"
	formVersion = 2 // distinct from grantVersion
)

// comeBack sends a browser with a right answer to the address of its form. ok is false if the form has to be sent on
// at once: without cookies, without a browser, or where a balancer sends others past the gateway.
func (fs *forms) comeBack(q *Request, s *saved, page answeringPage, pr probeState, at time.Time) (a Response, ok bool) {
	if q.Beside || !pr.returned || page != pageOwn || !strings.HasPrefix(s.request.Target, "/") {
		return Response{}, false
	}
	path, _, _ := strings.Cut(s.request.Target, "?")
	if q.Service.Route([]byte(path)) != EndpointNone {
		return Response{}, false
	}
	if !plainPath(path) {
		path = "/"
	}
	b := append([]byte{formVersion}, s.nonce[:]...)
	token := fs.keys.Ring().Seal(nil, spravka.PurposeGrant, q.keyContext(), b, at.Add(formTTL))
	a = fs.pages.own(q, 307, "", verdictCaptcha)
	a.add("Location", q.Base+s.request.Target)
	cookie := spravka.Cookie{
		Name: formCookie, Value: token, Path: path, MaxAge: formTTL, Secure: q.secure(), SameSite: "Lax",
	}
	a.add("Set-Cookie", string(cookie.Append(nil)))
	return a, true
}

// plainPath reports whether a path can stand in a cookie and is the same to every browser.
func plainPath(path string) bool {
	return path == "/" || len(path) < 256 && validPrefix(strings.TrimSuffix(path, "/")) && !strings.Contains(path, "/.")
}

// CarriesForm reports whether a request may bring back a carried form; Resume decides.
func (c *Captcha) CarriesForm(v *request.View) bool {
	if string(v.Method) != "POST" ||
		!request.HasPrefixFold(v.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return false
	}
	_, ok := v.Cookie(formCookie)
	return ok
}

// Resume answers a request that brings back a carried form; ok is false for any other request.
func (c *Captcha) Resume(q *Request) (a Response, ok bool) {
	if q.BodyTooLarge || q.Partner != nil {
		return Response{}, false
	}
	var p params
	p.urlencoded(string(q.Body)) // the query is the service's
	if p.saved == "" || p.key == "" {
		return Response{}, false
	}
	at := c.now()
	pr := c.probes.probeOf(q)
	s, err := c.forms.openSaved(q, p.saved, at)
	if err != nil && !errors.Is(err, spravka.ErrExpired) {
		return Response{}, false // a field of the service's own
	}
	page := q.answeringPage()
	if err != nil || page == pageForeign || !s.sameSender(q, pr) || s.request.Target != string(q.View.Target) {
		return c.pages.message(q, &p, 410, verdictCaptcha, templates.FormExpired, ""), true
	}
	if c.forms.wasSent(q, &s) {
		return c.pages.message(q, &p, 409, verdictCaptcha, templates.FormSent, s.cameFrom(q)), true
	}
	q.Reason, q.Require, q.Written = s.reason, s.require, s.written
	if !c.forms.wasAnswered(q, &s, at) {
		p.key = ""
		return c.forms.formPage(q, &p, p.saved, c.forms.askForm(q, at), pr, templates.ProblemNone, at), true
	}
	return c.forms.resend(q, &p, s, page, at), true
}

func (fs *forms) wasAnswered(q *Request, s *saved, at time.Time) bool {
	token, _ := q.View.Cookie(formCookie)
	b, err := fs.keys.Ring().Open(nil, spravka.PurposeGrant, q.keyContext(), token, at)
	return err == nil && len(b) == 1+len(s.nonce) && b[0] == formVersion && [16]byte(b[1:]) == s.nonce
}
