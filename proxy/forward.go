package proxy

import (
	"context"
	"errors"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/proxy/h1"
)

// ownPrefixes are the fields that only the gateway may set on the way to a service: what a client sends in them would
// be believed there.
var ownPrefixes = [...]string{"x-antirobot-", "x-accel-", "x-forwarded-", "x-original-"}

// ownNames are further fields of that kind.
var ownNames = [...]string{"forwarded", "x-real-ip", "x-request-id", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "x-rewrite-url"}

// clientMayNotSend reports whether a request field that the client sent stays here.
func clientMayNotSend(name []byte) bool {
	for _, p := range ownPrefixes {
		if hasFoldPrefix(name, p) {
			return true
		}
	}
	for _, n := range ownNames {
		if len(n) == len(name) && hasFoldPrefix(name, n) {
			return true
		}
	}
	return false
}

// serviceMayNotSend reports whether an answer's field stays here: the script in the page believes it.
func serviceMayNotSend(name []byte) bool { return hasFoldPrefix(name, "x-antirobot-") }

// forward sends the request to the service and returns its answer. With a, the sealed request in it is sent instead,
// once, and a's fields (the new pass) are added to the service's answer.
func (j *journey) forward(a *captcha.Answer) {
	j.own = false
	o := h1.ForwardOptions{
		SetFields:        j.upstreamFields(),
		DropField:        clientMayNotSend,
		DropAnswerField:  serviceMayNotSend,
		MaxBodyBytes:     j.svc.Config.MaxBody,
		ResponseTimeout:  j.svc.Config.ResponseTimeout,
		AddAnswerFields:  j.answerFields(a),
	}
	if !j.svc.Config.PassOwnCookies {
		o.DropCookies = j.svc.ownCookies
	}
	if a != nil {
		o.Replace = replacement(a.Resend)
	}
	result, err := j.x.Forward(j.svc.Upstream, &o)
	j.result, j.status = result, result.Status
	if err == nil {
		return
	}
	j.failure = err
	if result.HeadSent || errors.Is(err, h1.ErrClientGone) {
		return
	}
	j.svc.metrics.failed.Inc()
	j.reply(j.unanswered(a, err))
}

// unanswered is the gateway's own page for a service that did not answer.
func (j *journey) unanswered(a *captcha.Answer, err error) captcha.Answer {
	page := captcha.PageUpstreamDown
	switch {
	case errors.Is(err, h1.ErrBodyTooLarge):
		page = captcha.PageTooLarge
	case errors.Is(err, h1.ErrUpstreamTimeout), errors.Is(err, context.DeadlineExceeded):
		page = captcha.PageUpstreamSlow
	case errors.Is(err, h1.ErrBadRequest):
		page = captcha.PageBadRequest
	}
	down := j.snap.Captcha.PlainPage(j.request(), page)
	if a != nil { // the pass was earned, whatever became of the service
		down.Header = append(down.Header, a.Header...)
	}
	return down
}

// upstreamFields are what the gateway tells the service, in place of anything that the client sent under these names.
func (j *journey) upstreamFields() []identity.Field {
	j.scratch = j.id.Addr.AppendTo(j.scratch[:0])
	addr := j.scratch
	j.sent = append(j.sent[:0],
		identity.Field{Name: nameForwardedFor, Value: addr},
		identity.Field{Name: nameForwardedHost, Value: j.view.HostPort},
		identity.Field{Name: nameForwardedProto, Value: protoBytes(j.id.Proto)},
		identity.Field{Name: nameRealIP, Value: addr},
		identity.Field{Name: nameRequestID, Value: j.requestID[:]},
	)
	if j.svc.Config.TellService {
		j.sent = append(j.sent, identity.Field{Name: nameVerdict, Value: verdictNames[j.decision.Verdict]})
	}
	return j.sent
}

var (
	nameForwardedFor   = []byte("X-Forwarded-For")
	nameForwardedHost  = []byte("X-Forwarded-Host")
	nameForwardedProto = []byte("X-Forwarded-Proto")
	nameRealIP         = []byte("X-Real-IP")
	nameRequestID      = []byte("X-Request-Id")
	nameVerdict        = []byte("X-Antirobot-Verdict")
	nameSetCookie      = []byte("Set-Cookie")

	schemeHTTP, schemeHTTPS = []byte("http"), []byte("https")

	verdictNames = [...][]byte{[]byte("human"), []byte("robot"), []byte("blocked")}
)

func protoBytes(proto string) []byte {
	if proto == "https" {
		return schemeHTTPS
	}
	return schemeHTTP
}

// answerFields are added to the service's answer: cookies of ours.
func (j *journey) answerFields(a *captcha.Answer) []identity.Field {
	j.fields = j.fields[:0]
	if a != nil {
		for _, h := range a.Header {
			j.fields = append(j.fields, identity.Field{Name: []byte(h.Name), Value: []byte(h.Value)})
		}
	}
	if j.partner != nil {
		if fresh := j.snap.Captcha.FreshPass(j.request()); fresh != "" {
			j.fields = append(j.fields, identity.Field{Name: nameSetCookie, Value: []byte(fresh)})
		}
		return j.fields
	}
	if j.id.WantI {
		j.cookie = j.snap.Resolver.MintI(j.cookie[:0], &j.id, j.view, j.svc.Identity)
		if len(j.cookie) > 0 {
			j.fields = append(j.fields, identity.Field{Name: nameSetCookie, Value: j.cookie})
		}
	}
	return j.fields
}

func replacement(r *captcha.SavedRequest) *h1.Replacement {
	fields := make([]identity.Field, 0, len(r.Header))
	for _, h := range r.Header {
		fields = append(fields, identity.Field{Name: []byte(h.Name), Value: []byte(h.Value)})
	}
	return &h1.Replacement{Method: []byte(r.Method), Target: []byte(r.Target), Fields: fields, Body: r.Body}
}
