package store

import (
	"container/heap"
	"context"
	"hash/maphash"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	memoryShards = 64
	// sweepPerWrite bounds the expired entries that a write removes: more than one, so that a shard shrinks.
	sweepPerWrite = 3
)

// Memory is a Store in this process, for tests and for state that may be lost. Later writes remove expired entries. The
// zero value is not usable.
type Memory struct {
	now    func() time.Time
	seed   maphash.Seed
	closed chan struct{}
	once   sync.Once
	ended  atomic.Bool
	shards [memoryShards]memoryShard
	feeds  feeds
}

// NewMemory returns an empty Memory that reads the time from now (nil: time.Now).
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	m := &Memory{now: now, seed: maphash.MakeSeed(), closed: make(chan struct{})}
	for i := range m.shards {
		m.shards[i].entries = make(map[memoryKey]memoryEntry)
	}
	m.feeds.topics = make(map[string]*memoryTopic)
	return m
}

var _ Store = (*Memory)(nil)

type space uint8

const (
	spaceKV space = iota
	spaceOnce
	spaceQuota
)

type memoryKey struct {
	space space
	key   string
}

type memoryEntry struct {
	val    string
	count  int64
	expiry int64 // Unix milliseconds, 0: never
}

func (e memoryEntry) live(at int64) bool { return e.expiry == 0 || at < e.expiry }

// memoryShard has a part of the keys. A line of the heap whose entry was replaced is stale, and skipped.
type memoryShard struct {
	mu      sync.Mutex
	entries map[memoryKey]memoryEntry
	due     expiryHeap
}

type expiryLine struct {
	at  int64
	key memoryKey
}

type expiryHeap []expiryLine

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)        { *h = append(*h, x.(expiryLine)) }
func (h *expiryHeap) Pop() any {
	a := *h
	last := a[len(a)-1]
	a[len(a)-1] = expiryLine{}
	*h = a[:len(a)-1]
	return last
}

// load returns the live entry of k. The caller holds the lock.
func (s *memoryShard) load(k memoryKey, at int64) (memoryEntry, bool) {
	e, ok := s.entries[k]
	if !ok || !e.live(at) {
		return memoryEntry{}, false
	}
	return e, true
}

// store sets k and removes a few expired entries. The caller holds the lock.
func (s *memoryShard) store(k memoryKey, e memoryEntry, at int64) {
	old, had := s.entries[k]
	s.entries[k] = e
	if e.expiry != 0 && (!had || old.expiry != e.expiry) {
		heap.Push(&s.due, expiryLine{e.expiry, k})
	}
	for range sweepPerWrite {
		if len(s.due) == 0 || s.due[0].at > at {
			break
		}
		l, _ := heap.Pop(&s.due).(expiryLine)
		if x, ok := s.entries[l.key]; ok && x.expiry == l.at {
			delete(s.entries, l.key)
		}
	}
	if len(s.due) > 2*len(s.entries)+64 {
		s.rebuild()
	}
}

// rebuild removes stale lines, so that a key that is often rewritten does not fill the memory.
func (s *memoryShard) rebuild() {
	due := make(expiryHeap, 0, len(s.entries))
	for k, e := range s.entries {
		if e.expiry != 0 {
			due = append(due, expiryLine{e.expiry, k})
		}
	}
	heap.Init(&due)
	s.due = due
}

func (m *Memory) shard(key []byte) *memoryShard {
	return &m.shards[maphash.Bytes(m.seed, key)%memoryShards]
}

