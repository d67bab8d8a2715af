package sources

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/store"
)

// clock is a clock that stands until it is moved. Storages read it in goroutines of their own.
type clock struct{ at atomic.Int64 } // unix nanoseconds

func newClock() *clock {
	c := new(clock)
	c.at.Store(time.UnixMilli(1_700_000_123_457).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// TestStorages runs the same calls over both kinds.
func TestStorages(t *testing.T) {
	c := newClock()
	st := store.NewMemory(c.now)
	defer st.Close()
	for name, s := range map[string]Storage{
		"memory": NewMemoryStorage(c.now, 1000),
		"store":  NewStoreStorage(st, "p/", c.now),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			get := func(key, want string) {
				t.Helper()
				v, ok, err := s.Get(ctx, []byte(key))
				if got := string(v); err != nil || ok != (want != "") || got != want {
					t.Errorf("get %s: %q %v %v, want %q", key, got, ok, err, want)
				}
			}
			yes := func(ok bool, err error, want bool) {
				t.Helper()
				if err != nil || ok != want {
					t.Errorf("%v, %v, want %v", ok, err, want)
				}
			}
			incr := func(key string, n, want int64, expire time.Duration) {
				t.Helper()
				if got, err := s.Incr(ctx, []byte(key), n, expire); got != want || err != nil {
					t.Errorf("incr %s: %d, %v, want %d", key, got, err, want)
				}
			}
			get("a", "")
			_ = s.Set(ctx, []byte("a"), []byte("1"), 0)
			get("a", "1")
			ok, err := s.Add(ctx, []byte("a"), []byte("2"), 0)
			yes(ok, err, false)
			ok, err = s.Append(ctx, []byte("a"), []byte("x"))
			yes(ok, err, true)
			get("a", "1x")
			ok, err = s.Append(ctx, []byte("no"), []byte("x"))
			yes(ok, err, false)
			_ = s.Delete(ctx, []byte("a"))
			get("a", "")
			ok, err = s.Add(ctx, []byte("b"), []byte("2"), time.Minute)
			yes(ok, err, true)
			ok, err = s.Append(ctx, []byte("b"), []byte("3"))
			yes(ok, err, true)
			incr("n", 1, 1, time.Minute)
			incr("n", 2, 3, time.Hour) // the expiry stays
			get("n", "3")
			c.advance(time.Minute - time.Millisecond)
			get("b", "23")
			incr("n", 0, 3, 0)
			c.advance(time.Millisecond)
			get("b", "") // gone at t ≥ start + timeout
			incr("n", 5, 5, time.Minute)
			incr("n", -9, 0, 0)
			incr("ever", 1, 1, 0)
			c.advance(10000 * time.Hour)
			incr("ever", 1, 2, 0)
			if _, err := s.Incr(ctx, []byte("ever"), 1, -1); err == nil {
				t.Error("a negative expiry")
			}
			_ = s.Delete(ctx, []byte("ever"))
			get("ever", "")
		})
	}
}

func TestStorageBound(t *testing.T) {
	c := newClock()
	s := NewMemoryStorage(c.now, 640)
	for i := range 100_000 {
		if _, err := s.Incr(context.Background(), fmt.Appendf(nil, "k%d", i), 1, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for i := range s.shards {
		n += len(s.shards[i].entries)
	}
	if n > 640 || s.evicted.Load() == 0 {
		t.Errorf("%d entries, %d evicted", n, s.evicted.Load())
	}
}
