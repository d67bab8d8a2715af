package captcha

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
)

// saved is a form that is carried through its challenge, sealed into a hidden field of the page. It is sent on once, and
// only for whoever sent it: otherwise somebody else's page could make a visitor's browser send it, and the visitor would
// get the answer, including cookies, meant for another.
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
	// savedBefore is the version without what was written: pages of a gateway before an update still bring it.
	savedBefore = 3
	// maxWritten bounds what the page shows of what was written, in bytes.
	maxWritten = 2000
	// maxSavedHead bounds target and header fields of a saved request, in bytes.
	maxSavedHead = 16 << 10
	// requireShift is where the byte of the reason holds the step that the service asked for.
	requireShift = 4
)

// keptFields are taken from the request that answers, which comes from the same browser; all others of the form's own
// request are sealed, so that what is delivered is what was sent.
func keptFields() []string {
	return []string{"User-Agent", "Accept", "Accept-Language", "Accept-Encoding", "Authorization"}
}

// sealed says whether a field of the form's own request is carried with it: all but those of the connection, those that
// the gateway sets itself, and those that come with the answer. Credentials are sealed where the form had them.
func sealed(v *request.View, name string) bool {
	for _, answering := range []string{"User-Agent", "Accept", "Accept-Language", "Accept-Encoding"} {
		if request.EqualFold([]byte(name), answering) {
			return false
		}
	}
	return Carried(v, name)
}

// Carried says whether a field of a request is part of what was sent: all but those of the connection, and those that the
// gateway sets itself.
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
	if strings.HasPrefix(lower, "x-forwarded-") || strings.HasPrefix(lower, "x-antirobot-") || strings.HasPrefix(lower, "proxy-") {
		return false
	}
	for nominated := range strings.SplitSeq(string(v.Get("Connection")), ",") {
		if strings.ToLower(strings.TrimSpace(nominated)) == lower {
			return false
		}
	}
	return true
}

// capture copies what will be sealed; ok is false if it is too large.
func capture(q *Request, mark, grant string) (s saved, ok bool) {
	s = saved{nonce: spravka.NewID(), subject: q.ID.Winner(), mark: mark, grant: grant, reason: q.Reason, require: q.Require, written: beginning(q.Written), request: SavedRequest{
		Method: q.method(), Target: string(q.View.Target), Body: q.Body,
	}}
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

// beginning returns the beginning of a text as the page shows it.
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
	if len(b) < 35 || b[0] != savedVersion && b[0] != savedBefore {
		return saved{}, errSaved
	}
	before := b[0] == savedBefore
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
	s.mark, s.grant = text(), text()
	if !before {
		s.written = text()
	}
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

// sameSender reports whether the form's sender is the one who answers now: they share a verified identity, or the browser's
// mark, which survives a change of networks.
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

// ChallengeForm returns the captcha page directly instead of a redirect, for a form: the page carries the form's request,
// or says before the visitor starts solving that it is too large to be carried.
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

// askForm is ask for a page that carries a request.
func (fs *forms) askForm(q *Request, at time.Time) question {
	asked := fs.ladder.ask(q, q.least(), at)
	asked.way = wayForm
	return asked
}

// formPage is a page that carries a request, with the question that askForm has chosen.
func (fs *forms) formPage(q *Request, p *params, token string, asked question, pr probeState, problem templates.Problem, at time.Time) Response {
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
	// Without fetch metadata, on plain http or in older browsers, only Origin shows that this very page sent the answer,
	// and no-referrer would make it "null". This policy still tells other origins nothing.
	a.set("Referrer-Policy", "same-origin")
	fs.probes.probe(q, &a, pr)
	if p != nil {
		fs.pages.rememberLang(q, &a, p)
	}
	return fs.asks.show(q, a, lang, page)
}

// overURL is where a page that carries a request asks whether its answer was right.
func (ls *links) overURL(q *Request, at time.Time) string {
	l := ls.signLink(q, q.Base+"/", false, at)
	return q.Service.showURL(&l)
}

// tooLargePage is the page for a form that can't be carried: it says so, and after the right answer asks the visitor to go
// back and send the form again.
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

// checkForm answers a page that carries a request: on to the service, or the page again with a new picture.
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
	_, _ = fs.store.Incr(ctx, sentKey(s.nonce), 1, formTTL) // if this fails, a reload gets one more challenge before it is told
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

// sentKey marks a form as sent on, for checks that must not spend anything.
func sentKey(nonce [16]byte) []byte { return append([]byte("captcha/sent/"), nonce[:]...) }

// wasSent reports whether a form was sent on: a visitor who reloads its answer is told so, and not challenged again.
func (fs *forms) wasSent(q *Request, s *saved) bool {
	ctx, cancel := context.WithTimeout(context.Background(), fs.patience)
	defer cancel()
	n, err := fs.store.Incr(ctx, sentKey(s.nonce), 0, formTTL)
	return err == nil && n > 0
}

// has says whether the form's own request had a field.
func (s *saved) has(name string) bool {
	for _, f := range s.request.Header {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

// cameFrom is the page of the service that contained the form, or the service's start page.
func (s *saved) cameFrom(q *Request) string {
	for _, f := range s.request.Header {
		if path, ok := strings.CutPrefix(f.Value, q.Base+"/"); ok && strings.EqualFold(f.Name, "Referer") {
			return q.Base + "/" + path
		}
	}
	return q.Base + "/"
}
