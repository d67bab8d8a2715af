package proxy

import (
	"bytes"
	"strconv"
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
	j.fields = append(append(j.relay.answerFields(nil), j.relay.cookieFields()...),
		request.Field{Name: []byte(k.snap.Captcha.Headers().Verdict), Value: []byte(answerHuman)},
		request.Field{Name: nameReason, Value: []byte(j.decision.Cause.String())},
		request.Field{Name: nameRequestID, Value: j.idText[:]})
	j.fields = j.relay.appendMarks(j.fields)
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

// answerHeader is the field in which a balancer reports the service's answer: status and Content-Type.
const answerHeader = "X-Antirobot-Answer"

// learnAnswer takes a balancer's report of the service's answer to a request, after it was given. It decides nothing and
// counts against nobody: it shows what the path is. A balancer that hands on the visitor's query with its questions reports nothing.
func (k *checkCall) learnAnswer(call *request.View) {
	if len(k.view.Query) > 0 && bytes.Equal(call.Query, k.view.Query) {
		k.refuse(400, "the query of the call is the visitor's own: the balancer must set it")
		return
	}
	var value []byte
	for i := range call.Fields {
		if !is(&call.Fields[i], answerHeader) {
			continue
		}
		if value != nil {
			k.refuse(400, answerHeader+" comes twice")
			return
		}
		value = call.Fields[i].Value
	}
	code, contentType, _ := bytes.Cut(bytes.TrimSpace(value), []byte{' '})
	status, err := strconv.Atoi(string(code))
	if err != nil || status < 100 || status > 999 {
		k.refuse(400, answerHeader+" must say status and type of the answer, such as: 200 text/html")
		return
	}
	k.core.deps.Resolver.Answered(k.view, k.svc.Identity, status, k.svc.drop)
	k.core.pages.note(k.svc.Name, k.view, status, bytes.TrimSpace(contentType))
	k.core.deps.Decider.Answered(k.view, k.svc.Verdict, status, bytes.TrimSpace(contentType))
	if r, ok := k.svc.Verdict.Rules.(verdict.AnswerRules); ok {
		r.Answered(k.view, &k.id, k.svc.Verdict, &verdict.Answer{Status: status, ContentType: bytes.TrimSpace(contentType), Bytes: -1})
	}
	k.answered = answerLearned
	k.fields = append(k.fields[:0], request.Field{Name: nameRequestID, Value: k.idText[:]})
	k.send(204, nil)
}

// roundsFrom is how many challenge calls in a row find a human before that is no coincidence: bans that end between a question and its
// challenge call are rare, and other visitors ask meanwhile.
const roundsFrom = 5

// rounds notices a balancer that sends its requests here without asking about them, as in style full, where the style is verdict: each
// human is led to the same URL again and again, and no question ever comes.
type rounds struct {
	n atomic.Int32 // challenge calls that found a human since a question came, or one that did not
	seldom
}

// end notes that the balancer asks, or that somebody was stopped. Nearly always it only reads.
func (r *rounds) end() {
	if r.n.Load() != 0 {
		r.n.Store(0)
	}
}

// again notes a challenge call that found a human, and reports whether that is to be logged now.
func (r *rounds) again(at time.Time) bool {
	if r.n.Add(1) < roundsFrom {
		return false
	}
	return r.due(at)
}

// isQuestion reports whether a call of style full is a question of style verdict: its path is judged then, not the visitor's.
func (k *checkCall) isQuestion() bool {
	call := &k.x.View
	return string(call.Path) == k.rules.path && (call.Get("X-Forwarded-Uri") != nil || call.Get("X-Original-URI") != nil)
}
