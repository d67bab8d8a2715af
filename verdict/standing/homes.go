package standing

import (
	"sync"
	"time"
)

// homeShard is a part of the table of addresses that subjects are counted for.
type homeShard struct {
	mu sync.RWMutex
	m  map[[16]byte]homeCount
	_  [32]byte
}

// homeCount is how many subjects an address has: candidates, established ones, and others that are trusted. Those candidates are fresh
// that were first seen on the given day.
type homeCount struct{ candidates, established, trusted, fresh, day uint16 }

// ReturnedAt returns how many subjects of the address are established, or count because they were seen on an earlier day; see
// Counts.
func (t *Table) ReturnedAt(addr [16]byte, at time.Time) int {
	h := t.home(addr)
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := h.m[addr]
	count := int(n.established) + int(n.trusted)
	switch {
	case int(n.candidates) > t.perAddress:
		return count
	case n.day != dayOf(at):
		return count + int(n.candidates)
	}
	return count + max(int(n.candidates)-int(n.fresh), 0)
}

// freshAt notes that a candidate of an address was first seen on a day. Of earlier days than the last nothing is kept.
func (t *Table) freshAt(addr [16]byte, day uint16) {
	h := t.home(addr)
	h.mu.Lock()
	defer h.mu.Unlock()
	n, known := h.m[addr]
	if !known || day < n.day {
		return
	}
	if n.day != day {
		n.day, n.fresh = day, 0
	}
	n.fresh++
	h.m[addr] = n
}
