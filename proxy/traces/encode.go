package traces

import (
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func encode(all []Request, version string) ([]byte, error) {
	var spans []*tracepb.Span
	for i := range all {
		spans = all[i].appendSpans(spans)
	}
	return proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: texts("service.name", "antirobot", "service.version", version)},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: "antirobot", Version: version}, Spans: spans,
		}},
	}}})
}

// appendSpans appends a request's span, and below it the decision's and the service's.
func (r *Request) appendSpans(dst []*tracepb.Span) []*tracepb.Span {
	c := &r.Context
	s := c.span(c.whole, c.parent, r.Method, tracepb.Span_SPAN_KIND_SERVER, r.At, r.End)
	s.Attributes = texts("http.request.method", r.Method, "url.path", r.Path, "server.address", r.Host,
		"antirobot.request_id", r.ID, "antirobot.service", r.Service, "antirobot.verdict", r.Verdict)
	setStatus(s, r.Status, r.Failure)
	dst = append(dst, s)
	if !r.DecidedTo.IsZero() {
		s = c.span(c.decision, c.whole, "decision", tracepb.Span_SPAN_KIND_INTERNAL, r.DecidedFrom, r.DecidedTo)
		s.Attributes = texts("antirobot.verdict", r.Verdict, "antirobot.cause", r.Cause, "antirobot.mode", r.Mode)
		dst = append(dst, s)
	}
	if !r.CalledAt.IsZero() {
		s = c.span(c.call, c.whole, "service "+r.Service, tracepb.Span_SPAN_KIND_CLIENT, r.CalledAt,
			r.CalledAt.Add(r.CallTook))
		s.Attributes = texts("http.request.method", r.Method, "network.peer.address", r.Upstream)
		if r.HeadAt > 0 {
			addNumber(s, "antirobot.answer_began_us", r.HeadAt.Microseconds())
		}
		setStatus(s, r.Answer, r.Failure)
		dst = append(dst, s)
	}
	return dst
}

func (c *Context) span(id, parent [8]byte, name string, kind tracepb.Span_SpanKind, from, to time.Time) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: c.trace[:], SpanId: id[:], Name: valid(name), Kind: kind,
		StartTimeUnixNano: uint64(max(from.UnixNano(), 0)), EndTimeUnixNano: uint64(max(to.UnixNano(), 0)),
	}
	if parent != [8]byte{} {
		s.ParentSpanId = parent[:]
	}
	return s
}

func setStatus(s *tracepb.Span, status int, failure string) {
	if status > 0 {
		addNumber(s, "http.response.status_code", int64(status))
	}
	if failure != "" || status >= 500 {
		s.Status = &tracepb.Status{Message: valid(failure), Code: tracepb.Status_STATUS_CODE_ERROR}
	}
}

func addNumber(s *tracepb.Span, key string, n int64) {
	s.Attributes = append(s.Attributes, &commonpb.KeyValue{
		Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}},
	})
}

// texts makes attributes of keys and values, without empty values.
func texts(pairs ...string) (out []*commonpb.KeyValue) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, &commonpb.KeyValue{
				Key:   pairs[i],
				Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: valid(pairs[i+1])}},
			})
		}
	}
	return out
}

// valid makes a client's text fit for protobuf.
func valid(text string) string { return strings.ToValidUTF8(text, "?") }
