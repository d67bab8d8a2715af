package bounded

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Counts counts events by key in fixed windows of the clock, in a table of fixed size without locks. Keys that share a place
// evict each other, which can only allow more. Safe for concurrent use; made by NewCounts.
type Counts[K comparable] struct {
	seed   maphash.Seed
	window int64           // nanoseconds
	places []atomic.Uint64 // tag 24, window 24, count 16
}

const (
	countMost  = 1<<16 - 1
	windowMost = 1<<24 - 1
)

// NewCounts makes a table of so many places, a power of two.
func NewCounts[K comparable](window time.Duration, places int) *Counts[K] {
	return &Counts[K]{seed: maphash.MakeSeed(), window: int64(window), places: make([]atomic.Uint64, places)}
}

// Take counts an event of a key, and reports whether there are at most so many in the window of the clock; one too many
// does not count. most is at most 65534.
func (c *Counts[K]) Take(k K, at time.Time, most int) bool {
	place, empty := c.place(k, at)
	for {
		was := place.Load()
		next := empty + 1
		if was&^countMost == empty {
			next = was + 1
		}
		if next&countMost > uint64(min(max(most, 0), countMost-1)) { //nolint:gosec // not negative
			return false
		}
		if place.CompareAndSwap(was, next) {
			return true
		}
	}
}

// Count returns how many events of a key were counted in the window of the clock.
func (c *Counts[K]) Count(k K, at time.Time) int {
	place, empty := c.place(k, at)
	if was := place.Load(); was&^countMost == empty {
		return int(was & countMost) //nolint:gosec // 16 bits
	}
	return 0
}

// place returns the place of a key, and what it holds before the first event of the window.
func (c *Counts[K]) place(k K, at time.Time) (p *atomic.Uint64, empty uint64) {
	key := maphash.Comparable(c.seed, k)
	window := uint64(at.UnixNano()/c.window) & windowMost //nolint:gosec // after 1970
	return &c.places[key&uint64(len(c.places)-1)], key>>40<<40 | window<<16
}
