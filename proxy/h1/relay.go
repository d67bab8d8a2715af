package h1

import (
	"errors"
	"fmt"
	"io"
	"math"

	"antirobot/proxy/h1/wire"
)

// lazyBody is the largest answer body that briefly waits (lazyTick) to be sent together with its head.
const lazyBody = outSize

// relay passes the final answer, whose head has been read, on to the client.
func (x *Exchange) relay(o *ForwardOptions) error {
	h := &x.leg.h
	fr := x.frame(h)
	x.upload.settle(false)
	if !x.upload.sent() && (h.Status >= 300 || x.h.Expect && !x.continued) {
		x.client.Unkeep() // the service does not want the body, so the client need not go on
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

// cut ends an answer that can't be passed on to its end, so that its client, unless it has left, sees that it is not whole. It returns err.
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

// withheldBody is the largest body of a withheld answer that is read, so that the connection can serve another request.
const withheldBody = 64 << 10

// withhold discards the service's answer.
func (x *Exchange) withhold() {
	h := &x.leg.h
	left := h.Length
	switch {
	case h.Bodiless(x.method):
		left = 0
	case h.Chunked || left < 0 || left > withheldBody:
		h.Close = true
		return
	}
	for left > 0 {
		p, err := x.leg.piece(left)
		if err != nil {
			h.Close = true
			return
		}
		left -= int64(len(p))
	}
	h.Ended = true
}

// frame chooses how the client will know the end of the answer.
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
	case fr == bare: // the answer to a made-up request has a body, and the client, who asked with HEAD, wants none
		h.Close = true
		return nil
	case x.rewriter != nil:
		return x.rewrite(fr, x.pieces())
	case fr == byLength:
		return x.relayLength(h.Length)
	case h.Chunked:
		return x.relayChunked(o, fr)
	}
	return x.relayToEnd(fr)
}

// relayLength passes exactly left bytes on.
func (x *Exchange) relayLength(left int64) error {
	l := &x.leg
	l.lazy = left <= lazyBody
	defer func() { l.lazy = false }()
	for left > 0 {
		p, err := l.piece(left)
		if err != nil {
			return truncated(err)
		}
		left -= int64(len(p))
		if err := x.pass(p, false); err != nil {
			return err
		}
	}
	return nil
}

// relayChunked decodes the service's chunks and frames them anew, followed by the trailers. Whatever the service sends is
// passed on before the next wait.
func (x *Exchange) relayChunked(o *ForwardOptions, fr framing) error {
	l := &x.leg
	l.d.Reset(true, int(x.cfg.MaxHeaderBytes), x.cfg.MaxHeaderFields)
	for {
		if l.d.Left == 0 {
			if err := l.d.Next(l.up.R, l); err != nil {
				return brokenChunks(err)
			}
			if l.d.Done {
				break
			}
		}
		p, err := l.piece(l.d.Left)
		if err != nil {
			return truncated(err)
		}
		l.d.Left -= int64(len(p))
		if err := x.pass(p, fr == byChunks); err != nil {
			return err
		}
	}
	if fr == byChunks {
		x.client.LastChunk(wire.Trailers{Fields: l.d.Trailer.Fields, Drop: o.DropAnswer})
	}
	return nil
}

// relayToEnd passes on a body that ends with the service's connection.
func (x *Exchange) relayToEnd(fr framing) error {
	l := &x.leg
	l.h.Close = true
	for {
		p, err := l.piece(math.MaxInt64)
		if err == io.EOF { //nolint:errorlint // leg returns it bare
			break
		}
		if err != nil {
			return err
		}
		if err := x.pass(p, fr == byChunks); err != nil {
			return err
		}
	}
	if fr == byChunks {
		x.client.LastChunk(wire.Trailers{})
	}
	return nil
}

// pass sends a piece of the service's body to the client.
func (x *Exchange) pass(p []byte, chunk bool) error {
	if x.copy != nil {
		x.copy(p)
	}
	return x.client.Write(p, chunk)
}

func brokenChunks(err error) error {
	if err == wire.ErrChunk { //nolint:errorlint // chunks returns it bare
		return fmt.Errorf("%w: malformed chunk", wire.ErrBadResponse)
	}
	return truncated(err)
}

func truncated(err error) error {
	if err == io.EOF { //nolint:errorlint // leg returns it bare
		return errUpstreamClosed
	}
	return err
}
