package storetest

import (
	"context"
	"math/rand/v2"
	"testing"

	"antirobot/store"
)

// RunRepeatable checks store.Repeatable beyond store.Counters.
func RunRepeatable(t *testing.T, open func(t *testing.T) store.Repeatable) {
	t.Run("Again", func(t *testing.T) { testAgain(t, open(t)) })
	t.Run("Writers", func(t *testing.T) { testWriters(t, open(t)) })
}

// Singly is a Repeatable as store.Counters: each call has a writer of its own.
type Singly struct{ store.Repeatable }

// Add implements store.Counters.
func (c Singly) Add(ctx context.Context, d []store.Delta) error {
	return c.Count(ctx, &store.Batch{Writer: rand.Uint64(), Number: 1, Adds: d})
}

// AddUnique implements store.Counters.
func (c Singly) AddUnique(ctx context.Context, u []store.Unique) error {
	return c.Count(ctx, &store.Batch{Writer: rand.Uint64(), Number: 1, Uniques: u})
}

// testAgain: a batch counts once, however often it comes.
func testAgain(t *testing.T, c store.Repeatable) {
	k, of := counter(1), counter(2)
	one := &store.Batch{
		Writer: 1, Number: 7,
		Uniques: []store.Unique{
			unique(of, 5, slot0), unique(of, 5, slot0), unique(of, 6, slot0),
			unique(of, 6, slot0+1),
		},
		Adds: []store.Delta{
			{Counter: k, Slot: slot0, N: 3},
			{Counter: k, Slot: slot0 + 1, N: 4},
			{Counter: k, Slot: slot0, N: 1},
		},
	}
	two := &store.Batch{Writer: 1, Number: 20, Uniques: []store.Unique{unique(of, 6, slot0), unique(of, 8, slot0)}}
	check := func(uniques, daily uint64) {
		t.Helper()
		wantCount(t, c, k, store.TenMinutes, slot0, slot0, 4)
		wantCount(t, c, k, store.Day, day0, day0, 8)
		wantCount(t, c, of, store.TenMinutes, slot0, slot0, uniques)
		wantCount(t, c, of, store.Day, day0, day0, daily)
	}
	for range 3 {
		must(t, c.Count(bg, one))
		check(2, 2)
	}
	must(t, c.Count(bg, two))
	check(3, 3)
	must(t, c.Count(bg, one))
	must(t, c.Count(bg, two))
	check(3, 3)
	// Uniques know the pairs that others counted, and vice versa.
	must(t, Singly{c}.AddUnique(bg, []store.Unique{unique(of, 8, slot0), unique(of, 9, slot0)}))
	must(t, c.Count(bg, &store.Batch{Writer: 1, Number: 21, Uniques: []store.Unique{unique(of, 9, slot0)}}))
	check(4, 4)
	pair := unique(of, 9, slot0)
	wantCount(t, c, pair.PairCounter(), store.TenMinutes, slot0, slot0, 2)
	must(t, c.Count(bg, &store.Batch{Writer: 1, Number: 22}))
	if c.Count(bg, &store.Batch{Writer: 1, Number: 23, Adds: []store.Delta{{N: 1}}}) == nil {
		t.Error("a counter without a prefix is counted")
	}
}

// testWriters: writers number their batches by themselves.
func testWriters(t *testing.T, c store.Repeatable) {
	k := counter(1)
	for writer := range uint64(3) {
		for _, number := range []uint64{1, 2, 2, 10, 9} {
			must(t, c.Count(bg, &store.Batch{Writer: writer, Number: number, Adds: delta(k, slot0, 1)}))
		}
	}
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 9)
	must(t, c.Count(bg, &store.Batch{Writer: 7, Number: 1, Adds: delta(k, slot0, store.MaxCount)}))
	must(t, c.Count(bg, &store.Batch{Writer: 7, Number: 2, Adds: delta(k, slot0, 1)}))
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, store.MaxCount)
}
