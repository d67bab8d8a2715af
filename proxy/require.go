package proxy

import (
	"antirobot/captcha"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
	"antirobot/verdict"
)

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
