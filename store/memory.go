package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// MemoryFeedKept is how many messages of a topic Memory keeps.
const MemoryFeedKept = 4096

// Memory is a Store in this process, for tests and for state that may be lost. Made by NewMemory.
type Memory struct {
	now    func() time.Time
	closed chan struct{}

	mu      sync.Mutex
	ended   bool
	entries map[memoryKey]memoryEntry
	sweepAt int // the number of entries that causes a sweep
	topics  map[string]*memoryTopic
}

// NewMemory returns an empty Memory that reads the time from now (nil: time.Now).
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{
		now: now, closed: make(chan struct{}), entries: map[memoryKey]memoryEntry{}, sweepAt: memorySweep,
		topics: map[string]*memoryTopic{},
	}
}

var _ Store = (*Memory)(nil)

type space uint8

const (
	spaceKV space = iota
	spaceOnce
	spaceQuota
)

// memorySweep is the least number of entries that causes a sweep. The next one comes when they have doubled.
const memorySweep = 1024

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

// with runs f under the lock, if a call can begin.
func (m *Memory) with(ctx context.Context, ttl time.Duration, f func(now time.Time)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if ttl < 0 {
		return ErrTTL
	}
	f(m.now())
	return nil
}

// change replaces the entry of key, empty if it is absent, by the result of f, unless that is false.
func (m *Memory) change(
	ctx context.Context, s space, key []byte, ttl time.Duration, f func(e memoryEntry, there bool) (memoryEntry, bool),
) error {
	return m.with(ctx, ttl, func(now time.Time) {
		k, at := memoryKey{s, string(key)}, now.UnixMilli()
		e, there := m.entries[k]
		if there = there && e.live(at); !there {
			e = memoryEntry{}
		}
		next, ok := f(e, there)
		if !ok {
			return
		}
		if next.expiry = ExpiryAt(now, ttl); there && s == spaceQuota {
			next.expiry = e.expiry
		}
		m.entries[k] = next
		if len(m.entries) >= m.sweepAt {
			maps.DeleteFunc(m.entries, func(_ memoryKey, e memoryEntry) bool { return !e.live(at) })
			m.sweepAt = max(memorySweep, 2*len(m.entries))
		}
	})
}

// Get implements KV.
func (m *Memory) Get(ctx context.Context, dst, key []byte) ([]byte, error) {
	var e memoryEntry
	ok := false
	err := m.with(ctx, 0, func(now time.Time) {
		e, ok = m.entries[memoryKey{spaceKV, string(key)}]
		ok = ok && e.live(now.UnixMilli())
	})
	switch {
	case err != nil:
		return dst, err
	case !ok:
		return dst, ErrNotFound
	}
	return append(dst, e.val...), nil
}

// Put implements KV.
func (m *Memory) Put(ctx context.Context, key, val []byte, ttl time.Duration) error {
	return m.change(ctx, spaceKV, key, ttl, func(memoryEntry, bool) (memoryEntry, bool) {
		return memoryEntry{val: string(val)}, true
	})
}

// Swap implements KV.
func (m *Memory) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (ok bool, err error) {
	err = m.change(ctx, spaceKV, key, ttl, func(e memoryEntry, there bool) (memoryEntry, bool) {
		ok = there == (old != nil) && e.val == string(old)
		return memoryEntry{val: string(val)}, ok
	})
	return ok, err
}

// Delete implements KV.
func (m *Memory) Delete(ctx context.Context, key []byte) error {
	return m.with(ctx, 0, func(time.Time) { delete(m.entries, memoryKey{spaceKV, string(key)}) })
}

// Scan implements KV, in key order, of the keys at its beginning.
func (m *Memory) Scan(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	found := map[string]memoryEntry{}
	err := m.with(ctx, 0, func(time.Time) {
		for k, e := range m.entries {
			if k.space == spaceKV && strings.HasPrefix(k.key, string(prefix)) {
				found[k.key] = e
			}
		}
	})
	if err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(found)) {
		e, at := found[k], int64(0)
		if err := m.with(ctx, 0, func(now time.Time) { at = now.UnixMilli() }); err != nil {
			return err
		}
		if !e.live(at) {
			continue
		}
		var left time.Duration
		if e.expiry != 0 {
			left = TTLLeft(e.expiry, at)
		}
		if err := f([]byte(k), []byte(e.val), left); err != nil {
			return err
		}
	}
	return nil
}

