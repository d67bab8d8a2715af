package proxy

import (
	"antirobot/proxy/h1"
	"antirobot/verdict"
)

// A stream, a download or a WebSocket may go on for hours after its verdict. A ban does not cut it: who is only asked for a captcha could not
// answer it there, and people would lose what they do. Blocks are what operators say themselves, or the lists that they chose, and
// whoever is blocked should get nothing more.

// goingOn sets the option of a request whose answer may take long.
func (j *journey) goingOn(o *h1.ForwardOptions) {
	if j.decision.Cause == verdict.CauseOff {
		return
	}
	if j.unblocked == nil {
		j.unblocked = j.isUnblocked
	}
	o.GoOn = j.unblocked
}

// isUnblocked reports whether the visitor is not blocked since, and logs it otherwise. It changes nothing of the journey: in a tunnel another
// goroutine may ask.
func (j *journey) isUnblocked() bool {
	by := j.core.deps.Decider.Blocks(j.view, &j.id, j.svc.Verdict)
	if by == "" {
		return true
	}
	j.core.deps.Log.Info().Bytes("request_id", j.idText[:]).Str("service", j.svc.Name).Stringer("client", j.id.Addr).
		Stringer("verdict", verdict.Blocked).Str("reason", by).
		Msg("answer cut")
	return false
}
