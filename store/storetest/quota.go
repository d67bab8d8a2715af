package storetest

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/store"
)

func testSpend(t *testing.T, s store.Store, o Options) {
	spend := func(key string, want bool) {
		t.Helper()
		gives(t, want)(s.Spend(bg, b(key), o.unit()))
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
	gives(t, true)(s.Spend(bg, b("ever"), 0))
	o.advance(2 * o.unit())
	gives(t, false)(s.Spend(bg, b("ever"), 0))
}

func testSpendParallel(t *testing.T, s store.Store, _ Options) {
	for k := range byte(20) {
		spend := func(int) (bool, error) { return s.Spend(bg, []byte{k}, time.Hour) }
		if n := parallel(t, 64, spend); n != 1 {
			t.Fatalf("key %d was spent %d times", k, n)
		}
	}
}

func testTake(t *testing.T, s store.Store, _ Options) {
	for _, step := range []struct {
		key                  string
		want, limit, granted int64
	}{
		{"a", 0, 10, 0},
		{"a", -5, 10, 0},
		{"a", 4, 10, 4},
		{"a", 4, 10, 4},
		{"a", 4, 10, 2},
		{"a", 4, 10, 0},
		{"a", 1, 5, 0},  // a limit that was lowered
		{"a", 1, -5, 0}, // or is nonsense
		{"a", 9, 12, 2}, // or was raised
		{"b", 5, 0, 0},
		{"b", 5, -1, 0},
		{"b", 5, 100, 5},
		{"big", math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{"big", math.MaxInt64, math.MaxInt64, 0},
		{"min", math.MinInt64, math.MinInt64, 0},
		{"a", 1, math.MinInt64, 0},
	} {
		gives(t, step.granted)(s.Take(bg, b(step.key), step.want, step.limit, 0))
	}
	gives(t, int64(12))(s.Incr(bg, b("a"), 0, 0))
}

func testTakeParallel(t *testing.T, s store.Store, _ Options) {
	const limit, callers, each = 1000, 32, 20
	var taken, total atomic.Int64
	parallel(t, callers, func(c int) (bool, error) {
		for i := range each {
			n, err := s.Take(bg, b("k"), int64(1+(c+i)%5), limit, time.Hour)
			if err != nil {
				return false, err
			}
			taken.Add(n)
			if n, err = s.Incr(bg, b("i"), 1, time.Hour); err != nil {
				return false, err
			}
			total.Add(n)
		}
		return true, nil
	})
	if taken.Load() != limit { // exactly the limit is granted
		t.Errorf("granted %d of %d", taken.Load(), limit)
	}
	const n = callers * each
	if total.Load() != n*(n+1)/2 { // each value 1..n was returned once
		t.Errorf("the values that Incr returned add up to %d; want %d", total.Load(), n*(n+1)/2)
	}
}

func testIncr(t *testing.T, s store.Store, _ Options) {
	for _, step := range [][2]int64{
		{0, 0},
		{-3, 0},
		{5, 5},
		{-2, 3},
		{0, 3},
		{-10, 0},
		{math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64},
		{1, math.MaxInt64},
		{math.MinInt64, 0},
	} {
		gives(t, step[1])(s.Incr(bg, b("k"), step[0], 0))
	}
}

func testQuotaTTL(t *testing.T, s store.Store, o Options) {
	u := o.unit()
	none := gives(t, int64(0))
	// Reads, refusals and counters that never rose above zero start no TTL.
	none(s.Incr(bg, b("i"), 0, u))
	none(s.Incr(bg, b("i"), -1, u))
	none(s.Take(bg, b("k"), 1, 0, u))
	none(s.Take(bg, b("k"), 0, 3, u))
	take := func() (int64, error) { return s.Take(bg, b("k"), 1, 3, 4*u) }
	one := gives(t, int64(1))
	one(take())
	one(s.Incr(bg, b("i"), 1, 4*u))
	o.advance(2 * u)
	one(take())
	one(take())
	none(take())
	none(s.Incr(bg, b("i"), -1, 4*u))
	gives(t, int64(2))(s.Incr(bg, b("i"), 2, 40*u))
	o.advance(2 * u) // four units after creation: the TTL was not extended
	none(s.Incr(bg, b("i"), 0, u))
	one(take())
	one(s.Incr(bg, b("k"), 0, u))
}
