package counter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"antirobot/store"
)

func TestReadsSeeUnflushed(t *testing.T) {
	f := &faulty{Counters: store.NewMemoryCounters()}
	s := idle(t, f, nil)
	for i := range uint64(5) {
		s.Add(delta(1, 1))
		if n := count(t, s, 1); n != i+1 {
			t.Fatalf("after %d updates: %d", i+1, n)
		}
		if i%2 == 1 {
			must(t, s.Flush(bg))
			if n := count(t, s, 1); n != i+1 {
				t.Fatalf("after the flush of %d updates: %d", i+1, n)
			}
		}
	}
	if n := f.adds.Load(); n != 2 {
		t.Errorf("a hot counter cost %d writes in two flushes", n)
	}
	if m := s.Metrics(); m.CacheMiss != 1 || m.CacheHits == 0 {
		t.Errorf("the cache did not follow the flushes: %+v", m)
	}
}

func TestBatchAnswersFromBefore(t *testing.T) {
	s := idle(t, store.NewMemoryCounters(), nil)
	unique := store.Counter{Prefix: "p", Shingle: 9, Type: TypeUnique}
	b := &Batch{
		Adds:    []store.Delta{delta(1, 2), {Counter: unique, Slot: slot0, N: 10}},
		Uniques: []store.Unique{{Counter: unique, PairType: TypePair, Pair: 5, Slot: slot0}},
		Queries: []store.Query{query(1), {Counter: unique, Unit: store.Day, From: slot0 / 144, To: slot0 / 144}},
	}
	for round, want := range [][]uint64{{0, 0}, {2, 11}, {4, 21}} { // the pair counts once
		must(t, s.Do(bg, b))
		if fmt.Sprint(b.Before) != fmt.Sprint(want) {
			t.Fatalf("round %d: %v; want %v", round, b.Before, want)
		}
	}
	b.Reset()
	if len(b.Adds)+len(b.Uniques)+len(b.Queries)+len(b.Before) != 0 {
		t.Error("Reset left something")
	}
}

func TestMalformedBatchChangesNothing(t *testing.T) {
	s := idle(t, store.NewMemoryCounters(), nil)
	bad := store.Counter{Prefix: "a b"}
	for says, b := range map[string]*Batch{
		"unique 1": {Uniques: []store.Unique{{Counter: name1(1), Slot: slot0}, {Counter: bad}}},
		"update 1": {Adds: []store.Delta{delta(1, 1), {Counter: bad}}},
		"query 0":  {Adds: []store.Delta{delta(1, 1)}, Queries: []store.Query{{Counter: bad}}},
		"query 1":  {Adds: []store.Delta{delta(1, 1)}, Queries: []store.Query{query(1), {Counter: name1(1), To: 1000}}},
	} {
		if err := s.Do(bg, b); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v does not say %q", err, says)
		}
	}
	if n := count(t, s, 1); n != 0 {
		t.Errorf("count = %d", n)
	}
}

// TestPairIsACounter: an update of the pair that is not flushed yet leaves nothing for the unique, in its ten minutes and on
// its day.
func TestPairIsACounter(t *testing.T) {
	s := idle(t, store.NewMemoryCounters(), nil)
	u := store.Unique{Counter: name1(2), PairType: TypePair, Pair: 1, Slot: slot0}
	s.Add(store.Delta{Counter: u.PairCounter(), Slot: slot0, N: 3})
	must(t, s.AddUnique(bg, []store.Unique{u}))
	u.Slot++
	must(t, s.AddUnique(bg, []store.Unique{u}))
	read := func(c store.Counter, unit store.Unit, at uint32) uint64 {
		var n [1]uint64
		must(t, s.Read(bg, n[:], []store.Query{{Counter: c, Unit: unit, From: at, To: at}}))
		return n[0]
	}
	day := uint32(slot0 / 144)
	for i, n := range []uint64{
		read(u.Counter, store.TenMinutes, slot0), read(u.Counter, store.TenMinutes, slot0+1), read(u.Counter, store.Day, day),
		read(u.PairCounter(), store.TenMinutes, slot0), read(u.PairCounter(), store.Day, day),
	} {
		if want := []uint64{0, 1, 0, 4, 5}[i]; n != want {
			t.Errorf("count %d is %d, not %d", i, n, want)
		}
	}
}

func TestDropForgetsWhatIsCached(t *testing.T) {
	s := idle(t, store.NewMemoryCounters(), nil)
	pair := []store.Unique{{Counter: name1(2), PairType: TypePair, Pair: 1, Slot: slot0}}
	s.Add(delta(1, 3))
	must(t, s.AddUnique(bg, pair))
	if count(t, s, 1) != 3 || count(t, s, 2) != 1 {
		t.Fatal("not counted")
	}
	must(t, s.drop(bg, store.Period{Unit: store.TenMinutes, Number: slot0 + 144}))
	if a, b := count(t, s, 1), count(t, s, 2); a != 0 || b != 0 {
		t.Errorf("after Drop: %d, %d", a, b)
	}
	must(t, s.AddUnique(bg, pair)) // late, and new again
	s.Add(delta(1, 1))
	if a, b := count(t, s, 1), count(t, s, 2); a != 1 || b != 1 {
		t.Errorf("late updates: %d, %d", a, b)
	}
	must(t, s.Flush(bg))
	if a := count(t, s, 1); a != 1 {
		t.Errorf("late update after its flush: %d", a)
	}
}

