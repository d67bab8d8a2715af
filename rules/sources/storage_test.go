package sources

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/rules"
	"antirobot/store"
)

// clock is a clock that stands until it is moved.
type clock struct{ at atomic.Int64 } // unix nanoseconds

func newClock() *clock {
	c := new(clock)
	c.at.Store(time.UnixMilli(1_700_000_123_457).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func TestStorages(t *testing.T) {
	c := newClock()
	st := store.NewMemory(c.now)
	defer st.Close()
	for name, s := range map[string]Storage{"memory": NewMemoryStorage(c.now, 1000), "store": NewStoreStorage(st, "p/", c.now)} {
		t.Run(name, func(t *testing.T) {
			incr := func(key string, n, want int64, expire time.Duration) {
				t.Helper()
				if got, err := s.Incr(context.Background(), []byte(key), n, expire); got != want || err != nil {
					t.Errorf("incr %s: %d, %v, want %d", key, got, err, want)
				}
			}
			incr("n", 0, 0, 0)
			incr("n", -1, 0, 0)
			incr("n", 1, 1, time.Minute)
			incr("n", 2, 3, time.Hour) // the expiry stays
			c.advance(time.Minute - time.Millisecond)
			incr("n", 0, 3, 0)
			c.advance(time.Millisecond)
			incr("n", 5, 5, time.Minute) // gone at t ≥ start + timeout
			incr("n", -9, 0, 0)
			incr("ever", 1, 1, 0)
			c.advance(10000 * time.Hour)
			incr("ever", 1, 2, 0)
			if _, err := s.Incr(context.Background(), []byte("ever"), 1, -1); err == nil {
				t.Error("a negative expiry")
			}
		})
	}
}

// TestStorageBound: a full storage keeps its bound, and expired entries give their places back.
func TestStorageBound(t *testing.T) {
	c := newClock()
	s := NewMemoryStorage(c.now, 6400)
	for i := range 100_000 {
		_, _ = s.Incr(context.Background(), fmt.Appendf(nil, "k%d", i), 1, time.Minute)
	}
	if n := s.entries.Len(); n > 6400 || n < 6000 {
		t.Errorf("%d entries", n)
	}
	c.advance(time.Minute)
	if s.sweep(); s.entries.Len() != 0 {
		t.Errorf("%d expired entries stay", s.entries.Len())
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
	memory := NewMemoryStorage(c.now, 1000)
	for _, pair := range [][2]Storage{{memory, memory}, {NewStoreStorage(st, "p/", c.now), NewStoreStorage(st, "p/", c.now)}} {
		one, other := pair[0], pair[1]
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
	}
}

// crowded is a store that lets others run between a look and a change.
type crowded struct {
	store.Store
	swaps atomic.Int64
}

func (c *crowded) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	c.swaps.Add(1)
	for range 100 {
		runtime.Gosched()
	}
	return c.Store.Swap(ctx, key, old, val, ttl)
}

// TestDrawsTogether: callers that draw at the same time get all tokens and no more, at three gateways.
func TestDrawsTogether(t *testing.T) {
	c := newClock()
	st := &crowded{Store: store.NewMemory(c.now)}
	defer st.Close()
	gateways := []*StoreStorage{NewStoreStorage(st, "p/", c.now), NewStoreStorage(st, "p/", c.now), NewStoreStorage(st, "p/", c.now)}
	b := rules.Bucket{Every: time.Hour, Burst: 500}
	const many = 600
	var got, empty atomic.Int64
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range many {
		all.Go(func() {
			<-begin
			wait, err := gateways[i%len(gateways)].Draw(context.Background(), []byte("k"), b, true)
			switch {
			case err != nil:
				t.Error(err)
			case wait == 0:
				got.Add(1)
			case wait == time.Hour:
				empty.Add(1)
			default:
				t.Errorf("wait %s", wait)
			}
		})
	}
	close(begin)
	all.Wait()
	if got.Load() != b.Burst || empty.Load() != many-b.Burst {
		t.Errorf("%d tokens of %d, and %d times none", got.Load(), b.Burst, empty.Load())
	}
	if n := st.swaps.Load(); n > many/2 {
		t.Errorf("%d changes of the value for %d callers", n, many)
	}
}

// stuck is a store whose first change waits.
type stuck struct {
	store.Store
	free, in chan struct{}
}

func (s *stuck) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	s.in <- struct{}{}
	<-s.free
	return s.Store.Swap(ctx, key, old, val, ttl)
}

// TestDrawGivesUp: a caller leaves the line when its time is over, and the others get their tokens.
func TestDrawGivesUp(t *testing.T) {
	c := newClock()
	st := &stuck{Store: store.NewMemory(c.now), free: make(chan struct{}), in: make(chan struct{}, 10)}
	defer st.Close()
	s := NewStoreStorage(st, "p/", c.now)
	b := rules.Bucket{Every: time.Hour, Burst: 3}
	first, third := make(chan time.Duration, 1), make(chan time.Duration, 1)
	draw := func(ctx context.Context, to chan time.Duration) {
		wait, err := s.Draw(ctx, []byte("k"), b, true)
		if err != nil {
			t.Error(err)
		}
		to <- wait
	}
	go draw(context.Background(), first)
	<-st.in
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := s.Draw(ctx, []byte("k"), b, true); err == nil {
		t.Error("drew from a store that hangs")
	}
	go draw(context.Background(), third)
	close(st.free)
	if a, b := <-first, <-third; a != 0 || b != 0 {
		t.Errorf("waits of %s and %s", a, b)
	}
}
