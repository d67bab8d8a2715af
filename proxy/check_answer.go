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

// human tells the balancer to forward the request. The answer has no field that a balancer could mix into the service's
// answer (nginx does so with Cache-Control and Content-Type), except the i cookie.
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

func (k *checkCall) accelerate() []captcha.HeaderField {
	if len(k.rules.accel) == 0 {
		return nil
	}
	return []captcha.HeaderField{{Name: "X-Accel-Redirect", Value: string(k.rules.accel)}}
}

// stop answers 401 with the captcha page's address, or 403, without a body.
func (k *checkCall) stop(blocked bool) {
	j := &k.journey
	k.answered = answerBlocked
	var a captcha.Response
	switch r := j.decision.Throttle(); {
	case !blocked && j.kind() != kindProgram: // a program would take the link for a success
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

// forwardStyle sends the visitor's answer with a status that no balancer takes for a yes: 403 in place of 200.
func (k *checkCall) forwardStyle() {
	j := &k.journey
	q := j.request()
	k.answered = answerOf(&j.decision)
	var a captcha.Response
	if j.kind() == kindForm && j.decision.Verdict != verdict.Blocked { // the balancer has the body
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

func (k *checkCall) refusesEmbed() bool {
	refused := k.journey.refusesEmbed()
	if refused {
		k.answered = answerBlocked
	}
	return refused
}

func (k *checkCall) unknown(status int, problem string) {
	if k.style == styleChallenge {
		k.answered = answerError
		k.unrouted(status, problem)
		return
	}
	k.unjudged("no-service")
}

// reachesVisitor reports whether the balancer relays the answer and its body.
func (k *checkCall) reachesVisitor() bool {
	return k.style != styleVerdict && k.style != styleAnswer && k.style != ""
}

func unjudgedText(reason string) string {
	return "The gateway can't judge this request: " + reason + ".\n"
}

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
	j.fields = append(j.fields, request.Field{
		Name:  []byte(k.snap.Captcha.Headers().Verdict),
		Value: []byte(answerHuman),
	})
	if k.style == styleFull {
		j.fields = appendFields(j.fields, k.accelerate())
	}
	k.send(200, nil)
}

// refuse answers an invalid call. It is logged rarely, since a misconfigured balancer makes many.
func (k *checkCall) refuse(status int, problem string) {
	j := &k.journey
	k.answered = answerRefused
	if k.c.said.due(j.x.View.At) {
		j.core.deps.Log.Warn().Stringer("caller", j.x.View.Peer).Bytes("request_id", j.idText[:]).
			Str("problem", problem).
			Msg("a balancer's call was refused; see docs/balancers.md")
	}
	j.fields = append(j.fields[:0], request.Field{Name: nameContentType, Value: textPlain},
		request.Field{Name: nameCacheControl, Value: noStore}, request.Field{Name: nameRequestID, Value: j.idText[:]})
	k.send(status, []byte("Antirobot: "+problem+".\n"))
}

// seldom limits how often a log line is repeated. Safe for concurrent use; the zero value is ready.
type seldom struct{ last atomic.Int64 } // unix seconds

// due reports whether the line may be logged, and notes that it was.
func (s *seldom) due(at time.Time) bool {
	now, last := at.Unix(), s.last.Load()
	return now-last >= int64(saidEvery/time.Second) && s.last.CompareAndSwap(last, now)
}

const saidEvery = 10 * time.Second

func (k *checkCall) reply(a captcha.Response) { k.journey.answer(a) }

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

const answerHeader = "X-Antirobot-Answer"

// learnAnswer takes a balancer's report of the service's answer, which shows what kind of path it is. A query that is
// the visitor's own could forge the report.
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
		r.Answered(k.view, &k.id, k.svc.Verdict, &verdict.Answer{
			Status:      status,
			ContentType: bytes.TrimSpace(contentType), Bytes: -1,
		})
	}
	k.answered = answerLearned
	k.fields = append(k.fields[:0], request.Field{Name: nameRequestID, Value: k.idText[:]})
	k.send(204, nil)
}

// roundsFrom is the number of consecutive challenge calls that find a human from which this is no coincidence.
const roundsFrom = 5

// rounds detects a balancer that sends requests here without a check, as in style full, while the style is verdict:
// humans are redirected to the same URL forever.
type rounds struct {
	n atomic.Int32 // since the last check or stopped request
	seldom
}

func (r *rounds) end() {
	if r.n.Load() != 0 {
		r.n.Store(0)
	}
}

// again notes a challenge call that found a human, and reports whether to log it.
func (r *rounds) again(at time.Time) bool {
	if r.n.Add(1) < roundsFrom {
		return false
	}
	return r.due(at)
}

// isQuestion reports whether a call in style full is a check of style verdict, whose own path would be judged.
func (k *checkCall) isQuestion() bool {
	call := &k.x.View
	return string(call.Path) == k.rules.path && (call.Get("X-Forwarded-Uri") != nil ||
		call.Get("X-Original-URI") != nil)
}