// TestNoCommitDuringRead attempts a flush while the store is being read: the update must not be seen twice.
func TestNoCommitDuringRead(t *testing.T) {
	f := &faulty{Counters: store.NewMemoryCounters()}
	s := idle(t, f, nil)
	s.Add(delta(1, 1))
	var flush sync.WaitGroup
	f.onRead = func() {
		done := make(chan struct{})
		flush.Go(func() {
			defer close(done)
			if err := s.Flush(bg); err != nil {
				t.Error(err)
			}
		})
		select {
		case <-done:
			t.Error("a flush went through during a read of its counter")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if n := count(t, s, 1); n != 1 {
		t.Errorf("count = %d", n)
	}
	flush.Wait()
	if n := count(t, s, 1); n != 1 {
		t.Errorf("count after the flush = %d", n)
	}
}

func TestPrefixesAreBounded(t *testing.T) {
	s := idle(t, store.NewMemoryCounters(), nil)
	for i := range maxPrefixes {
		s.Add(store.Delta{Counter: store.Counter{Prefix: fmt.Sprint("p", i)}, Slot: slot0, N: 1})
	}
	if err := s.Read(bg, make([]uint64, 1), []store.Query{{Counter: store.Counter{Prefix: "more"}}}); !errors.Is(err, store.ErrPrefix) {
		t.Errorf("one more: %v", err)
	}
	s.Add(store.Delta{Counter: store.Counter{Prefix: "more"}, Slot: slot0, N: 1})
	if m := s.Metrics(); m.LostFull != 1 {
		t.Errorf("lost: %+v", m)
	}
}

// TestExactUnderConcurrency has one writer per counter that reads after each of its updates, and readers that see no
// count fall, while flushes and cold reads go on.
func TestExactUnderConcurrency(t *testing.T) {
	s := idle(t, store.NewMemoryCounters(), nil)
	ctx, stop := context.WithCancel(bg)
	var loop, work sync.WaitGroup
	loop.Go(func() {
		for ctx.Err() == nil {
			if err := s.Flush(bg); err != nil {
				t.Error(err)
			}
		}
	})
	loop.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			s.forget(s.name(&store.Counter{Prefix: "p", Shingle: uint64(i % 4), Type: TypeAddress}), slot0)
		}
	})
	loop.Go(func() {
		var last [4]uint64
		dst := make([]uint64, 4)
		q := []store.Query{query(0), query(1), query(2), query(3)}
		for ctx.Err() == nil {
			if err := s.Read(bg, dst, q); err != nil {
				t.Error(err)
			}
			for i := range dst {
				if dst[i] < last[i] {
					t.Errorf("counter %d fell from %d to %d", i, last[i], dst[i])
					return
				}
				last[i] = dst[i]
			}
		}
	})
	for w := range uint64(4) {
		work.Go(func() {
			var u uint64
			for i := range uint64(3000) {
				if i%10 == 0 {
					err := s.AddUnique(bg, []store.Unique{{Counter: name1(w), PairType: TypePair, Pair: w<<32 | i%50, Slot: slot0}})
					if err != nil {
						t.Error(err)
						return
					}
					u = min(u+1, 5)
				}
				s.Add(delta(w, 1))
				if n := count(t, s, w); n != i+1+u {
					t.Errorf("counter %d is %d after %d updates and %d pairs", w, n, i+1, u)
					return
				}
			}
		})
	}
	work.Wait()
	stop()
	loop.Wait()
}

func TestZeroAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := idle(t, store.NewMemoryCounters(), nil)
	for i := range uint64(100) {
		s.Add(delta(i, 1))
	}
	must(t, s.Flush(bg))
	dst, q := make([]uint64, 2), []store.Query{query(1), query(2)}
	must(t, s.Read(bg, dst, q))
	s.Add(delta(1, 1))
	u := []store.Unique{{Counter: name1(1), PairType: TypePair, Pair: 1, Slot: slot0}}
	must(t, s.AddUnique(bg, u))
	must(t, s.Read(bg, dst, q))
	d := delta(1, 1)
	if n := testing.AllocsPerRun(1000, func() {
		s.Add(d)
		if s.Read(bg, dst, q) != nil || s.AddUnique(bg, u) != nil {
			t.Error("failed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestConfigValidate(t *testing.T) {
	must(t, DefaultConfig().Validate())
	err := Config{}.Validate()
	for _, field := range []string{"max_buffered:", "cache_bytes:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no word of %s in %v", field, err)
		}
	}
}
