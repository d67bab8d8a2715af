package streams

import (
	"sync"
	"time"
)

// floodWindow is the time that an Allowance is for.
const floodWindow = 10 * time.Second

// Allowance is how often a client may do in ten seconds what costs it little and the gateway more. The zero value has no limit.
// Safe for concurrent use, but for Most.
type Allowance struct {
	Most int // 0: no limit

	mu    sync.Mutex
	left  int // in this window; below 0: too often
	since time.Time
}

// Take reports whether it may happen once more.
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
