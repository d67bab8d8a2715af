package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/duration"
	"antirobot/message/rpc"
	"antirobot/terminal"
)

// problem is an error of the API: what the caller is told.
type problem struct {
	status int
	Code   string `json:"code"`
	// Message names the problem and the remedy.
	Message string   `json:"message"`
	Field   string   `json:"field,omitempty"`
	Errors  []string `json:"errors,omitempty"`
}

func (p *problem) Error() string { return p.Code + ": " + p.Message }

func badField(field, format string, args ...any) *problem {
	return &problem{
		status: fasthttp.StatusBadRequest, Code: "invalid_field", Field: field,
		Message: fmt.Sprintf(format, args...),
	}
}

func notFound(format string, args ...any) *problem {
	return &problem{status: fasthttp.StatusNotFound, Code: "not_found", Message: fmt.Sprintf(format, args...)}
}

func absentPart(what string) *problem {
	return &problem{
		status: fasthttp.StatusNotImplemented, Code: "not_available",
		Message: what + " is not part of this gateway's configuration",
	}
}

// answerJSON writes v with its status. HTML characters stay as they are: nosniff and the content type keep browsers
// from reading JSON as anything else.
func answerJSON(ctx *fasthttp.RequestCtx, status int, v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("BUG: an answer of the admin API does not encode: " + err.Error())
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(terminal.Escape(buf.Bytes()))
}

// answerProblem writes an error. Anything but a problem is an internal failure; it is reported in full, since the
// caller holds the token.
func answerProblem(ctx *fasthttp.RequestCtx, err error) {
	var p *problem
	if !errors.As(err, &p) {
		p = &problem{status: fasthttp.StatusInternalServerError, Code: "internal", Message: err.Error()}
	}
	answerJSON(ctx, p.status, struct {
		Error *problem `json:"error"`
	}{p})
}

// decode reads the JSON body into v: one value, no unknown fields.
func decode(ctx *fasthttp.RequestCtx, v any) error {
	dec := json.NewDecoder(bytes.NewReader(ctx.PostBody()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeProblem(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &problem{
			status: fasthttp.StatusBadRequest, Code: "invalid_json",
			Message: "the body holds more than one JSON value; send one object",
		}
	}
	return nil
}

func decodeProblem(err error) *problem {
	p := &problem{status: fasthttp.StatusBadRequest, Code: "invalid_json"}
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		p.Message = "the body is empty; send a JSON object"
	case errors.As(err, &mistyped):
		p.Code, p.Field = "invalid_field", mistyped.Field
		p.Message = fmt.Sprintf("expected %s, got a JSON %s", mistyped.Type, mistyped.Value)
	default:
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			p.Code, p.Field = "unknown_field", strings.Trim(name, `"`)
			p.Message = "this field is not known here; see docs/api.md for the fields"
			break
		}
		p.Message = "the body is no JSON object: " + err.Error()
	}
	return p
}

// flatten lists the parts of a joined error, however deep the join is wrapped.
func flatten(err error) []string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if m, ok := e.(interface{ Unwrap() []error }); ok {
			var out []string
			for _, part := range m.Unwrap() {
				out = append(out, flatten(part)...)
			}
			return out
		}
	}
	return []string{err.Error()}
}

// unknownBody is how long the body of a request may be whose sender is not known: that of the console's form to sign in.
const unknownBody = 16 << 10

// received bounds the body of a request by its head: room for a body is made before any of it has come.
func (s *Server) received(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	most := int64(unknownBody)
	switch path, _, _ := bytes.Cut(h.RequestURI(), []byte("?")); {
	case s.forPartners(string(path)):
		most = s.deps.MaxMessage
	case s.known(h, string(path)):
		most = maxBody
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: int(most)}
}

// forPartners reports whether a path is one of the message firewall that needs no token: partners show a key, which may be in the body.
func (s *Server) forPartners(path string) bool {
	_, ok := messageCodec(path)
	return (ok || strings.HasPrefix(path, rpc.AkismetPrefix)) && s.deps.Messages != nil && s.deps.MessagesOpen
}

// known reports whether who asks has a token, or has signed in to the console.
func (s *Server) known(h *fasthttp.RequestHeader, path string) bool {
	if inConsole(path) {
		return s.console != nil && s.console.SignedIn(h)
	}
	_, ok := s.tokens.ofField(h.Peek("Authorization"), s.now())
	return ok
}

// tooLong is what a body gets that is longer than received allows.
func (s *Server) tooLong(ctx *fasthttp.RequestCtx) *problem {
	path, _, _ := strings.Cut(string(ctx.Request.Header.RequestURI()), "?")
	if s.forPartners(path) || s.known(&ctx.Request.Header, path) {
		return bodyTooLarge()
	}
	return s.unauthorized(ctx)
}

// minTTL is the shortest life that a ban or an entry may be given.
const minTTL = time.Second

// parseTTL parses a duration such as 90s, 7d or 1d12h. It must be positive.
func parseTTL(s string) (time.Duration, error) {
	d, err := duration.Parse(s)
	if err == nil && (d <= 0 || s[0] == '+') {
		err = fmt.Errorf("%.60q is not a positive duration", s)
	}
	if err != nil {
		return 0, err
	}
	return d, nil
}

// ttlWithin reads a duration and holds it to the bounds of the API.
func ttlWithin(s string, longest time.Duration) (time.Duration, error) {
	d, err := parseTTL(s)
	if err != nil {
		return 0, err
	}
	if d < minTTL || d > longest {
		return 0, fmt.Errorf("%s is outside of %v..%s", s, minTTL, formatTTL(longest))
	}
	return d, nil
}

// formatTTL prints a duration in the form that parseTTL reads, whole days in front, in whole seconds.
func formatTTL(d time.Duration) string {
	d = d.Round(time.Second)
	days := d / (24 * time.Hour)
	rest := d % (24 * time.Hour)
	if days == 0 {
		return rest.String()
	}
	if rest == 0 {
		return strconv.FormatInt(int64(days), 10) + "d"
	}
	return strconv.FormatInt(int64(days), 10) + "d" + rest.String()
}
