package proxy

import (
	"io"
	"slices"

	"antirobot/proxy/h1"
	"antirobot/request"
)

// sparing takes the body out of the answer to a preflight that passes although its sender is stopped: browsers read the head
// alone, and services that answer OPTIONS like GET would give a robot all their pages.
func (j *journey) sparing(o *h1.ForwardOptions) {
	if j.decision.Stops() && j.kind() == kindPreflight {
		o.Rewrite = headOnly{}
	}
}

// headOnly is an answer without its body.
type headOnly struct{}

// Head implements h1.Rewriter.
func (headOnly) Head(_ int, fields []request.Field) ([]request.Field, bool) {
	return slices.DeleteFunc(fields, func(f request.Field) bool { return request.EqualFold(f.Name, "Content-Encoding") }), true
}

// spareBody is the largest body that is read, in bytes, so that the service's connection can serve another request.
const spareBody = 64 << 10

// Body implements h1.Rewriter.
func (headOnly) Body(_ io.Writer, r io.Reader) error {
	_, err := io.CopyN(io.Discard, r, spareBody)
	if err == io.EOF { //nolint:errorlint // the reader returns it bare
		return nil
	}
	return err
}

// Flush implements h1.Rewriter.
func (headOnly) Flush() error { return nil }
