package h1

import (
	"errors"
	"fmt"
	"io"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/proxy/upstream"
)

const (
	firstTick = 100 * time.Millisecond // how soon after the request the client is first checked
	lastTick  = 500 * time.Millisecond // and how often after that
	lazyTick  = 2 * time.Millisecond   // how long a short answer's first piece waits for the rest
)

// leg is the service's side of one exchange: a source of answers. While it waits for bytes it wakes up from time to time
// (tick) to check whether the client is still there and whether the service's time is up.
type leg struct {
	x  *Exchange
	up *upstream.Conn // nil outside of Forward
	h  wire.Head
	d  wire.Chunks

	deadline time.Time              // the read deadline that is set
	step     time.Duration          // until the next tick
	since    time.Time              // when the present wait began
	limit    time.Duration          // how long it may last
	left     int64                  // of the body, if its length is known
	pieces   func() ([]byte, error) // leg.next, bound once
	always   bool                   // each wait is lazy
	lazy     bool                   // output for the client may be delayed by one more tick
	got      bool                   // a byte of an answer has come
}

func (l *leg) begin(up *upstream.Conn, limit time.Duration) {
	l.up, l.limit = up, limit
	l.deadline = up.ReadBy()
	l.lazy, l.always, l.got = false, false, false
}

// drop closes the connection; a non-nil err means that the service is to blame.
func (l *leg) drop(err error) {
	if l.up != nil {
		l.up.Discard(err)
		l.up = nil
	}
}

func (l *leg) release() {
	l.up.Release()
	l.up = nil
}

// smallWrite always fits into an otherwise empty send buffer, so it needs no deadline.
const smallWrite = 4 << 10

// write sends a request's head.
func (l *leg) write(p []byte) error {
	if len(p) > smallWrite {
		_ = l.up.SetWriteDeadline(clock().Add(l.x.cfg.WriteTimeout))
	}
	_, err := l.up.Write(p)
	return err
}

func (l *leg) Fill() error {
	_, err := l.pull(nil)
	return err
}

func (l *leg) Read(p []byte) (int, error) {
	if l.up.R.Buffered() > 0 {
		return l.up.R.Read(p)
	}
	return l.pull(p)
}

// piece returns between 1 and most bytes, borrowed from the reader until the next wait.
func (l *leg) piece(most int64) ([]byte, error) {
	r := l.up.R
	if r.Buffered() == 0 {
		if err := l.Fill(); err != nil {
			return nil, err
		}
	}
	p, _ := r.Peek(int(min(int64(r.Buffered()), most)))
	_, _ = r.Discard(len(p))
	return p, nil
}

// pull waits for bytes from the service: into p, or into the reader's buffer if p is nil. Anything not yet sent to the
// client is sent first, because the wait may be long.
func (l *leg) pull(p []byte) (n int, err error) {
	if !l.lazy {
		if err := l.x.flush(); err != nil {
			return 0, err
		}
	}
	now := clock()
	if err := l.x.look(now); err != nil {
		return 0, err
	}
	l.since, l.step = now, firstTick
	if l.lazy {
		l.step = lazyTick
	}
	for {
		l.arm(now)
		if err := l.x.upload.clientError(); err != nil { // after the deadline: a failing upload sets its state first
			return 0, err
		}
		if p == nil {
			_, err = l.up.R.Peek(1)
		} else {
			n, err = l.up.R.Read(p)
		}
		if err == nil {
			l.got = true
			return n, nil
		}
		if !isTimeout(err) {
			return 0, l.ended(err)
		}
		now = clock()
		if err := l.tick(now); err != nil {
			return 0, err
		}
	}
}

// arm sets the read deadline to about the next tick; an existing deadline that is close enough stays.
func (l *leg) arm(now time.Time) {
	if left := l.deadline.Sub(now); left >= l.step/2 && left <= 2*l.step {
		return
	}
	l.deadline = now.Add(l.step)
	_ = l.up.SetReadDeadline(l.deadline)
}

// tick is one check during a wait.
func (l *leg) tick(now time.Time) error {
	x := l.x
	if l.lazy {
		l.lazy = false
		l.step = firstTick
		return x.flush()
	}
	if err := x.upload.clientError(); err != nil {
		return err
	}
	uploading := x.upload.running()
	begun := l.since
	if at := x.upload.lastAt(); at.After(begun) {
		begun = at
	}
	// A service that wants the body first gets it: while the body comes, its own deadlines apply.
	if now.Sub(begun) >= l.limit && (!uploading || x.answered) {
		x.m.limitUpstream.Inc()
		return errUpstreamTimeout
	}
	if x.h.Expect && !x.continued && !x.answered && now.Sub(l.since) >= x.cfg.ContinueTimeout {
		if err := x.sendContinue(); err != nil {
			return err
		}
	}
	l.step = min(2*l.step, lastTick)
	if x.client.Gone(now, uploading) {
		x.gone = true
		return ErrClientGone
	}
	return x.look(now)
}

// ended explains why the service's bytes ended.
func (l *leg) ended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("%w: %w", errUpstreamClosed, err)
}