// Spend implements Once.
func (m *Memory) Spend(ctx context.Context, key []byte, ttl time.Duration) (first bool, err error) {
	err = m.change(ctx, spaceOnce, key, ttl, func(e memoryEntry, spent bool) (memoryEntry, bool) {
		first = !spent
		return e, first
	})
	return first, err
}

// Take implements Quota.
func (m *Memory) Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (granted int64, err error) {
	err = m.change(ctx, spaceQuota, key, ttl, func(e memoryEntry, _ bool) (memoryEntry, bool) {
		granted = Grant(e.count, want, limit)
		e.count += granted
		return e, granted > 0
	})
	return granted, err
}

// Incr implements Quota.
func (m *Memory) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (sum int64, err error) {
	err = m.change(ctx, spaceQuota, key, ttl, func(e memoryEntry, _ bool) (memoryEntry, bool) {
		old := e.count
		sum = SaturatingAdd(old, n)
		e.count = sum
		return e, sum != old
	})
	return sum, err
}

// memoryTopic has the messages with the numbers last-len(kept)+1 to last, from 1.
type memoryTopic struct {
	kept []string
	last uint64
	more chan struct{} // closed by the next Append
}

// topic returns a topic. The caller holds the lock.
func (m *Memory) topic(name string) *memoryTopic {
	t := m.topics[name]
	if t == nil {
		t = &memoryTopic{more: make(chan struct{})}
		m.topics[name] = t
	}
	return t
}

func (t *memoryTopic) oldest() uint64 { return t.last + 1 - uint64(len(t.kept)) }

// Append implements Feed.
func (m *Memory) Append(ctx context.Context, topic string, msg []byte) error {
	return m.with(ctx, 0, func(time.Time) {
		t := m.topic(topic)
		t.last++
		if t.kept = append(t.kept, string(msg)); len(t.kept) > MemoryFeedKept {
			t.kept = t.kept[1:]
		}
		close(t.more)
		t.more = make(chan struct{})
	})
}

// Position implements Feed.
func (m *Memory) Position(ctx context.Context, topic string) (pos string, err error) {
	err = m.with(ctx, 0, func(time.Time) { pos = FormatPosition(m.topic(topic).last) })
	return pos, err
}

// Follow implements Feed.
func (m *Memory) Follow(ctx context.Context, topic, from string, f func(pos string, msg []byte) error) error {
	var next uint64
	if from != "" && from != "0" {
		n, err := ParsePosition(from)
		if err != nil {
			return err
		}
		next = n + 1
	}
	err := m.with(ctx, 0, func(time.Time) {
		switch t := m.topic(topic); from {
		case "":
			next = t.last + 1
		case "0":
			next = t.oldest()
		}
	})
	for err == nil {
		var msg []byte
		var more chan struct{}
		gap := false
		err = m.with(ctx, 0, func(time.Time) {
			switch t := m.topic(topic); {
			case next < t.oldest() || next > t.last+1:
				gap = true
			case next == t.last+1:
				more = t.more
			default:
				msg = []byte(t.kept[next-t.oldest()])
			}
		})
		switch {
		case err != nil:
		case gap:
			err = ErrGap
		case more == nil:
			err = f(FormatPosition(next), msg)
			next++
		default:
			select {
			case <-more:
			case <-ctx.Done():
			case <-m.closed:
			}
		}
	}
	return err
}

// Shared implements Store: no other node sees this memory.
func (m *Memory) Shared() bool { return false }

// Healthy implements Store.
func (m *Memory) Healthy() error { return m.with(context.Background(), 0, func(time.Time) {}) }

// Close implements Store: Follow calls return ErrClosed. A second Close does nothing.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.ended = true
		close(m.closed)
	}
	return nil
}
