package traces

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of opentelemetry/proto trace/v1, common/v1 and resource/v1.
const (
	dataResourceSpans = 1

	resourceSpansResource, resourceSpansScopeSpans = 1, 2
	resourceAttributes                             = 1
	scopeSpansScope, scopeSpansSpans               = 1, 2
	scopeName, scopeVersion                        = 1, 2

	spanTrace, spanID, spanParent, spanName, spanKind = 1, 2, 4, 5, 6
	spanStart, spanEnd, spanAttributes, spanStatus    = 7, 8, 9, 15
	statusMessage, statusCode                         = 2, 3
	pairKey, pairValue                                = 1, 2
	valueString, valueInt                             = 1, 3
)

// Span kinds, and the error status.
const (
	kindInternal, kindServer, kindClient = 1, 2, 3
	codeError                            = 2
)

func encode(all []Request, version string) []byte {
	resource := appendText(appendText(nil, resourceAttributes, "service.name", "antirobot"), resourceAttributes,
		"service.version", version)
	scope := appendString(appendString(nil, scopeName, "antirobot"), scopeVersion, version)
	spans := appendMessage(nil, scopeSpansScope, scope)
	for i := range all {
		spans = all[i].appendSpans(spans)
	}
	body := appendMessage(nil, resourceSpansResource, resource)
	return appendMessage(nil, dataResourceSpans, appendMessage(body, resourceSpansScopeSpans, spans))
}

// appendSpans appends a request's span, and below it the decision's and the service's.
func (r *Request) appendSpans(dst []byte) []byte {
	c := &r.Context
	s := c.span(c.whole, c.parent, r.Method, kindServer, r.At, r.End)
	s = appendText(s, spanAttributes, "http.request.method", r.Method)
	s = appendText(s, spanAttributes, "url.path", r.Path)
	s = appendText(s, spanAttributes, "server.address", r.Host)
	s = appendText(s, spanAttributes, "antirobot.request_id", r.ID)
	s = appendText(s, spanAttributes, "antirobot.service", r.Service)
	s = appendText(s, spanAttributes, "antirobot.verdict", r.Verdict)
	s = appendStatus(s, r.Status, r.Failure)
	dst = appendMessage(dst, scopeSpansSpans, s)
	if !r.DecidedTo.IsZero() {
		s = c.span(c.decision, c.whole, "decision", kindInternal, r.DecidedFrom, r.DecidedTo)
		s = appendText(s, spanAttributes, "antirobot.verdict", r.Verdict)
		s = appendText(s, spanAttributes, "antirobot.cause", r.Cause)
		s = appendText(s, spanAttributes, "antirobot.mode", r.Mode)
		dst = appendMessage(dst, scopeSpansSpans, s)
	}
	if !r.CalledAt.IsZero() {
		s = c.span(c.call, c.whole, "service "+r.Service, kindClient, r.CalledAt, r.CalledAt.Add(r.CallTook))
		s = appendText(s, spanAttributes, "http.request.method", r.Method)
		s = appendText(s, spanAttributes, "network.peer.address", r.Upstream)
		if r.HeadAt > 0 {
			s = appendInt(s, spanAttributes, "antirobot.answer_began_us", r.HeadAt.Microseconds())
		}
		dst = appendMessage(dst, scopeSpansSpans, appendStatus(s, r.Answer, r.Failure))
	}
	return dst
}

func (c *Context) span(id, parent [8]byte, name string, kind uint64, from, to time.Time) []byte {
	s := appendMessage(nil, spanTrace, c.trace[:])
	s = appendMessage(s, spanID, id[:])
	if parent != [8]byte{} {
		s = appendMessage(s, spanParent, parent[:])
	}
	s = appendString(s, spanName, name)
	s = protowire.AppendVarint(protowire.AppendTag(s, spanKind, protowire.VarintType), kind)
	s = appendTime(s, spanStart, from)
	return appendTime(s, spanEnd, to)
}

func appendStatus(dst []byte, status int, failure string) []byte {
	if status > 0 {
		dst = appendInt(dst, spanAttributes, "http.response.status_code", int64(status))
	}
	if failure == "" && status < 500 {
		return dst
	}
	s := appendString(nil, statusMessage, failure)
	s = protowire.AppendVarint(protowire.AppendTag(s, statusCode, protowire.VarintType), codeError)
	return appendMessage(dst, spanStatus, s)
}

func appendTime(dst []byte, num protowire.Number, at time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, num, protowire.Fixed64Type), uint64(max(at.UnixNano(), 0)))
}

func appendMessage(dst []byte, num protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), m)
}

func appendString(dst []byte, num protowire.Number, s string) []byte {
	return appendMessage(dst, num, bytes.ToValidUTF8([]byte(s), []byte("?")))
}

func appendText(dst []byte, num protowire.Number, key, text string) []byte {
	if text == "" {
		return dst
	}
	value := appendString(nil, valueString, text)
	return appendMessage(dst, num, appendMessage(appendString(nil, pairKey, key), pairValue, value))
}

func appendInt(dst []byte, num protowire.Number, key string, n int64) []byte {
	value := protowire.AppendVarint(protowire.AppendTag(nil, valueInt, protowire.VarintType), uint64(n))
	return appendMessage(dst, num, appendMessage(appendString(nil, pairKey, key), pairValue, value))
}
