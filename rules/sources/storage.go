package sources

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"antirobot/bounded"
	"antirobot/rules"
	"antirobot/store"
)

// Storage keeps counters and token buckets that expire. Safe for concurrent use.
type Storage interface {
	// Incr adds n to a counter and returns it, never below zero; 0 reads. A new counter lives for expire (0: for
	// ever) and is never extended.
	Incr(ctx context.Context, key []byte, n int64, expire time.Duration) (int64, error)
	// Draw takes a token and returns 0, or the time until the next token. Without take it only looks.
	Draw(ctx context.Context, key []byte, b rules.Bucket, take bool) (wait time.Duration, err error)
}

// drawn is GCRA: full is when the bucket would be full again, in unix nanoseconds.
func drawn(full, at int64, b rules.Bucket) (next int64, wait time.Duration) {
	next = max(full, at) + int64(b.Every)
	return next, time.Duration(max(0, next-at-b.Burst*int64(b.Every)))
}

const sweepEvery = 15 * time.Second

// MemoryStorage is a Storage in memory. Keys are 128-bit hashes under a secret seed.
type MemoryStorage struct {
	now     func() time.Time
	seeds   [2]maphash.Seed
	entries *bounded.Table[storageKey, storageEntry]
	ticking atomic.Bool
}

type storageKey [2]uint64

type storageEntry struct {
	number  int64
	expires int64
}

// NewMemoryStorage returns a storage of at most maxEntries.
func NewMemoryStorage(now func() time.Time, maxEntries int) *MemoryStorage {
	return &MemoryStorage{
		now: now, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		entries: bounded.NewTable[storageKey, storageEntry](maxEntries, func(k storageKey) uint64 { return k[0] }, nil),
	}
}

type place struct {
	*bounded.Shard[storageKey, storageEntry]
	key  storageKey
	hash uint64
	old  *storageEntry
	at   int64
}

func (m *MemoryStorage) lock(key []byte) (p place, e storageEntry) {
	p.key = storageKey{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
	p.at = m.now().UnixNano()
	p.Shard, p.hash = m.entries.Lock(p.key)
	if p.old = p.Find(p.hash, p.key); p.old != nil && (p.old.expires == 0 || p.at < p.old.expires) {
		e = *p.old
	}
	return p, e
}

func (m *MemoryStorage) put(p place, e storageEntry) {
	if p.old == nil {
		p.old, _ = m.entries.Open(p.Shard, p.hash, p.key)
	}
	*p.old = e
	if e.expires != 0 && !m.ticking.Load() && m.ticking.CompareAndSwap(false, true) {
		time.AfterFunc(sweepEvery, m.sweep)
	}
}

func (m *MemoryStorage) sweep() {
	m.ticking.Store(false)
	at := m.now().UnixNano()
	m.entries.Sweep(func(_ storageKey, e *storageEntry) bool { return e.expires != 0 && e.expires <= at })
	if m.entries.Len() > 0 && m.ticking.CompareAndSwap(false, true) {
		time.AfterFunc(sweepEvery, m.sweep)
	}
}

// Incr implements Storage.
func (m *MemoryStorage) Incr(_ context.Context, key []byte, n int64, expire time.Duration) (int64, error) {
	if expire < 0 {
		return 0, store.ErrTTL
	}
	p, e := m.lock(key)
	defer p.Unlock()
	fresh := e == storageEntry{}
	if n == 0 || n < 0 && fresh {
		return e.number, nil
	}
	if fresh && expire > 0 {
		e.expires = p.at + int64(expire)
	}
	e.number = max(0, store.SaturatingAdd(e.number, n))
	m.put(p, e)
	return e.number, nil
}

// Draw implements Storage.
func (m *MemoryStorage) Draw(_ context.Context, key []byte, b rules.Bucket, take bool) (time.Duration, error) {
	p, e := m.lock(key)
	defer p.Unlock()
	next, wait := drawn(e.number, p.at, b)
	if wait == 0 && take {
		m.put(p, storageEntry{number: next, expires: next})
	}
	return wait, nil
}

func (m *MemoryStorage) set(key []byte, until int64) {
	p, _ := m.lock(key)
	defer p.Unlock()
	m.put(p, storageEntry{number: until, expires: until})
}
