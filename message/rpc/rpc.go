// Package rpc is the API of the message firewall over JSON-RPC and XML-RPC, without a server.
//
// Invariants:
//  1. A request reaches the domains of its partner and nothing else.
//  2. Bodies are read strictly and within bounds; every error has a code that clients know.
//  3. A panic in a method is an answer.
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

// Deps is what a Server works with.
type Deps struct {
	System  *message.System
	Log     zerolog.Logger
	Metrics *metrics.Set
	Version string // of sf.info.version
}

// Server answers requests of the API. Safe for concurrent use.
type Server struct {
	cfg     message.Config
	deps    Deps
	methods map[string]*method
	failed  map[int]*metrics.Counter
	refused *metrics.Counter // requests without a partner
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

// Codec is an encoding of requests and answers.
type Codec uint8

// The codecs of /api/json/ and /api/xml/.
const (
	JSON Codec = iota
	XML
)

type request struct {
	method string
	params map[string]any
	id     []byte // as it came
	second bool   // JSON-RPC 2.0
	calls  []request
	failed error
}

// Serve answers a request, a batch or a multicall of the API. Errors of the API have status 200, as clients of the
// protocols expect.
func (s *Server) Serve(ctx context.Context, codec Codec, body []byte, auth Auth) (status int, contentType string,
	answer []byte,
) {
	if len(body) > message.MaxRequest {
		fault := rules.Faultf(message.CodeUnexpected, "the request has %d bytes, more than %d", len(body),
			message.MaxRequest)
		return refusal(http.StatusRequestEntityTooLarge, codec, s.faultOf("", fault))
	}
	if codec == XML {
		return http.StatusOK, typeXML, s.serveXML(ctx, body, auth)
	}
	return http.StatusOK, typeJSON, s.serveJSON(ctx, body, auth)
}

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
		return nil
	}
	return append(answer, ']')
}

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

func badRequest(format string, args ...any) error {
	return rules.Faultf(message.CodeUnexpected, format, args...)
}
