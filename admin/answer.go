package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/valyala/fasthttp"

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
