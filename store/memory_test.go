package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"antirobot/store"
	"antirobot/store/storetest"
)

func TestMemory(t *testing.T) {
	clock := storetest.NewClock()
	storetest.Run(t, func(*testing.T) store.Store { return store.NewMemory(clock.Now) }, storetest.Options{
		Clock: clock, FeedKept: store.MemoryFeedKept,
	})
}

// TestMemoryForgets shows that expired entries leave the memory although nobody reads them and no goroutine sweeps.
func TestMemoryForgets(t *testing.T) {
	clock := storetest.NewClock()
	m := store.NewMemory(clock.Now)
	ctx := context.Background()
	fill := func(round int) {
		for i := range 5_000 {
			if err := m.Put(ctx, fmt.Appendf(nil, "%d/%d", round, i), make([]byte, 200), time.Minute); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Incr(ctx, []byte("hot"), 1, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(time.Minute)
	}
	heap := func() uint64 {
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return ms.HeapAlloc
	}
	fill(0)
	fill(1)
	before := heap()
	for round := range 10 {
		fill(2 + round)
	}
	if after := heap(); after > before+before/2 {
		t.Errorf("the heap grew from %d to %d bytes though everything expired", before, after)
	}
	runtime.KeepAlive(m)
}

func BenchmarkMemory(b *testing.B) {
	ctx := context.Background()
	m := store.NewMemory(nil)
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key/%d", i)
	}
	b.Run("Take", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			if _, err := m.Take(ctx, keys[i&0xffff], 1, 1<<40, time.Hour); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestMemoryCounters(t *testing.T) {
	var o storetest.CounterOptions
	if raceEnabled {
		o.Runs = 20
	}
	storetest.RunCounters(t, func(*testing.T) store.Counters { return store.NewMemoryCounters() }, o)
}

func TestMemoryCountersClosed(t *testing.T) {
	c := store.NewMemoryCounters()
	if err := errors.Join(c.Healthy(), c.Close()); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(context.Background(), nil); !errors.Is(err, store.ErrClosed) || !errors.Is(c.Healthy(), store.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestUnitNumber(t *testing.T) {
	at := time.Date(2023, 11, 2, 7, 55, 0, 0, time.UTC)
	if n, d := store.TenMinutes.Number(at), store.Day.Number(at); n != 2831519 || d != 19663 {
		t.Errorf("numbers of %v: %d, %d", at, n, d)
	}
	if s := (store.Period{Unit: store.TenMinutes, Number: 2831519}).Start(); !s.Equal(time.Date(2023, 11, 2, 7, 50, 0, 0, time.UTC)) {
		t.Errorf("start: %v", s)
	}
	if n := store.Day.Number(time.Unix(-1, 0)); n != 0 {
		t.Errorf("before the epoch: %d", n)
	}
}
