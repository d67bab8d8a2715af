package streams

import (
	"sync"
	"time"
)

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
