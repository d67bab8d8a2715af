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
	firstTick = 100 * time.Millisecond // first check of the client
	lastTick  = 500 * time.Millisecond // longest interval of checks
	lazyTick  = 2 * time.Millisecond   // delay of a short answer's head
)

// leg is the service's side of an exchange. While it waits, it wakes from time to time (tick) to check the client and
// the service's deadline.
type leg struct {
	x  *Exchange
	up *upstream.Conn // nil outside of Forward
	h  wire.Head
	d  wire.Chunks

	deadline time.Time // that is set
	step     time.Duration
	since    time.Time              // of the wait
	limit    time.Duration          // of the wait
	left     int64                  // of a body of known length
	pieces   func() ([]byte, error) // leg.next, bound once
	always   bool                   // each wait is lazy
	lazy     bool                   // output may wait one more tick
	got      bool
}

func (l *leg) begin(up *upstream.Conn, limit time.Duration) {
	l.up, l.limit = up, limit
	l.deadline = up.ReadBy()
	l.lazy, l.always, l.got = false, false, false
}

// drop closes the connection; err: the service is at fault.
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

// smallWrite always fits into an empty send buffer, so it needs no deadline.
const smallWrite = 4 << 10

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

// piece returns between 1 and most bytes, borrowed until the next wait.
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

// pull waits for bytes: into p, or into the reader's buffer if p is nil. It flushes first, since the wait may be long.
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

func (l *leg) arm(now time.Time) {
	if left := l.deadline.Sub(now); left >= l.step/2 && left <= 2*l.step {
		return
	}
	l.deadline = now.Add(l.step)
	_ = l.up.SetReadDeadline(l.deadline)
}

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
	// While the body comes, its own deadlines apply.
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

func (l *leg) ended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("%w: %w", errUpstreamClosed, err)
}
