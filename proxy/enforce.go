package proxy

import (
	"errors"

	"antirobot/captcha"
	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
	"antirobot/verdict"
)

// serveOwn answers one of the gateway's own pages. Robots may use them, blocked clients may not. They cost no
// allowance.
func (j *journey) serveOwn(e captcha.Endpoint) {
	j.ownPage = true
	j.Visit()
	blocked := j.decision.Verdict == verdict.Blocked && j.svc.Verdict.Mode == verdict.Enforce
	if blocked {
		j.decision.Mode = verdict.Enforce // for its story
	}
	j.reporter.remember()
	if e == captcha.EndpointPage || e == captcha.EndpointCheck {
		j.reporter.rememberOwn()
	}
	if blocked {
		if e == captcha.EndpointPage {
			j.answer(j.snap.Captcha.BlockedPage(j.request()))
			return
		}
		j.answer(j.blocked(j.request()))
		return
	}
	q := j.request()
	if !j.readBody(q, j.snap.Captcha.CheckBodyLimit()) {
		return
	}
	j.finish(ownPage(j.snap.Captcha, e, q))
}

// comesBack answers a request that returns a form after its captcha, and reports whether it is one.
func (j *journey) comesBack() bool {
	c := j.snap.Captcha
	if !c.CarriesForm(j.view) {
		return false
	}
	j.Visit()
	if j.decision.Verdict == verdict.Blocked {
		return false
	}
	q := j.request()
	if !j.readBody(q, c.CheckBodyLimit()) {
		return true // answered
	}
	a, ok := c.Resume(q)
	if !ok {
		j.ask = captcha.Request{Partner: j.partner}
		return false
	}
	j.ownPage = true
	j.reporter.remember()
	j.finish(a)
	return true
}

func (j *journey) finish(a captcha.Response) {
	j.outcome, j.work, j.evidence = a.Outcome, a.Work, a.Evidence
	if a.Outcome == captcha.OutcomeSolved {
		j.core.deps.Decider.Issued(&a.Pass, j.view, &j.id)
	}
	if a.Resend != nil {
		if p := j.relay.pass(&a); p != nil { // for the resent form
			j.snap.Captcha.CameBack([]spravka.Pass{*p})
		}
		j.resend(&a)
		return
	}
	j.answer(a)
}

func (j *journey) enforce() {
	q := j.request()
	c := j.snap.Captcha
	if j.decision.Verdict == verdict.Blocked {
		j.answer(j.blocked(q))
		return
	}
	var a captcha.Response
	if j.decision.Cause == verdict.CauseMessage {
		if j.decision.Message.Failed == failedLate {
			q.BodyTooLarge = true // the rest is not awaited
		} else if !j.readBody(q, c.FormLimit()) {
			return
		}
		a = j.moderation.challengeMessage(q)
	} else {
		if j.kind() == kindForm && !j.readBody(q, c.FormLimit()) {
			return
		}
		a = j.refusal(q)
	}
	j.outcome = a.Outcome
	j.answer(a)
}

// readBody puts the body of a POST into q. It answers a broken one itself, and returns false.
func (j *journey) readBody(q *captcha.Request, limit int64) bool {
	if string(j.view.Method) != "POST" && j.decision.Cause != verdict.CauseMessage {
		return true
	}
	body, err := j.x.ReadBody(limit)
	switch {
	case err == nil:
		q.Body = body
	case errors.Is(err, h1.ErrBodyTooLarge):
		q.BodyTooLarge = true
	default:
		j.failure = err
		j.unanswered(nil, err)
		return false
	}
	return true
}

// answer sends an answer of the gateway itself, with the fields common to all of them.
func (j *journey) answer(a captcha.Response) {
	j.status = a.Status
	j.reporter.noteRefusal()
	j.fields = appendFields(j.fields[:0], a.Header)
	if a.Get("Cache-Control") == "" {
		j.fields = append(j.fields, request.Field{Name: nameCacheControl, Value: noStore})
	}
	if a.Get("X-Request-Id") == "" {
		j.fields = append(j.fields, request.Field{Name: nameRequestID, Value: j.idText[:]})
	}
	if hsts := j.relay.hsts(); hsts != nil {
		j.fields = append(j.fields, request.Field{Name: nameHSTS, Value: hsts})
	}
	j.result.BytesOut = int64(len(a.Body))
	if err := j.x.Reply(a.Status, j.fields, a.Body); err != nil && j.failure == nil {
		j.failure = err
	}
}

func appendFields(dst []request.Field, header []captcha.HeaderField) []request.Field {
	for _, h := range header {
		dst = append(dst, request.Field{Name: []byte(h.Name), Value: []byte(h.Value)})
	}
	return dst
}

