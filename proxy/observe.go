package proxy

import (
	"time"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/verdict"
)

// noteOutcome counts what happened at the captcha and remembers it for the event.
func (j *journey) noteOutcome(o captcha.Outcome) {
	if o == captcha.OutcomeNone {
		return
	}
	j.outcome = o
	j.g.deps.Metrics.outcome(o)
}

// tell is what the slow half learns of the request. White-listed clients are never judged, so it learns nothing of them.
func (j *journey) tell() {
	if j.svc == nil || j.decision.Cause == verdict.CauseWhite || j.decision.Cause == verdict.CauseOff || j.decision.Cause == verdict.CauseDemand {
		return
	}
	e := &j.event
	*e = verdict.Event{
		At: j.view.At, Service: j.svc.Verdict.Index, Verdict: j.decision.Verdict, Cause: j.decision.Cause, Paid: j.decision.Paid,
		Static: isStatic(j.view), Subjects: j.id.Subjects, N: uint8(j.id.N), //nolint:gosec // N ≤ 6
		Status: uint16(j.status), BytesOut: uint64(max(j.result.BytesOut, 0)), Took: time.Since(j.view.At), //nolint:gosec // an HTTP status
		Kind: eventKinds[j.outcome],
	}
	j.g.deps.Sink.Offer(e)
}

var eventKinds = [...]verdict.EventKind{
	captcha.OutcomeNone: verdict.EventRequest, captcha.OutcomeShown: verdict.EventShown, captcha.OutcomeSolved: verdict.EventSolved,
	captcha.OutcomeFailed: verdict.EventFailed, captcha.OutcomeLimited: verdict.EventRequest,
}

// isStatic reports whether v asks for a part of a page; these come by the dozen and do not count as pace.
func isStatic(v *identity.View) bool {
	return hasStaticExtension(v.Path) || isSubresource(v, v.Get("Sec-Fetch-Dest")) && !isAJAX(v, v.Get("Sec-Fetch-Dest"))
}

// count updates the metrics of the service.
func (j *journey) count() {
	if j.svc == nil {
		return
	}
	m := j.svc.metrics
	if j.ownPage {
		m.own.Inc()
	} else {
		m.verdicts[j.decision.Verdict][j.decision.Cause].Inc()
	}
	m.whole.observe(time.Since(j.view.At))
}

// remember keeps the decision for those who ask why, and logs it unless it is that of a human.
func (j *journey) remember() {
	if j.svc == nil || j.ownPage {
		return
	}
	j.g.deps.Decisions.Record(&j.requestID, j.view, &j.id, &j.decision, j.svc.Verdict)
	if j.decision.Verdict == verdict.Human && !j.decision.Paid {
		return
	}
	e := j.g.deps.Log.Info().Bytes("request_id", j.requestID[:]).Str("service", j.svc.Name).
		Stringer("verdict", j.decision.Verdict).Stringer("cause", j.decision.Cause).
		Str("subject", j.decision.SubjectText(&j.id)).Str("reason", j.decision.Reason())
	if j.decision.Paid {
		e = e.Bool("paid", true)
	}
	if j.svc.Verdict.Mode != verdict.Enforce {
		e = e.Stringer("mode", j.svc.Verdict.Mode)
	}
	e.Msg("decision")
}

// logAccess writes a line for the request. It holds no cookie, no query of our own pages and no answer.
func (j *journey) logAccess() {
	e := j.g.deps.AccessLog.Info()
	if e == nil {
		return
	}
	e = e.Bytes("request_id", j.requestID[:]).Bytes("method", j.view.Method).Bytes("host", j.view.Host).
		Bytes("path", clip(j.view.Path, 1024)).Int("status", j.status).Int64("bytes_in", j.result.BytesIn).
		Int64("bytes_out", j.result.BytesOut).Dur("took_ms", time.Since(j.view.At))
	j.scratch = j.id.Addr.AppendTo(j.scratch[:0])
	e = e.Bytes("client", j.scratch)
	if j.svc != nil {
		e = e.Str("service", j.svc.Name).Stringer("verdict", j.decision.Verdict)
	}
	if j.failure != nil {
		e = e.Err(j.failure)
	}
	e.Msg("request")
}

func clip(b []byte, n int) []byte { return b[:min(len(b), n)] }
