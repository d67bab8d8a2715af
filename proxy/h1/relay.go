package h1

import (
	"errors"
	"fmt"
	"io"

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

// passAll sends all pieces of the service's body to the client.
func (x *Exchange) passAll(chunk bool, next func() ([]byte, error)) error {
	for {
		p, err := next()
		if err == io.EOF { //nolint:errorlint // next returns it bare
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
