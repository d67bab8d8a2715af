package proxy

import (
	"errors"

	"antirobot/captcha"
	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/spravka"
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