// ready returns why a call cannot begin.
func (m *Memory) ready(ctx context.Context, ttl time.Duration) error {
	if m.ended.Load() {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if ttl < 0 {
		return ErrTTL
	}
	return nil
}

// Get implements KV.
func (m *Memory) Get(ctx context.Context, dst, key []byte) ([]byte, error) {
	if err := m.ready(ctx, 0); err != nil {
		return dst, err
	}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.load(memoryKey{spaceKV, string(key)}, m.now().UnixMilli())
	if !ok {
		return dst, ErrNotFound
	}
	return append(dst, e.val...), nil
}

// Put implements KV.
func (m *Memory) Put(ctx context.Context, key, val []byte, ttl time.Duration) error {
	if err := m.ready(ctx, ttl); err != nil {
		return err
	}
	now := m.now()
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(memoryKey{spaceKV, string(key)}, memoryEntry{val: string(val), expiry: ExpiryAt(now, ttl)}, now.UnixMilli())
	return nil
}

// Swap implements KV.
func (m *Memory) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	if err := m.ready(ctx, ttl); err != nil {
		return false, err
	}
	now := m.now()
	k := memoryKey{spaceKV, string(key)}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.load(k, now.UnixMilli())
	if ok != (old != nil) || e.val != string(old) {
		return false, nil
	}
	s.store(k, memoryEntry{val: string(val), expiry: ExpiryAt(now, ttl)}, now.UnixMilli())
	return true, nil
}

// Delete implements KV.
func (m *Memory) Delete(ctx context.Context, key []byte) error {
	if err := m.ready(ctx, 0); err != nil {
		return err
	}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, memoryKey{spaceKV, string(key)})
	return nil
}

// Scan implements KV, in key order, as of its beginning.
func (m *Memory) Scan(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	if err := m.ready(ctx, 0); err != nil {
		return err
	}
	type line struct {
		key string
		memoryEntry
	}
	var lines []line
	at := m.now().UnixMilli()
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for k, e := range s.entries {
			if k.space == spaceKV && strings.HasPrefix(k.key, string(prefix)) && e.live(at) {
				lines = append(lines, line{k.key, e})
			}
		}
		s.mu.Unlock()
	}
	sort.Slice(lines, func(i, j int) bool { return lines[i].key < lines[j].key })
	for _, l := range lines {
		if err := m.ready(ctx, 0); err != nil {
			return err
		}
		at := m.now().UnixMilli()
		if !l.live(at) {
			continue
		}
		var left time.Duration
		if l.expiry != 0 {
			left = TTLLeft(l.expiry, at)
		}
		if err := f([]byte(l.key), []byte(l.val), left); err != nil {
			return err
		}
	}
	return nil
}

// Spend implements Once.
func (m *Memory) Spend(ctx context.Context, key []byte, ttl time.Duration) (bool, error) {
	if err := m.ready(ctx, ttl); err != nil {
		return false, err
	}
	now := m.now()
	k := memoryKey{spaceOnce, string(key)}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, spent := s.load(k, now.UnixMilli()); spent {
		return false, nil
	}
	s.store(k, memoryEntry{expiry: ExpiryAt(now, ttl)}, now.UnixMilli())
	return true, nil
}

// Take implements Quota.
func (m *Memory) Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (int64, error) {
	var granted int64
	_, err := m.count(ctx, key, ttl, func(old int64) int64 {
		granted = Grant(old, want, limit)
		return old + granted
	})
	if err != nil {
		return 0, err
	}
	return granted, nil
}

// Incr implements Quota.
func (m *Memory) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error) {
	return m.count(ctx, key, ttl, func(old int64) int64 { return SaturatingAdd(old, n) })
}

// count sets the counter of key to the result of f, and returns it.
func (m *Memory) count(ctx context.Context, key []byte, ttl time.Duration, f func(int64) int64) (int64, error) {
	if err := m.ready(ctx, ttl); err != nil {
		return 0, err
	}
	now := m.now()
	k := memoryKey{spaceQuota, string(key)}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.load(k, now.UnixMilli())
	n := f(e.count)
	if n == e.count {
		return n, nil
	}
	if !ok {
		e.expiry = ExpiryAt(now, ttl)
	}
	e.count = n
	s.store(k, e, now.UnixMilli())
	return n, nil
}

// Shared implements Store: no other node sees this memory.
func (m *Memory) Shared() bool { return false }

// Healthy implements Store.
func (m *Memory) Healthy() error {
	if m.ended.Load() {
		return ErrClosed
	}
	return nil
}

// Close implements Store: Follow calls return ErrClosed. A second Close does nothing.
func (m *Memory) Close() error {
	m.once.Do(func() {
		m.ended.Store(true)
		close(m.closed)
	})
	return nil
}
