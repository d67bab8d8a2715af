package proxy

import (
	"time"

	"github.com/rs/zerolog"

	"antirobot/proxy/traces"
	"antirobot/request"
)

type traced struct {
	traces.Context
	decidedFrom, decidedTo, calledAt time.Time
}

var nameTraceparent = []byte("Traceparent")

// beginTrace decides whether the request is traced. A trusted peer may pass a trace on.
func (j *journey) beginTrace() {
	if t := j.core.deps.Traces; t != nil {
		t.Begin(&j.traced.Context, j.requestID, j.view.Get("Traceparent"), j.core.deps.Resolver.Trusts(j.x.View.Peer))
	}
}

func (j *journey) decideTraced() {
	j.traced.decidedFrom = time.Now()
	j.Decide()
	j.traced.decidedTo = time.Now()
}

// appendTrace appends the field that continues the trace. That of an untraced request is passed on unchanged.
func (j *relay) appendTrace(dst []request.Field) []request.Field {
	if !j.traced.Sampled() {
		return dst
	}
	j.traced.calledAt = time.Now()
	return append(dst, request.Field{Name: nameTraceparent, Value: j.traced.Header()})
}

func (j *reporter) nameTrace(e *zerolog.Event) *zerolog.Event {
	if !j.traced.Sampled() {
		return e
	}
	j.scratch = j.traced.AppendID(j.scratch[:0])
	return e.Bytes("trace_id", j.scratch)
}

const maxTraced = 256

func (j *reporter) offerTrace() {
	if !j.traced.Sampled() {
		return
	}
	r := traces.Request{
		Context: j.traced.Context, ID: string(j.idText[:]), At: j.view.At, End: time.Now(),
		Method:      string(j.view.Method),
		Host:        string(j.view.Host[:min(len(j.view.Host), maxTraced)]),
		Path:        string(j.view.Path[:min(len(j.view.Path), maxTraced)]),
		DecidedFrom: j.traced.decidedFrom, DecidedTo: j.traced.decidedTo, Status: j.status,
	}
	if j.svc != nil {
		r.Service, r.Verdict, r.Cause, r.Mode = j.svc.Name, j.decision.Told().String(), j.decision.Cause.String(),
			j.decision.Mode.String()
	}
	if j.failure != nil {
		r.Failure = j.failure.Error()
	}
	if !j.traced.calledAt.IsZero() {
		r.CalledAt, r.HeadAt, r.CallTook = j.traced.calledAt, j.result.HeadAt, j.result.Took
		r.Answer, r.Upstream = j.result.Status, j.result.Addr
	}
	j.core.deps.Traces.Offer(&r)
}
