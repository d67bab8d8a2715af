package sources

import (
	"context"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/rules"
	"antirobot/store"
)

// Storage keeps counters and token buckets that expire. Safe for concurrent use.
type Storage interface {
	// Incr adds n to the counter of key and returns it, never below zero; n = 0 reads. A new counter lives for expire (0: for
	// ever) from its first use, and is never extended.
	Incr(ctx context.Context, key []byte, n int64, expire time.Duration) (int64, error)
	// Draw takes a token from the bucket of key and returns how long to wait for one if it is empty. Without take it only
	// looks.
	Draw(ctx context.Context, key []byte, b rules.Bucket, take bool) (wait time.Duration, err error)
}

// drawn is a generic cell rate algorithm: full is when the bucket would be full again, which is all of its state. Times are
// unix nanoseconds.
func drawn(full, at int64, b rules.Bucket) (next int64, wait time.Duration) {
	next = max(full, at) + int64(b.Every)
	return next, time.Duration(max(0, next-at-b.Burst*int64(b.Every)))
}

const (
	storageShards = 64
	sweepEvery    = 15 * time.Second
	shrinkFrom    = 256 // entries that a shard must have had before its memory is given back
)

// MemoryStorage is a Storage in the memory of this process. Keys are kept as 128-bit hashes under a secret seed: about 60
// bytes per entry. Expired entries are swept; in a full shard they go first, then any.
type MemoryStorage struct {
	now     func() time.Time
	seeds   [2]maphash.Seed
	perPart int
	ticking atomic.Bool // a sweep is scheduled
	shards  [storageShards]storageShard
}

type storageKey [2]uint64

type storageShard struct {
	mu      sync.Mutex
	entries map[storageKey]storageEntry
	most    int      // entries since memory was given back
	_       [40]byte // against false sharing
}

type storageEntry struct {
	number  int64
	expires int64 // unix nanoseconds; 0: never
}

func (e storageEntry) live(at int64) bool { return e.expires == 0 || at < e.expires }

// NewMemoryStorage returns a storage of at most maxEntries.
func NewMemoryStorage(now func() time.Time, maxEntries int) *MemoryStorage {
	m := &MemoryStorage{now: now, perPart: max(1, maxEntries/storageShards)}
	m.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].entries = make(map[storageKey]storageEntry)
	}
	return m
}

// lock returns the locked shard of key, the key's hash, its live entry and the time.
func (m *MemoryStorage) lock(key []byte) (s *storageShard, k storageKey, e storageEntry, at int64) {
	k = storageKey{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
	s, at = &m.shards[k[0]%storageShards], m.now().UnixNano()
	s.mu.Lock()
	if e = s.entries[k]; !e.live(at) {
		e = storageEntry{}
	}
	return s, k, e, at
}

func (m *MemoryStorage) put(s *storageShard, k storageKey, at int64, e storageEntry) {
	if _, ok := s.entries[k]; !ok && len(s.entries) >= m.perPart {
		s.makeRoom(at)
	}
	s.entries[k] = e
	s.most = max(s.most, len(s.entries))
	if e.expires != 0 && !m.ticking.Load() && m.ticking.CompareAndSwap(false, true) {
		time.AfterFunc(sweepEvery, m.sweep)
	}
}

// makeRoom removes the expired of a few entries in the map's random order, or one that is live.
func (s *storageShard) makeRoom(at int64) {
	seen, before := 0, len(s.entries)
	for k, e := range s.entries {
		if seen++; !e.live(at) || seen == 16 && len(s.entries) == before {
			delete(s.entries, k)
		}
		if seen == 16 {
			return
		}
	}
	if len(s.entries) == before {
		for k := range s.entries {
			delete(s.entries, k)
			return
		}
	}
}

// sweep removes expired entries, gives their memory back, and comes again while something is left to expire.
func (m *MemoryStorage) sweep() {
	m.ticking.Store(false)
	at, again := m.now().UnixNano(), false
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for k, e := range s.entries {
			if !e.live(at) {
				delete(s.entries, k)
			} else if e.expires != 0 {
				again = true
			}
		}
		if s.most >= shrinkFrom && len(s.entries) <= s.most/4 { // a map never shrinks
			s.entries, s.most = maps.Collect(maps.All(s.entries)), len(s.entries)
		}
		s.mu.Unlock()
	}
	if again && m.ticking.CompareAndSwap(false, true) {
		time.AfterFunc(sweepEvery, m.sweep)
	}
}

// Incr implements Storage.
func (m *MemoryStorage) Incr(_ context.Context, key []byte, n int64, expire time.Duration) (int64, error) {
	if expire < 0 {
		return 0, store.ErrTTL
	}
	s, k, e, at := m.lock(key)
	defer s.mu.Unlock()
	switch {
	case n == 0 || n < 0 && e == storageEntry{}:
		return e.number, nil
	case e == storageEntry{} && expire > 0:
		e.expires = at + int64(expire)
	}
	e.number = max(0, store.SaturatingAdd(e.number, n))
	m.put(s, k, at, e)
	return e.number, nil
}

// Draw implements Storage.
func (m *MemoryStorage) Draw(_ context.Context, key []byte, b rules.Bucket, take bool) (time.Duration, error) {
	s, k, e, at := m.lock(key)
	defer s.mu.Unlock()
	next, wait := drawn(e.number, at, b)
	if wait == 0 && take {
		m.put(s, k, at, storageEntry{number: next, expires: next})
	}
	return wait, nil
}

// set sets a number that expires at the time that it is.
func (m *MemoryStorage) set(key []byte, until int64) {
	s, k, _, at := m.lock(key)
	defer s.mu.Unlock()
	m.put(s, k, at, storageEntry{number: until, expires: until})
}
