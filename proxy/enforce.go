package proxy

import (
	"errors"
	"time"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/proxy/h1"
	"antirobot/verdict"
)

// route finds the service. Without one the visitor is told so, and the journey ends.
func (j *journey) route() bool {
	j.svc = j.snap.Router.Find(j.view.Host, j.view.Path, &j.scratch)
	if j.svc != nil {
		return true
	}
	j.own = true
	j.reply(captcha.Answer{Status: 421, Body: []byte("No service is configured for this host.\n"), Header: []captcha.HeaderField{
		{Name: "Content-Type", Value: "text/plain; charset=utf-8"},
	}})
	return false
}

// identify finds out who asks. An XML partner asks for its user: the user's address stands in for the partner's.
func (j *journey) identify() {
	if j.svc.isXML(j.view.Path) {
		j.xml = true
		j.partner = j.snap.Captcha.Partner(j.view, j.svc.Captcha)
		if j.partner != nil {
			j.partView = *j.view
			j.partView.Peer = j.partner.User
			j.view = &j.partView
		}
	}
	j.snap.Resolver.Resolve(&j.id, j.view, j.svc.Identity)
	j.want = classify(j.view, j.svc, j.xml)
}

// decide asks the fast half.
func (j *journey) decide() {
	if j.svc.isHealthCheck(j.view) {
		j.decision.Reset()
		j.decision.Cause = verdict.CauseOff
		return
	}
	began := time.Now()
	j.g.deps.Decider.Decide(&j.decision, j.view, &j.id, j.svc.Verdict)
	if j.decision.Verdict != verdict.Blocked && j.xml && j.snap.Captcha.Demanded(j.view, j.partner) {
		j.decision.Demand()
	}
	j.decidedIn = time.Since(began)
	j.g.deps.Metrics.decide.observe(j.decidedIn)
}

// stopped reports whether the request ends here.
func (j *journey) stopped() bool {
	if j.decision.Verdict == verdict.Human || j.svc.Verdict.Mode != verdict.Enforce {
		return false
	}
	return j.decision.Verdict == verdict.Blocked || j.want != kindPreflight
}

// enforce answers a request that is stopped, in the form that its kind can read.
func (j *journey) enforce() {
	j.own = true
	q := j.request()
	c := j.snap.Captcha
	if j.decision.Verdict == verdict.Blocked {
		j.reply(j.blocked(q))
		return
	}
	var a captcha.Answer
	switch j.want {
	case kindXML:
		a = c.ChallengeXML(q)
	case kindAJAX:
		a = c.ChallengeJSON(q)
	case kindSubresource:
		a = empty(403, "captcha")
	case kindForm:
		a = j.challengeForm(q)
	default:
		a = c.Redirect(q)
	}
	j.noteOutcome(a.Outcome)
	j.reply(a)
}

func (j *journey) blocked(q *captcha.Request) captcha.Answer {
	switch j.want {
	case kindSubresource, kindPreflight:
		return empty(403, "blocked")
	default:
		return j.snap.Captcha.Blocked(q, j.want == kindAJAX)
	}
}

// challengeForm seals the form into the challenge, so that nothing a person typed is lost.
func (j *journey) challengeForm(q *captcha.Request) captcha.Answer {
	body, err := j.x.ReadBody(j.snap.Captcha.MaxForm())
	switch {
	case errors.Is(err, h1.ErrBodyTooLarge):
		return j.snap.Captcha.FormTooLarge(q)
	case err != nil:
		j.failure = err
		return j.snap.Captcha.PlainPage(q, captcha.PageBadRequest)
	}
	q.Body = body
	return j.snap.Captcha.ChallengeForm(q)
}

func empty(status int, verdictName string) captcha.Answer {
	return captcha.Answer{Status: status, Header: []captcha.HeaderField{{Name: "X-Antirobot-Verdict", Value: verdictName}}}
}

// request is what captcha is told of the journey.
func (j *journey) request() *captcha.Request {
	return &captcha.Request{
		View: j.view, ID: &j.id, Service: j.svc.Captcha, Partner: j.partner, RequestID: string(j.requestID[:]),
		Base: j.base(),
	}
}

// base is the origin as the client sees it.
func (j *journey) base() string {
	return j.id.Proto + "://" + string(j.view.HostPort)
}

// reply sends an answer of the gateway's own.
func (j *journey) reply(a captcha.Answer) {
	j.own = true
	j.status = a.Status
	j.fields = j.fields[:0]
	for _, h := range a.Header {
		j.fields = append(j.fields, identity.Field{Name: []byte(h.Name), Value: []byte(h.Value)})
	}
	for _, h := range [...]struct{ name, value string }{
		{"Cache-Control", "no-store"},
		{"X-Request-Id", string(j.requestID[:])},
	} {
		if !hasField(j.fields, h.name) {
			j.fields = append(j.fields, identity.Field{Name: []byte(h.name), Value: []byte(h.value)})
		}
	}
	if err := j.x.Reply(a.Status, j.fields, a.Body); err != nil {
		j.failure = err
	}
}
