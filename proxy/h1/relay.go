package h1

import (
	"errors"
	"fmt"
	"io"
	"math"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// lazyBody is the largest body that waits (lazyTick) to be sent with its head.
const lazyBody = outSize

func (x *Exchange) relay(o *ForwardOptions) error {
	h := &x.leg.h
	fr := x.frame(h)
	x.upload.settle(false)
	if !x.upload.sent() && (h.Status >= 300 || x.h.Expect && !x.continued) {
		x.c.unkeep() // the service does not want the body
	}
	x.answered = true
	err := x.passAnswer(o, fr)
	if err == nil {
		err = x.relayBody(h, o, fr)
	}
	if err != nil {
		return x.cut(fr, err)
	}
	h.Ended = true
	return x.client.End()
}

// cut ends a broken answer so that the client notices, and returns err.
func (x *Exchange) cut(fr framing, err error) error {
	if errors.Is(err, ErrClientGone) {
		return err
	}
	if !errors.Is(err, errRevoked) {
		x.m.truncated.Inc()
	}
	_ = x.client.Flush()
	x.client.Cut(fr == byClosing)
	return err
}

// withheldBody is the largest withheld body that is read to keep the connection.
const withheldBody = 64 << 10

func (l *leg) withhold() {
	h := &l.h
	left := h.Length
	switch {
	case h.Bodiless(l.x.method):
		left = 0
	case h.Chunked || left < 0 || left > withheldBody:
		h.Close = true
		return
	}
	for left > 0 {
		p, err := l.piece(left)
		if err != nil {
			h.Close = true
			return
		}
		left -= int64(len(p))
	}
	h.Ended = true
}

func (x *Exchange) frame(h *wire.Head) framing {
	switch {
	case h.Bodiless(x.method) || string(x.h.Method) == "HEAD":
		return bare
	case !h.Chunked && h.Length >= 0 && x.rewriter == nil:
		return byLength
	case x.h.Minor == 1:
		return byChunks
	}
	return byClosing
}

func (x *Exchange) relayBody(h *wire.Head, o *ForwardOptions, fr framing) error {
	switch {
	case h.Bodiless(x.method):
		return nil
	case fr == bare: // a made-up request for a client's HEAD
		h.Close = true
		return nil
	case x.rewriter != nil:
		x.leg.startBody(true)
		x.leg.always = true
		return x.rewrite(fr, x.leg.pieces)
	}
	x.leg.startBody(!h.Chunked && h.Length >= 0 && h.Length <= lazyBody)
	if err := x.passAll(fr == byChunks, x.leg.pieces); err != nil {
		return err
	}
	if fr == byChunks {
		x.client.LastChunk(wire.Trailers{Fields: x.leg.trailers(), Drop: o.DropAnswer})
	}
	return nil
}

func (x *Exchange) passAll(chunk bool, next func() ([]byte, error)) error {
	for {
		p, err := next()
		if err == io.EOF { //nolint:errorlint // bare
			return nil
		}
		if err != nil {
			return err
		}
		if err := x.pass(p, chunk); err != nil {
			return err
		}
	}
}

func (x *Exchange) pass(p []byte, chunk bool) error {
	if x.copy != nil {
		x.copy(p)
	}
	return x.client.Write(p, chunk)
}

func brokenChunks(err error) error {
	if err == wire.ErrChunk { //nolint:errorlint // bare
		return fmt.Errorf("%w: malformed chunk", wire.ErrBadResponse)
	}
	return truncated(err)
}

func truncated(err error) error {
	if err == io.EOF { //nolint:errorlint // bare
		return errUpstreamClosed
	}
	return err
}

// Rewriter changes a service's final answer. The exchange's goroutine calls it.
type Rewriter interface {
	// Head may edit the fields, framing included, and returns the remaining ones. body: Body makes the rest, of unknown
	// length.
	Head(status int, fields []request.Field) (_ []request.Field, body bool)
	// Body writes to w in place of r. Errors of both are returned as they are; any other means that the service's body
	// is broken.
	Body(w io.Writer, r io.Reader) error
	// Flush writes what Body holds back. It is called within r.Read, before a wait.
	Flush() error
}

// Reserve counts n bytes as held by this request until it ends, unless all requests exceed their bound.
func (x *Exchange) Reserve(n int) bool {
	if sum := x.bodies.Add(int64(n)); x.cfg.MaxBodiesBytes > 0 && sum > x.cfg.MaxBodiesBytes {
		x.bodies.Add(-int64(n))
		x.m.limitBodies.Inc()
		return false
	}
	x.held += int64(n)
	return true
}

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

func (x *Exchange) rewrite(fr framing, next func() ([]byte, error)) error {
	r := rewriteReader{next: next}
	w := rewriteWriter{x: x, chunk: fr == byChunks}
	err := x.rewriter.Body(&w, &r)
	x.rewriter, x.leg.lazy = nil, false
	switch {
	case w.err != nil:
		return w.err
	case r.err != nil && r.err != io.EOF: //nolint:errorlint // bare
		return r.err
	case err != nil:
		return fmt.Errorf("%w: %w", wire.ErrBadResponse, err)
	case r.err == nil:
		x.leg.h.Close = true // more may follow
	}
	if fr == byChunks {
		x.client.LastChunk(wire.Trailers{})
	}
	return nil
}

func (x *Exchange) flush() error {
	if x.rewriter != nil {
		if err := x.rewriter.Flush(); err != nil {
			return err
		}
	}
	return x.client.Flush()
}

// rewriteReader is the service's body; its error is final.
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

// rewriteWriter is the client's body; its error is final.
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

// startBody prepares leg.pieces. With lazy, the first wait delays output by a tick.
func (l *leg) startBody(lazy bool) {
	l.left, l.lazy, l.always = l.h.Length, lazy, false
	if l.h.Chunked {
		l.d.Reset(true, int(l.x.cfg.MaxHeaderBytes), l.x.cfg.MaxHeaderFields)
	} else if l.left < 0 {
		l.h.Close = true
	}
}

// next returns the next piece of the body, and io.EOF after its proper end. It is valid until the next one.
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

func (l *leg) trailers() []request.Field {
	if !l.h.Chunked {
		return nil
	}
	return l.d.Trailer.Fields
}
