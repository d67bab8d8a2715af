package h1

import (
	"fmt"
	"io"
	"math"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// Rewriter makes another answer of a service's final one, on its way to the client. Its methods are called by the exchange's
// goroutine.
type Rewriter interface {
	// Head may edit the fields of an answer, among which are those of its framing, and returns those that remain. body says
	// that Body is wanted for what follows them, whose length is then not known.
	Head(status int, fields []request.Field) (_ []request.Field, body bool)
	// Body writes to w what the client gets in place of what r has. The errors of both are to be returned as they are; any
	// other says that the service's body is broken, and the client's is cut short.
	Body(w io.Writer, r io.Reader) error
	// Flush writes what Body holds back although it can be sent. It is called from within r.Read, before that waits.
	Flush() error
}

// Reserve counts n further bytes as held by this request until it ends, as ReadBody does for what it reads, and reports
// false if all requests together would hold too many.
func (x *Exchange) Reserve(n int) bool {
	if sum := x.bodies.Add(int64(n)); x.cfg.MaxBodiesBytes > 0 && sum > x.cfg.MaxBodiesBytes {
		x.bodies.Add(-int64(n))
		x.m.limitBodies.Inc()
		return false
	}
	x.held += int64(n)
	return true
}

// rewriting asks the handler what becomes of the answer.
func (x *Exchange) rewriting(o *ForwardOptions) {
	h := &x.leg.h
	if o.Rewrite == nil || h.Length == 0 {
		return
	}
	fields, body := o.Rewrite.Head(h.Status, h.Fields)
	h.Fields, h.Kinds = fields, h.Kinds[:0]
	for i := range fields {
		h.Kinds = append(h.Kinds, wire.KindOf(fields[i].Name))
	}
	if !body {
		return
	}
	kept := 0
	for i, k := range h.Kinds {
		if k != wire.Length && k != wire.Encoding && k != wire.Trailer {
			h.Fields[kept], h.Kinds[kept] = h.Fields[i], k
			kept++
		}
	}
	h.Fields, h.Kinds = h.Fields[:kept], h.Kinds[:kept]
	if !h.Bodiless(x.method) && string(x.h.Method) != "HEAD" {
		x.rewriter = o.Rewrite
	}
}

// rewrite passes on what the handler makes of the body that next returns the pieces of.
func (x *Exchange) rewrite(fr framing, next func() ([]byte, error)) error {
	r := rewriteReader{next: next}
	w := rewriteWriter{x: x, chunk: fr == byChunks}
	err := x.rewriter.Body(&w, &r)
	x.rewriter, x.leg.lazy = nil, false
	switch {
	case w.err != nil:
		return w.err
	case r.err != nil && r.err != io.EOF: //nolint:errorlint // next returns it bare
		return r.err
	case err != nil:
		return fmt.Errorf("%w: %w", wire.ErrBadResponse, err)
	case r.err == nil:
		x.leg.h.Close = true // more may follow, which nobody wants
	}
	if fr == byChunks {
		x.client.LastChunk(wire.Trailers{})
	}
	return nil
}

// flush sends what waits to be sent to the client.
func (x *Exchange) flush() error {
	if x.rewriter != nil {
		if err := x.rewriter.Flush(); err != nil {
			return err
		}
	}
	return x.client.Flush()
}

// rewriteReader is the service's body; its error stays.
type rewriteReader struct {
	next func() ([]byte, error)
	p    []byte
	err  error
}

func (r *rewriteReader) Read(p []byte) (int, error) {
	if len(r.p) == 0 && r.err == nil {
		r.p, r.err = r.next()
	}
	if len(r.p) == 0 {
		return 0, r.err
	}
	n := copy(p, r.p)
	r.p = r.p[n:]
	return n, nil
}

// rewriteWriter is the client's body; its error stays.
type rewriteWriter struct {
	x     *Exchange
	chunk bool
	err   error
}

func (w *rewriteWriter) Write(p []byte) (int, error) {
	if w.err == nil && len(p) > 0 {
		w.err = w.x.client.Write(p, w.chunk)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// startBody prepares leg.pieces for the body of the answer. With lazy, the first wait delays what is to be sent by a tick.
func (l *leg) startBody(lazy bool) {
	l.left, l.lazy, l.always = l.h.Length, lazy, false
	if l.h.Chunked {
		l.d.Reset(true, int(l.x.cfg.MaxHeaderBytes), l.x.cfg.MaxHeaderFields)
	} else if l.left < 0 {
		l.h.Close = true
	}
}

// next returns the next piece of the body, however it is framed, and io.EOF after its proper end. The piece is valid until the next one.
func (l *leg) next() ([]byte, error) {
	l.lazy = l.lazy || l.always // a compressor need not be flushed before what follows closely
	switch {
	case l.h.Chunked:
		if l.d.Left == 0 {
			if err := l.d.Next(l.up.R, l); err != nil {
				return nil, brokenChunks(err)
			}
			if l.d.Done {
				return nil, io.EOF
			}
		}
		p, err := l.piece(l.d.Left)
		l.d.Left -= int64(len(p))
		return p, truncated(err)
	case l.h.Length < 0:
		return l.piece(math.MaxInt64)
	case l.left == 0:
		l.lazy = false
		return nil, io.EOF
	}
	p, err := l.piece(l.left)
	l.left -= int64(len(p))
	return p, truncated(err)
}

// trailers are those of a chunked body that has ended.
func (l *leg) trailers() []request.Field {
	if !l.h.Chunked {
		return nil
	}
	return l.d.Trailer.Fields
}
