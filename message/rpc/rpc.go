// Package rpc is the API of the message firewall: SpamFighter's methods over JSON-RPC and XML-RPC, without a server.
//
// Invariants:
//  1. A request reaches what its partner owns, and nothing else.
//  2. Bodies are read strictly and within bounds; an error has one of the codes that clients know.
//  3. A panic in a method is an answer, never the end of the gateway.
package rpc

import (
	"context"
	"fmt"
	"net/http"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/message"
	"antirobot/rules"
)

// Deps is what a Server is given.
type Deps struct {
	System  *message.System
	Log     zerolog.Logger
	Metrics *metrics.Set // nil: a set of its own
	Version string       // what sf.info.version answers
}

// Server answers requests of the API. Safe for concurrent use.
type Server struct {
	cfg     message.Config
	deps    Deps
	methods map[string]*method
	failed  map[int]*metrics.Counter // by code
	refused *metrics.Counter         // requests without a partner
}

// New returns a Server of the system that has the same configuration.
func New(cfg message.Config, d Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Metrics == nil {
		d.Metrics = metrics.NewSet()
	}
	s := &Server{cfg: cfg, deps: d, methods: methods(), failed: make(map[int]*metrics.Counter)}
	s.refused = d.Metrics.GetOrCreateCounter(`antirobot_message_refused_total`)
	for _, code := range []int{
		message.CodeMissing, message.CodeCommand, message.CodeUnknown, message.CodeType, message.CodeAuthorisation,
		message.CodeDomain, message.CodeProperty, rules.CodeLabel, message.CodeModel, message.CodeAttribute,
		message.CodeFirewall, message.CodeSyntax, message.CodeLog, message.CodeUnexpected, message.CodeResult,
	} {
		s.failed[code] = d.Metrics.GetOrCreateCounter(fmt.Sprintf(`antirobot_message_errors_total{code="%d"}`, code))
	}
	return s, nil
}

// Codec is a way to write requests and answers.
type Codec uint8

// The two codecs, as they are at /api/json/ and /api/xml/.
const (
	JSON Codec = iota
	XML
)

// request is a decoded request.
type request struct {
	method string
	params map[string]any // string, bool, int64, float64, nil, []byte, []any, map[string]any
	id     []byte         // JSON, as it came; nil: none did
	second bool           // JSON-RPC 2.0: the answer says so, and a request without an ID gets none
	calls  []request      // of system.multicall; their errors are in failed
	failed error
}

// Serve answers a request of the API, a batch of them, or a multicall. It needs no server: body is what was posted, and the answer's status,
// content type and body are returned. Errors of the API come with status 200, as clients of the protocols expect; what
// is not a request at all gets a fault too.
func (s *Server) Serve(ctx context.Context, codec Codec, body []byte, auth Auth) (status int, contentType string, answer []byte) {
	if len(body) > message.MaxRequest {
		fault := rules.Faultf(message.CodeUnexpected, "the request has %d bytes, more than %d", len(body), message.MaxRequest)
		return refusal(http.StatusRequestEntityTooLarge, codec, s.faultOf("", fault))
	}
	if codec == XML {
		return http.StatusOK, typeXML, s.serveXML(ctx, body, auth)
	}
	return http.StatusOK, typeJSON, s.serveJSON(ctx, body, auth)
}

// serveJSON answers a request, or a batch of them: a list of requests gets a list of answers, in the same order.
func (s *Server) serveJSON(ctx context.Context, body []byte, auth Auth) []byte {
	batch, ok, err := splitBatch(body)
	if err != nil {
		return encodeJSON(request{}, nil, s.faultOf("", err))
	}
	if !ok {
		return s.oneJSON(ctx, body, auth)
	}
	answer := []byte{'['}
	for _, one := range batch {
		a := s.oneJSON(ctx, one, auth)
		if len(a) > 0 && len(answer) > 1 {
			answer = append(answer, ',')
		}
		answer = append(answer, a...)
	}
	if len(answer) == 1 {
		return nil // nobody waits for an answer
	}
	return append(answer, ']')
}

// oneJSON returns the answer to one request, nil for a notification.
func (s *Server) oneJSON(ctx context.Context, body []byte, auth Auth) []byte {
	req, err := decodeJSON(body)
	var result map[string]any
	if err == nil {
		result, err = s.guarded(ctx, req, auth)
	}
	if err != nil {
		return encodeJSON(req, nil, s.faultOf(req.method, err))
	}
	return encodeJSON(req, result, nil)
}

func (s *Server) serveXML(ctx context.Context, body []byte, auth Auth) []byte {
	req, err := decodeXML(body)
	if err != nil {
		return encodeXML(nil, s.faultOf("", err))
	}
	if req.calls != nil {
		return encodeXML(s.multicall(ctx, req.calls, auth), nil)
	}
	result, err := s.guarded(ctx, req, auth)
	if err != nil {
		return encodeXML(nil, s.faultOf(req.method, err))
	}
	return encodeXML(result, nil)
}

// multicall returns the results of several calls, each in a list of its own, or the struct of a fault.
func (s *Server) multicall(ctx context.Context, calls []request, auth Auth) []any {
	out := make([]any, len(calls))
	for i, c := range calls {
		var result map[string]any
		err := c.failed
		if err == nil {
			result, err = s.guarded(ctx, c, auth)
		}
		if err == nil {
			out[i] = []any{result}
			continue
		}
		f := s.faultOf(c.method, err)
		out[i] = map[string]any{"faultCode": int64(f.Code), "faultString": f.Text}
	}
	return out
}

const (
	typeJSON = "application/json; charset=utf-8"
	typeXML  = "text/xml; charset=utf-8"
)

// guarded runs a request and turns a panic into an error: one message must not end the gateway.
func (s *Server) guarded(ctx context.Context, req request, auth Auth) (result map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return s.invoke(ctx, req.method, req.params, auth)
}

func refusal(status int, codec Codec, fault *rules.Fault) (int, string, []byte) {
	if codec == XML {
		return status, typeXML, encodeXML(nil, fault)
	}
	return status, typeJSON, encodeJSON(request{}, nil, fault)
}

// badRequest is the fault of what can't be decoded.
func badRequest(format string, args ...any) error {
	return rules.Faultf(message.CodeUnexpected, format, args...)
}
