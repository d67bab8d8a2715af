package admin

import (
	"sync"
	"time"
)

const (
	triesEach = 10 // wrong tokens of one address within triesFor
	triesAll  = 100
	triesFor  = time.Minute
	// triesWait is how long an address that has sent too many waits for each further answer.
	triesWait = time.Second
)

// Tries counts wrong tokens by address. A right one is never refused, so this slows guesses down and keeps the log
// short. The zero value is ready for use. It is safe for concurrent use, and bounded by triesAll.
type Tries struct {
	mu    sync.Mutex
	wrong map[string]int
	sum   int
	since time.Time
}

// Allowed reports whether an address may send a further wrong token.
func (t *Tries) Allowed(from string, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong == nil || at.Sub(t.since) > triesFor || at.Before(t.since) {
		t.since, t.sum, t.wrong = at, 0, map[string]int{}
	}
	return t.wrong[from] < triesEach && t.sum < triesAll
}

// Note counts a wrong token of an address, which was allowed.
func (t *Tries) Note(from string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong[from]++
	t.sum++
}
