package proxy

import (
	"sync/atomic"
	"time"

	"antirobot/captcha"
	"antirobot/request"
	"antirobot/verdict"
)

// human tells the balancer to send the request on. The i cookie is included for the balancer to copy. Nothing else is
// included that a balancer could mix into the service's answer: nginx does so with Cache-Control and Content-Type.
func (k *checkCall) human(extra ...captcha.HeaderField) {
	j := &k.journey
	k.answered = answerHuman
	j.goOn()
	j.fields = append(append(j.answerFields(nil), j.cookieFields()...),
		request.Field{Name: []byte(k.snap.Captcha.Headers().Verdict), Value: []byte(answerHuman)},
		request.Field{Name: nameReason, Value: []byte(j.decision.Cause.String())},
		request.Field{Name: nameRequestID, Value: j.idText[:]})
	j.fields = j.appendMarks(j.fields)
	j.fields = appendFields(j.fields, extra)
	k.send(200, nil)
}

// accelerate is what makes nginx send the original request on.
func (k *checkCall) accelerate() []captcha.HeaderField {
	if len(k.rules.accel) == 0 {
		return nil
	}
	return []captcha.HeaderField{{Name: "X-Accel-Redirect", Value: string(k.rules.accel)}}
}

// stop tells the balancer to stop the request: 401 with the captcha page's address, or 403. The body is empty, since no
// balancer shows it.
func (k *checkCall) stop(blocked bool) {
	j := &k.journey
	k.answered = answerBlocked
	var a captcha.Response
	switch r := j.decision.Throttle(); {
	case !blocked && j.kind() != kindProgram: // which would take the link for a success
		k.answered = answerCaptcha
		a = j.snap.Captcha.Link(j.request())
	case r != nil: // no balancer relays a 429
		a = j.snap.Captcha.Throttled(j.request(), r.Wait, captcha.ReadsNothing)
		a.Status = 403
	default:
		a = j.snap.Captcha.SubResource(j.request(), true)
	}
	k.reply(k.reasoned(a))
}

// forwardStyle is the visitor's answer, as far as a status can carry it that no balancer takes for a yes: a script gets its
// JSON and a partner its XML with 403 where the service would send 200.
func (k *checkCall) forwardStyle() {
	j := &k.journey
	q := j.request()
	k.answered = answerOf(&j.decision)
	var a captcha.Response
	if j.kind() == kindForm && j.decision.Verdict != verdict.Blocked { // the balancer has its body
		a = j.snap.Captcha.Redirect(q)
	} else {
		a = j.refusal(q)
	}
	if a.Status < 300 {
		a.Status = 403
	}
	j.outcome = a.Outcome
	k.reply(k.reasoned(a))
}

func (k *checkCall) reasoned(a captcha.Response) captcha.Response {
	a.Header = append(a.Header, captcha.HeaderField{Name: "X-Antirobot-Reason", Value: k.decision.Cause.String()})
	return a
}

// refusesEmbed is journey.refusesEmbed, after which no balancer forwards the request.
func (k *checkCall) refusesEmbed() bool {
	refused := k.journey.refusesEmbed()
	if refused {
		k.answered = answerBlocked
	}
	return refused
}

// unknown answers for a host that no service has.
func (k *checkCall) unknown(status int, problem string) {
	if k.style == styleChallenge {
		k.answered = answerError
		k.unrouted(status, problem)
		return
	}
	k.unjudged("no-service")
}

// reachesVisitor reports whether the balancer hands on the answer of the call, with its body.
func (k *checkCall) reachesVisitor() bool {
	return k.style != styleVerdict && k.style != styleAnswer && k.style != ""
}

func unjudgedText(reason string) string {
	return "The gateway can't judge this request: " + reason + ".\n"
}

// unjudged answers a request that can't be judged, as OnError says.
func (k *checkCall) unjudged(reason string) {
	j := &k.journey
	k.answered = answerError
	j.fields = append(j.fields[:0],
		request.Field{Name: nameReason, Value: []byte(reason)}, request.Field{Name: nameRequestID, Value: j.idText[:]})
	if !k.rules.open && k.reachesVisitor() {
		k.unrouted(503, unjudgedText(reason))
		return
	}
	if !k.rules.open {
		j.fields = append(j.fields, request.Field{Name: nameContentType, Value: textPlain},
			request.Field{Name: nameCacheControl, Value: noStore})
		k.send(503, []byte(unjudgedText(reason)))
		return
	}
	j.fields = append(j.fields, request.Field{Name: []byte(k.snap.Captcha.Headers().Verdict), Value: []byte(answerHuman)})
	if k.style == styleFull {
		j.fields = appendFields(j.fields, k.accelerate())
	}
	k.send(200, nil)
}

// refuse answers an invalid call. The answer carries no verdict, and is logged only now and then: a misconfigured balancer
// makes many such calls.
func (k *checkCall) refuse(status int, problem string) {
	j := &k.journey
	k.answered = answerRefused
	if k.c.said.due(j.x.View.At) {
		j.core.deps.Log.Warn().Stringer("caller", j.x.View.Peer).Bytes("request_id", j.idText[:]).Str("problem", problem).
			Msg("a balancer's call was refused; see docs/balancers.md")
	}
	j.fields = append(j.fields[:0], request.Field{Name: nameContentType, Value: textPlain},
		request.Field{Name: nameCacheControl, Value: noStore}, request.Field{Name: nameRequestID, Value: j.idText[:]})
	k.send(status, []byte("Antirobot: "+problem+".\n"))
}

// seldom keeps log lines apart that say the same. Safe for concurrent use; the zero value has said nothing.
type seldom struct{ last atomic.Int64 } // unix seconds

// due reports whether a line may be logged again, and counts it as logged then.
func (s *seldom) due(at time.Time) bool {
	now, last := at.Unix(), s.last.Load()
	return now-last >= int64(saidEvery/time.Second) && s.last.CompareAndSwap(last, now)
}

// saidEvery is the shortest interval between two such lines.
const saidEvery = 10 * time.Second

// reply sends an answer that captcha made.
func (k *checkCall) reply(a captcha.Response) { k.journey.answer(a) }

// send sends j.fields.
func (k *checkCall) send(status int, body []byte) {
	j := &k.journey
	j.status = status
	j.result.BytesOut = int64(len(body))
	if err := j.x.Reply(status, j.fields, body); err != nil && j.failure == nil {
		j.failure = err
	}
}

var (
	nameReason      = []byte("X-Antirobot-Reason")
	nameContentType = []byte("Content-Type")
	textPlain       = []byte("text/plain; charset=utf-8")
)