// redirect sends a page's visitor to the captcha page. If only one client of the address is challenged, a browser
// without a cookie gets one: it proves to be another client, and is led back.
func (c *Case) redirect(q *captcha.Request) captcha.Response {
	cookie := c.name()
	q.Named = cookie != nil
	a := c.snap.Captcha.Redirect(q)
	if q.Named {
		a.Header = append(a.Header, captcha.HeaderField{Name: string(nameSetCookie), Value: string(cookie)})
	}
	return a
}

func (c *Case) name() []byte {
	if _, has := c.id.Browser(); has || !c.decision.OneClient() {
		return nil
	}
	return c.Cookie()
}

// Named returns the browser cookie that a refused request was given, as a Set-Cookie value, until the next call; nil:
// none.
func (c *Case) Named() []byte {
	if !c.ask.Named {
		return nil
	}
	return c.cookie
}

// Answer answers a request for one of the gateway's own pages with this body, and opens the allowance of an earned
// pass.
func (c *Case) Answer(body []byte) captcha.Response {
	q := c.request()
	q.Body = body
	a := ownPage(c.snap.Captcha, c.Own(), q)
	if a.Outcome == captcha.OutcomeSolved {
		c.core.deps.Decider.Issued(&a.Pass, c.view, &c.id)
	}
	return a
}

func ownPage(c *captcha.Captcha, e captcha.Endpoint, q *captcha.Request) captcha.Response {
	switch e {
	case captcha.EndpointPage:
		return c.Page(q)
	case captcha.EndpointCheck:
		return c.Check(q)
	case captcha.EndpointEvidence:
		return c.Evidence(q)
	case captcha.EndpointEvidenceScript:
		return c.EvidenceScript(q)
	case captcha.EndpointXCheck:
		return c.XCheck(q)
	case captcha.EndpointImage:
		return c.Image(q)
	case captcha.EndpointAudio:
		return c.Audio(q)
	default:
		return c.Static(q, string(q.View.Path))
	}
}

// Results of a step that a service requires.
const (
	requireChallenged = iota // the answer is withheld, and the visitor challenged
	requirePassed            // passed just now
	requireUnfit             // no challenge possible: a subresource, a crawler, mode observe
	requireUnread            // unknown step
	requireResults
)

var requireResultNames = [requireResults]string{"asked", "passed", "not-asked", "not-understood"}

// keepForm reads a posted form, so that it can be carried through a required step. A larger or broken body is forwarded
// as it comes.
func (j *relay) keepForm() {
	if !j.svc.Captcha.Requires() || string(j.view.Method) != "POST" || j.kind() != kindForm || !j.mayChallenge() {
		return
	}
	if body, err := j.x.ReadBody(j.snap.Captcha.FormLimit()); err == nil {
		j.ask.Body = body
	} else {
		j.ask.BodyTooLarge = true // a broken one is reported by forward
	}
}

// pass returns the visitor's latest pass: a's, if this request earned it.
func (j *relay) pass(a *captcha.Response) *spravka.Pass {
	if a != nil && a.Outcome == captcha.OutcomeSolved {
		return &a.Pass
	}
	if j.partner != nil {
		return nil
	}
	return captcha.LastPass(j.id.Passes[:j.id.NPasses], j.view)
}

func (j *relay) appendPassed(dst []request.Field, a *captcha.Response) []request.Field {
	if !j.svc.Captcha.Requires() {
		return dst
	}
	p := j.pass(a)
	if p == nil {
		return dst
	}
	j.passed = captcha.AppendPassed(j.passed[:0], p)
	return append(dst, request.Field{Name: namePassed, Value: j.passed})
}

// withholds decides about an answer that requires a step. A resent request is never held again.
func (j *relay) withholds(value []byte) bool {
	result := requireChallenged
	step, ok := captcha.ReadRequire(value)
	switch {
	case !ok:
		result = requireUnread
	case j.resent, j.snap.Captcha.Satisfies(j.pass(nil), step):
		result = requirePassed
	case !j.mayChallenge():
		result = requireUnfit
	default:
		j.required = step
	}
	j.svc.metrics.required[result].Inc()
	return result == requireChallenged
}

// mayChallenge reports whether a visitor who is not stopped can be challenged.
func (j *relay) mayChallenge() bool {
	if j.svc.Verdict.Mode != verdict.Enforce || j.decision.Cause == verdict.CauseWhite ||
		j.decision.Cause == verdict.CauseOff {
		return false
	}
	return j.kind().page() || j.kind().script()
}

func (j *journey) require() {
	q := j.request()
	q.Require, q.Reason = j.relay.required, templates.ReasonService
	j.core.deps.Decider.Required(j.requestID, &j.decision, j.relay.required.String())
	var c captcha.Response
	if j.decision.Message != nil {
		c = j.moderation.challengeMessage(q)
	} else {
		c = j.challenge(q)
	}
	j.outcome, j.relay.required = c.Outcome, 0
	j.answer(c)
}

var namePassed = []byte(captcha.PassedField)
