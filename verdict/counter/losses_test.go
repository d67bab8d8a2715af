package counter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/servertest"
	"antirobot/store"
	"antirobot/store/storetest"
)

// TestDoSafely: what it has acknowledged is in the store, and it acknowledges nothing else.
func TestDoSafely(t *testing.T) {
	f := &faulty{Counters: store.NewMemoryCounters()}
	s := idle(t, f, nil)
	b := &Batch{
		Adds:    []store.Delta{delta(1, 3)},
		Uniques: []store.Unique{{Counter: name1(2), PairType: TypePair, Pair: 7, Slot: slot0}},
		Queries: []store.Query{query(1)},
	}
	inStore := func(want uint64) {
		t.Helper()
		var n [1]uint64
		must(t, storetest.Read(bg, f, n[:], []store.Query{query(1)}))
		if n[0] != want {
			t.Errorf("the store has %d, not %d", n[0], want)
		}
	}
	must(t, s.DoSafely(bg, b))
	inStore(3)
	must(t, s.Do(bg, b))
	inStore(3)
	must(t, s.DoSafely(bg, &Batch{Adds: []store.Delta{delta(1, 1)}}))
	inStore(7)
	f.failAdd.Store(true)
	if err := s.DoSafely(bg, b); !errors.Is(err, errFaulty) {
		t.Errorf("a write that failed: %v", err)
	}
	f.failAdd.Store(false)
	must(t, s.DoSafely(bg, &Batch{Adds: []store.Delta{delta(1, 1)}}))
	inStore(8)
	must(t, s.Close())
	if err := s.DoSafely(bg, b); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestLossesAreCounted(t *testing.T) {
	f := &faulty{Counters: store.NewMemoryCounters()}
	s := idle(t, f, nil)
	// A flush that fails loses what it wrote, once.
	s.Add(delta(1, 5))
	f.failAdd.Store(true)
	if err := s.Flush(bg); !errors.Is(err, errFaulty) {
		t.Errorf("Flush: %v", err)
	}
	if err := s.AddUnique(bg, []store.Unique{{Counter: name1(2), Slot: slot0}}); !errors.Is(err, errFaulty) {
		t.Errorf("AddUnique: %v", err)
	}
	f.failAdd.Store(false)
	must(t, s.Flush(bg))
	if n := count(t, s, 1); n != 0 {
		t.Errorf("a lost update is counted: %d", n)
	}
	// While the store is unhealthy nothing is flushed and nothing lost, until the buffer is full.
	f.ill.Store(true)
	for i := range uint64(10_000) {
		s.Add(delta(i, 1))
	}
	must(t, s.Flush(bg))
	s.Add(delta(0, 1)) // an existing counter needs no room
	m := s.Metrics()
	if m.LostFlush != 1 || m.LostUnique != 1 || m.Postponed == 0 || m.Buffered > small().MaxBuffered ||
		m.LostFull == 0 || int(m.LostFull)+m.Buffered != 10_000 {
		t.Errorf("metrics: %+v", m)
	}
	f.ill.Store(false)
	must(t, s.Flush(bg))
	var sum uint64
	for i := range uint64(10_000) {
		sum += count(t, s, i)
	}
	if sum != uint64(m.Buffered)+1 {
		t.Errorf("%d are counted; %d were kept", sum, m.Buffered+1)
	}
}

// TestFailedFlushLeavesNoStaleCache uses a store that counted and then failed: reads must show what it holds.
func TestFailedFlushLeavesNoStaleCache(t *testing.T) {
	f := &faulty{Counters: store.NewMemoryCounters()}
	s := idle(t, f, nil)
	day := store.Query{Counter: name1(1), Unit: store.Day, From: slot0 / 144, To: slot0 / 144}
	dst := make([]uint64, 2)
	must(t, s.Read(bg, dst, []store.Query{query(1), day})) // cached as absent
	s.Add(delta(1, 3))
	f.failAfter.Store(true)
	_ = s.Flush(bg) // fails, as it must
	f.failAfter.Store(false)
	must(t, s.Read(bg, dst, []store.Query{query(1), day}))
	if dst[0] != 3 || dst[1] != 3 {
		t.Errorf("read %v; the store holds 3", dst)
	}
}

func TestReadFailureIsTold(t *testing.T) {
	f := &faulty{Counters: store.NewMemoryCounters()}
	s := idle(t, f, nil)
	f.failRead.Store(true)
	b := &Batch{Adds: []store.Delta{delta(1, 1)}, Queries: []store.Query{query(1)}}
	if err := s.Do(bg, b); !errors.Is(err, errFaulty) || b.Before[0] != 0 {
		t.Errorf("Do: %v, %v", err, b.Before)
	}
	f.failRead.Store(false)
	if n := count(t, s, 1); n != 1 {
		t.Errorf("the update of a batch whose read failed: %d", n)
	}
}

// TestCloseFlushes goes through the whole life with the goroutine: updates arrive by themselves, and the rest with
// Close.
func TestCloseFlushes(t *testing.T) {
	backend := store.NewMemoryCounters()
	s, err := New(small(), Deps{Store: backend, Log: zerolog.Nop(), flushEvery: 64 * time.Millisecond})
	must(t, err)
	must(t, s.Start(bg))
	slot := store.TenMinutes.Number(time.Now())
	s.Add(store.Delta{Counter: name1(1), Slot: slot, N: 1})
	servertest.Eventually(t, "something is flushed", func() bool { return s.Metrics().Flushed > 0 })
	s.Add(store.Delta{Counter: name1(1), Slot: slot, N: 2})
	must(t, s.Close())
	dst := make([]uint64, 1)
	must(t, storetest.Read(bg, backend, dst, []store.Query{{Counter: name1(1), Unit: store.TenMinutes, From: slot, To: slot}}))
	if dst[0] != 3 {
		t.Errorf("in the store: %d", dst[0])
	}
	if err := s.Do(bg, &Batch{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	if err := s.Read(bg, dst, nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	must(t, s.Close())
}

func TestCloseTellsLosses(t *testing.T) {
	f := &faulty{Counters: store.NewMemoryCounters()}
	s, err := New(small(), Deps{Store: f, Log: zerolog.Nop()})
	must(t, err)
	must(t, s.Start(bg))
	f.ill.Store(true)
	s.Add(delta(1, 1))
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "1 sums are lost") {
		t.Errorf("Close with an unwell store: %v", err)
	}
}
