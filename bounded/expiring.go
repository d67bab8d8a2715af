package bounded

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const expiringShards = 64

// Expiring is a bounded table of values that hold until a time. A value that finds no room is refused and counted. Safe for
// concurrent use; a lookup allocates nothing.
type Expiring[K comparable, V any] struct {
	n       atomic.Int64
	most    int64
	seed    maphash.Seed
	refused atomic.Uint64
	shards  [expiringShards]expiringShard[K, V]
}

type expiringShard[K comparable, V any] struct {
	mu sync.RWMutex
	m  map[K]ending[V]
	_  [32]byte
}

type ending[V any] struct {
	end int64 // unix nanoseconds
	is  V
}

// NewExpiring makes a table of at most so many values.
func NewExpiring[K comparable, V any](most int) *Expiring[K, V] {
	t := &Expiring[K, V]{most: int64(most), seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].m = make(map[K]ending[V])
	}
	return t
}

// Len is how many values there are, expired ones included until they are swept.
func (t *Expiring[K, V]) Len() int { return int(t.n.Load()) }

// Refused is how many values found no room.
func (t *Expiring[K, V]) Refused() uint64 { return t.refused.Load() }

func (t *Expiring[K, V]) shard(k K) *expiringShard[K, V] {
	return &t.shards[maphash.Comparable(t.seed, k)%expiringShards]
}

// Put records a value until a time, or replaces it, and reports whether there was room.
func (t *Expiring[K, V]) Put(k K, until time.Time, is V) bool {
	sh := t.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, known := sh.m[k]; !known {
		if t.n.Load() >= t.most {
			t.refused.Add(1)
			return false
		}
		t.n.Add(1)
	}
	sh.m[k] = ending[V]{until.UnixNano(), is}
	return true
}

// Remove removes a value, and reports whether there was one.
func (t *Expiring[K, V]) Remove(k K) bool {
	sh := t.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, known := sh.m[k]; !known {
		return false
	}
	delete(sh.m, k)
	t.n.Add(-1)
	return true
}

// Find returns the value that holds at a time (Unix nanoseconds), and until when it does.
func (t *Expiring[K, V]) Find(k K, at int64) (is V, until time.Time, ok bool) {
	if t.n.Load() == 0 {
		return is, until, false
	}
	sh := t.shard(k)
	sh.mu.RLock()
	x, ok := sh.m[k]
	sh.mu.RUnlock()
	if !ok || x.end <= at {
		return is, until, false
	}
	return x.is, time.Unix(0, x.end), true
}

// Sweep removes the values whose time is over (Unix nanoseconds).
func (t *Expiring[K, V]) Sweep(at int64) {
	t.drop(func(_ K, x ending[V]) bool { return x.end <= at })
}

// Drop removes the values that f selects; it visits all of them.
func (t *Expiring[K, V]) Drop(f func(K) bool) {
	t.drop(func(k K, _ ending[V]) bool { return f(k) })
}

func (t *Expiring[K, V]) drop(is func(K, ending[V]) bool) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for k, x := range sh.m {
			if is(k, x) {
				delete(sh.m, k)
				t.n.Add(-1)
			}
		}
		sh.mu.Unlock()
	}
}
