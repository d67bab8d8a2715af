package streams

import (
	"sync"
	"time"
)

// writeLimit bounds how long one write to a stream may take. The deadline of http2.Server runs on after the write, and
// would reset a stream that merely has nothing to send.
type writeLimit struct {
	mu    sync.Mutex
	w     writer
	by    time.Time // when the current write has to be done; zero: none is in progress
	armed bool      // timer is going to call expire
	timer *time.Timer
}

// begin is called before a write. If it takes longer than timeout, the stream is reset, which ends it.
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

// end is called after it.
func (l *writeLimit) end() {
	l.mu.Lock()
	l.w, l.by = nil, time.Time{}
	l.mu.Unlock()
}

// cut ends a write that is in progress.
func (l *writeLimit) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil {
		_ = l.w.SetWriteDeadline(past)
	}
}

// expire looks at the write that is in progress, which may have begun after the timer was set.
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
