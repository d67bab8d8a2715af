package verdict

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const expiringShards = 64

// expiring is a bounded table of what holds until a time. It is safe for concurrent use; looking up allocates nothing.
type expiring[K comparable, V any] struct {
	n       atomic.Int64
	most    int64
	seed    maphash.Seed
	refused atomic.Uint64 // what found no room
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

func newExpiring[K comparable, V any](most int) *expiring[K, V] {
	t := &expiring[K, V]{most: int64(most), seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].m = make(map[K]ending[V])
	}
	return t
}

func (t *expiring[K, V]) shard(k K) *expiringShard[K, V] {
	return &t.shards[maphash.Comparable(t.seed, k)%expiringShards]
}

// put records what holds until a time, or replaces it. It reports whether there was room.
func (t *expiring[K, V]) put(k K, until time.Time, is V) bool {
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

// remove takes back what was recorded. It reports whether there was something.
func (t *expiring[K, V]) remove(k K) bool {
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

// find returns what holds at a time, in Unix nanoseconds, and until when.
func (t *expiring[K, V]) find(k K, at int64) (is V, until time.Time, ok bool) {
	sh := t.shard(k)
	sh.mu.RLock()
	x, ok := sh.m[k]
	sh.mu.RUnlock()
	if !ok || x.end <= at {
		return is, until, false
	}
	return x.is, time.Unix(0, x.end), true
}

// sweep forgets what is over at a time, in Unix nanoseconds.
func (t *expiring[K, V]) sweep(at int64) {
	t.drop(func(_ K, x ending[V]) bool { return x.end <= at })
}

// drop forgets what is so.
func (t *expiring[K, V]) drop(is func(K, ending[V]) bool) {
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
