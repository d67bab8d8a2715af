package h1

import (
	"errors"
	"fmt"
	"io"

	"antirobot/proxy/h1/wire"
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
