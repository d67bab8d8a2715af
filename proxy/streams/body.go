package streams

import (
	"sync"
	"time"
)

// ahead is a body read in a goroutine of its own, so that a caller can stop waiting: an expired deadline would end the
// stream's body.
type ahead struct {
	running bool
	got     chan struct{}
	buf     []byte
	n       int // left in buf
	err     error
	begun   bool // n and err are valid
}

const aheadBytes = 4 << 10

func (s *stream) AwaitBody(by time.Time) bool {
	a := &s.ahead
	if a.begun {
		return true
	}
	if !a.running {
		if a.buf == nil {
			a.buf = make([]byte, aheadBytes)
		}
		a.running = true
		s.armRead()
		body := s.r.Body
		go func() {
			a.n, a.err = readSome(body, a.buf)
			a.got <- struct{}{}
		}()
	}
	timer := time.NewTimer(time.Until(by))
	defer timer.Stop()
	select {
	case <-a.got:
		a.running, a.begun = false, true
		a.buf = a.buf[:a.n]
		return true
	case <-timer.C:
		return false
	}
}

// take returns data that was read ahead; ok is false if there was none.
func (a *ahead) take(p []byte) (n int, ok bool, err error) {
	if a.running {
		<-a.got
		a.running, a.begun = false, true
		a.buf = a.buf[:a.n]
	}
	if !a.begun {
		return 0, false, nil
	}
	n = copy(p, a.buf)
	a.buf = a.buf[n:]
	if len(a.buf) > 0 {
		return n, true, nil
	}
	a.begun, a.buf = false, nil
	if n > 0 {
		return n, true, nil // the error comes again
	}
	return 0, true, a.err
}

func (a *ahead) stop(s *stream) {
	if a.running {
		s.StopBody()
		<-a.got
	}
	*a = ahead{got: a.got}
}

const floodWindow = 10 * time.Second

// Allowance limits how often a client may do what is cheaper for it than for the gateway, in ten seconds. The zero
// value has no limit. Safe for concurrent use, except Most.
type Allowance struct {
	Most int // 0: no limit

	mu    sync.Mutex
	left  int // in this window; negative: a flood
	since time.Time
}

// Take counts an event, and reports whether it is allowed.
func (a *Allowance) Take() bool {
	if a.Most == 0 {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left--; a.left >= 0 {
		return true
	}
	now := time.Now()
	if now.Sub(a.since) < floodWindow {
		return false
	}
	a.since, a.left = now, a.Most-1
	return true
}
