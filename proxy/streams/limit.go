package streams

import (
	"sync"
	"time"
)

// writeLimit bounds each write to a stream. http2.Server's deadline continues after the write, and would reset a silent
// stream.
type writeLimit struct {
	mu    sync.Mutex
	w     writer
	by    time.Time // deadline of the write; zero: none
	armed bool      // timer is running
	timer *time.Timer
}

// begin precedes a write, which resets the stream after timeout.
func (l *writeLimit) begin(w writer, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w, l.by = w, time.Now().Add(timeout)
	if l.armed {
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(timeout, l.expire)
		return
	}
	l.timer.Reset(timeout)
}

func (l *writeLimit) end() {
	l.mu.Lock()
	l.w, l.by = nil, time.Time{}
	l.mu.Unlock()
}

func (l *writeLimit) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil {
		_ = l.w.SetWriteDeadline(past)
	}
}

// expire checks the write, which may have begun after the timer was set.
func (l *writeLimit) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if l.w == nil {
		return
	}
	if left := time.Until(l.by); left > 0 {
		l.armed = true
		l.timer.Reset(left)
		return
	}
	_ = l.w.SetWriteDeadline(past)
}
