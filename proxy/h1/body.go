package h1

import (
	"errors"
	"io"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

type body struct {
	x       *Exchange
	chunked bool
	done    bool
	left    int64 // for Content-Length
	n       int64
	max     int64 // 0: no limit
	since   time.Time
	err     error // sticky
}

func (b *body) start(h *wire.Head) {
	b.chunked, b.left, b.n, b.err, b.max = h.Chunked, max(h.Length, 0), 0, nil, 0
	b.since = time.Time{}
	b.done = !h.Chunked && b.left == 0
}

func (b *body) trailers() []request.Field { return b.x.client.Trailers() }

// read returns data, or io.EOF after the end. Its errors are those of ReadBody, and errStopped.
func (b *body) read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.done {
		return 0, io.EOF
	}
	if !b.chunked {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.x.client.ReadBody(p)
	if !b.chunked {
		b.left -= int64(n)
		b.done = b.left == 0
	} else if err == io.EOF { //nolint:errorlint // bare
		b.done = true
		return 0, io.EOF
	}
	b.n += int64(n)
	switch {
	case err != nil:
		b.err = b.explain(err)
	case b.max > 0 && b.n > b.max:
		b.x.m.limitBody.Inc()
		b.err = ErrBodyTooLarge
	case b.tooSlow():
		b.x.m.limitRead.Inc()
		b.err = errBodyTimeout
	}
	return n, b.err
}

func (b *body) explain(err error) error {
	m := b.x.m
	switch {
	case b.x.upload.stop.Load():
		return errStopped
	case errors.Is(err, wire.ErrChunk), errors.Is(err, ErrBadBody):
		m.badBody.Inc()
		return ErrBadBody
	case isTimeout(err):
		m.limitRead.Inc()
		return errBodyTimeout
	}
	return ErrClientGone
}

func (b *body) tooSlow() bool {
	rate := b.x.cfg.MinBodyRate
	if rate == 0 || b.done {
		return false
	}
	now := clock()
	if b.since.IsZero() {
		b.since = now
	}
	took := now.Sub(b.since)
	return took > 10*time.Second && b.n < int64(took.Seconds()*float64(rate))
}
