package proxy

import (
	"antirobot/captcha"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
	"antirobot/verdict"
)

// What becomes of a step that a service asks for.
const (
	requireAsked  = iota // its answer is withheld, and the visitor is asked
	requirePassed        // the visitor has just passed it: the answer stands
	requireUnfit         // nobody can be asked: a part of a page, a crawler, a service that is only observed
	requireUnread        // the field says none of the steps
	requireResults
)

var requireResultNames = [requireResults]string{"asked", "passed", "not-asked", "not-understood"}

// keepForm reads the form that a visitor posts, so that it can be carried through a step that the service asks for. A body
// that is larger, or broken, goes on as it comes.
func (j *relay) keepForm() {
	if !j.svc.Captcha.Requires() || string(j.view.Method) != "POST" || j.kind() != kindForm || !j.mayAsk() {
		return
	}
	if body, err := j.x.ReadBody(j.snap.Captcha.FormLimit()); err == nil {
		j.ask.Body = body
	} else {
		j.ask.BodyTooLarge = true // or it is broken, which forward reports
	}
}

// pass returns the latest pass that the visitor has earned: a, if it was earned by this request.
func (j *relay) pass(a *captcha.Response) *spravka.Pass {
	if a != nil && a.Outcome == captcha.OutcomeSolved {
		return &a.Pass
	}
	if j.partner != nil {
		return nil
	}
	return captcha.LastPass(j.id.Passes[:j.id.NPasses], j.view)
}

// appendPassed tells the service what its visitor has passed.
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

// withholds says whether an answer of the service that asks for a step is withheld. What was carried through a step is never
// held again.
func (j *relay) withholds(value []byte) bool {
	result := requireAsked
	step, ok := captcha.ReadRequire(value)
	switch {
	case !ok:
		result = requireUnread
	case j.resent, j.snap.Captcha.Satisfies(j.pass(nil), step):
		result = requirePassed
	case !j.mayAsk():
		result = requireUnfit
	default:
		j.required = step
	}
	j.svc.metrics.required[result].Inc()
	return result == requireAsked
}

// mayAsk reports whether somebody can be asked who is not stopped.
func (j *relay) mayAsk() bool {
	if j.svc.Verdict.Mode != verdict.Enforce || j.decision.Cause == verdict.CauseWhite || j.decision.Cause == verdict.CauseOff {
		return false
	}
	return j.kind().page() || j.kind().script()
}

// require asks the visitor for the step that the service wants.
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
