package proxy

import (
	"bytes"
	"strconv"

	"antirobot/request"
	"antirobot/verdict"
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
