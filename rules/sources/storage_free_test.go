package sources

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"antirobot/rules"
	"antirobot/store"
)

func (m *MemoryStorage) entries() (n int) {
	for i := range m.shards {
		n += len(m.shards[i].entries) + len(m.shards[i].values)
	}
	return n
}

// TestStorageFrees: what has expired takes up no memory, although nobody asks for it again.
func TestStorageFrees(t *testing.T) {
	ctx, c := context.Background(), newClock()
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // memory
	}
	before := used()
	s := NewMemoryStorage(c.now, 1_000_000)
	const many = 200_000
	for i := range many {
		_, _ = s.Incr(ctx, fmt.Appendf(nil, "a key of some length, as they are: %d", i), 1, time.Minute)
	}
	_ = s.Set(ctx, []byte("text"), []byte("value"), time.Minute)
	_ = s.Set(ctx, []byte("ever"), []byte("value"), 0)
	full := used() - before
	if full > many*120 {
		t.Errorf("%d bytes for each counter", full/many)
	}
	c.advance(time.Minute)
	if left := s.sweep(); left != 0 || s.entries() != 2 {
		t.Errorf("%d will expire, %d entries and values, want those of ever", left, s.entries())
	}
	if after := used() - before; after > full/10 {
		t.Errorf("%d bytes are still in use, of %d", after, full)
	}
	runtime.KeepAlive(s)
}

// TestStorageTicks: the sweep comes by itself, and no more when nothing is left to expire.
func TestStorageTicks(t *testing.T) {
	c := newClock()
	s := NewMemoryStorage(c.now, 1000)
	_, _ = s.Incr(context.Background(), []byte("a"), 1, time.Second)
	if !s.ticking.Load() {
		t.Fatal("no sweep is to come")
	}
	s.tick()
	if !s.ticking.Load() || s.entries() != 1 {
		t.Error("the sweep does not come again")
	}
	c.advance(time.Second)
	s.tick()
	if s.ticking.Load() || s.entries() != 0 {
		t.Error("the sweep goes on over nothing")
	}
}

// TestBuckets: two gateways share the buckets of a store, and share none in memory.
func TestBuckets(t *testing.T) {
	ctx, c := context.Background(), newClock()
	st := store.NewMemory(c.now)
	defer st.Close()
	b := rules.Bucket{Every: 10 * time.Second, Burst: 3}
	draw := func(s Storage, want time.Duration) {
		t.Helper()
		for range 2 { // a look takes nothing
			if wait, err := s.Draw(ctx, []byte("k"), b, false); err != nil || wait != want {
				t.Errorf("would wait %s, %v, want %s", wait, err, want)
			}
		}
		if wait, err := s.Draw(ctx, []byte("k"), b, true); err != nil || wait != want {
			t.Errorf("wait %s, %v, want %s", wait, err, want)
		}
	}
	one, other := NewStoreStorage(st, "p/", c.now), NewStoreStorage(st, "p/", c.now)
	draw(one, 0)
	draw(other, 0)
	draw(one, 0)
	draw(other, 10*time.Second)
	draw(one, 10*time.Second)
	c.advance(9 * time.Second)
	draw(other, time.Second)
	c.advance(time.Second)
	draw(one, 0)
	draw(other, 10*time.Second)
	c.advance(time.Hour)
	draw(other, 0)
	draw(one, 0)
	draw(other, 0)
	draw(one, 10*time.Second)

	memory := NewMemoryStorage(c.now, 1000)
	draw(memory, 0)
	draw(memory, 0)
	draw(memory, 0)
	draw(memory, 10*time.Second)
	c.advance(10 * time.Second)
	draw(memory, 0)
	draw(memory, 10*time.Second)
}
