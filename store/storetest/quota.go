package storetest

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/store"
)

func testSpend(t *testing.T, s store.Store, o Options) {
	spend := func(key string, want bool) {
		t.Helper()
		first, err := s.Spend(bg, b(key), o.unit())
		if err != nil || first != want {
			t.Fatalf("Spend(%q) = %v, %v; want %v", key, first, err, want)
		}
	}
	spend("a", true)
	spend("a", false)
	spend("b", true)
	if o.Clock != nil {
		o.Clock.Advance(o.unit() - time.Millisecond)
		spend("a", false) // and does not extend the TTL
		o.Clock.Advance(time.Millisecond)
		spend("a", true)
	}
	if first, err := s.Spend(bg, b("ever"), 0); err != nil || !first {
		t.Fatalf("Spend for ever = %v, %v", first, err)
	}
	o.advance(2 * o.unit())
	if first, err := s.Spend(bg, b("ever"), 0); err != nil || first {
		t.Fatalf("second Spend for ever = %v, %v", first, err)
	}
}

func testSpendParallel(t *testing.T, s store.Store, _ Options) {
	const callers, keys = 64, 20
	for k := range keys {
		var winners atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range callers {
			wg.Go(func() {
				<-start
				first, err := s.Spend(bg, []byte{byte(k)}, time.Hour)
				if err != nil {
					t.Error(err)
				}
				if first {
					winners.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		if n := winners.Load(); n != 1 {
			t.Fatalf("key %d was spent %d times", k, n)
		}
	}
}

func testTake(t *testing.T, s store.Store, _ Options) {
	take := func(key string, want, limit, granted int64) {
		t.Helper()
		got, err := s.Take(bg, b(key), want, limit, 0)
		if err != nil || got != granted {
			t.Fatalf("Take(%q, %d of %d) = %d, %v; want %d", key, want, limit, got, err, granted)
		}
	}
	take("a", 0, 10, 0)
	take("a", -5, 10, 0)
	take("a", 4, 10, 4)
	take("a", 4, 10, 4)
	take("a", 4, 10, 2)
	take("a", 4, 10, 0)
	take("a", 1, 5, 0)  // a limit that was lowered
	take("a", 1, -5, 0) // or is nonsense
	take("a", 9, 12, 2) // or was raised
	take("b", 5, 0, 0)  // nothing to take
	take("b", 5, -1, 0) //
	take("b", 5, 100, 5)
	take("big", math.MaxInt64, math.MaxInt64, math.MaxInt64)
	take("big", math.MaxInt64, math.MaxInt64, 0)
	take("min", math.MinInt64, math.MinInt64, 0)
	take("a", 1, math.MinInt64, 0)
	if n, err := s.Incr(bg, b("a"), 0, 0); err != nil || n != 12 {
		t.Fatalf("counter after takes = %d, %v; want 12", n, err)
	}
}

func testTakeParallel(t *testing.T, s store.Store, _ Options) {
	const limit, callers, each = 1000, 32, 20
	var sum atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				n, err := s.Take(bg, b("k"), int64(1+(c+i)%5), limit, time.Hour)
				if err != nil {
					t.Error(err)
				}
				sum.Add(n)
			}
		})
	}
	wg.Wait()
	if sum.Load() != limit { // exactly the limit is granted
		t.Fatalf("granted %d of %d", sum.Load(), limit)
	}
	var total atomic.Int64
	for range callers {
		wg.Go(func() {
			for range each {
				n, err := s.Incr(bg, b("i"), 1, time.Hour)
				if err != nil {
					t.Error(err)
				}
				total.Add(n)
			}
		})
	}
	wg.Wait()
	const n = callers * each
	if total.Load() != n*(n+1)/2 { // each value 1..n was returned once
		t.Fatalf("the values that Incr returned add up to %d; want %d", total.Load(), n*(n+1)/2)
	}
}

func testIncr(t *testing.T, s store.Store, _ Options) {
	incr := func(n, want int64) {
		t.Helper()
		got, err := s.Incr(bg, b("k"), n, 0)
		if err != nil || got != want {
			t.Fatalf("Incr(%d) = %d, %v; want %d", n, got, err, want)
		}
	}
	incr(0, 0)
	incr(-3, 0)
	incr(5, 5)
	incr(-2, 3)
	incr(0, 3)
	incr(-10, 0)
	incr(math.MaxInt64, math.MaxInt64)
	incr(math.MaxInt64, math.MaxInt64)
	incr(1, math.MaxInt64)
	incr(math.MinInt64, 0)
}

func testQuotaTTL(t *testing.T, s store.Store, o Options) {
	u := o.unit()
	take := func(key string, granted int64) {
		t.Helper()
		if got, err := s.Take(bg, b(key), 1, 3, 4*u); err != nil || got != granted {
			t.Fatalf("Take(%q) = %d, %v; want %d", key, got, err, granted)
		}
	}
	// Reads, refusals and counters that never rose above zero start no TTL.
	for _, f := range []func() (int64, error){
		func() (int64, error) { return s.Incr(bg, b("i"), 0, u) },
		func() (int64, error) { return s.Incr(bg, b("i"), -1, u) },
		func() (int64, error) { return s.Take(bg, b("k"), 1, 0, u) },
		func() (int64, error) { return s.Take(bg, b("k"), 0, 3, u) },
	} {
		if n, err := f(); err != nil || n != 0 {
			t.Fatalf("a call that counts nothing = %d, %v", n, err)
		}
	}
	take("k", 1)
	if n, err := s.Incr(bg, b("i"), 1, 4*u); err != nil || n != 1 {
		t.Fatalf("Incr = %d, %v", n, err)
	}
	o.advance(2 * u)
	take("k", 1)
	take("k", 1)
	take("k", 0)
	if n, err := s.Incr(bg, b("i"), -1, 4*u); err != nil || n != 0 {
		t.Fatalf("Incr = %d, %v", n, err)
	}
	if n, err := s.Incr(bg, b("i"), 2, 40*u); err != nil || n != 2 {
		t.Fatalf("Incr = %d, %v", n, err)
	}
	o.advance(2 * u) // four units after creation
	if n, err := s.Incr(bg, b("i"), 0, u); err != nil || n != 0 {
		t.Fatalf("the TTL of a counter was extended: %d, %v", n, err)
	}
	take("k", 1)
	if n, err := s.Incr(bg, b("k"), 0, u); err != nil || n != 1 {
		t.Fatalf("counter that began anew = %d, %v", n, err)
	}
}
