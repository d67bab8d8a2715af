package counter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"antirobot/store"
	"antirobot/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// faulty is a backend that fails when the test says so.
type faulty struct {
	store.Counters
	failAdd, failRead, ill atomic.Bool
	failAfter              atomic.Bool // Add fails after it counted
	adds                   atomic.Int64
	onRead                 func()
}

var errFaulty = errors.New("the store is away")

func (f *faulty) Add(ctx context.Context, d []store.Delta) error {
	f.adds.Add(int64(len(d)))
	if f.failAdd.Load() {
		return errFaulty
	}
	err := f.Counters.Add(ctx, d)
	if f.failAfter.Load() {
		return errFaulty
	}
	return err
}

func (f *faulty) AddUnique(ctx context.Context, u []store.Unique) error {
	if f.failAdd.Load() {
		return errFaulty
	}
	return f.Counters.AddUnique(ctx, u)
}

func (f *faulty) ReadRecords(ctx context.Context, r []store.Record, g func(int, []store.Count)) error {
	if f.failRead.Load() {
		return errFaulty
	}
	if f.onRead != nil {
		f.onRead()
	}
	return f.Counters.ReadRecords(ctx, r, g)
}

func (f *faulty) Healthy() error {
	if f.ill.Load() {
		return errFaulty
	}
	return nil
}

func small() Config {
	c := DefaultConfig()
	c.CacheBytes, c.MaxBuffered = 4<<20, 64*100
	return c
}

// idle returns a Shingler whose goroutine does not run: the test flushes.
func idle(t testing.TB, b store.Counters, now func() time.Time) *Shingler {
	t.Helper()
	s, err := New(small(), Deps{Store: b, Log: zerolog.Nop(), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const slot0 = 2831519

func name1(shingle uint64) store.Counter {
	return store.Counter{Prefix: "p", Shingle: shingle, Type: TypeAddress}
}

func delta(shingle, n uint64) store.Delta {
	return store.Delta{Counter: name1(shingle), Slot: slot0, N: n}
}

func query(shingle uint64) store.Query {
	return store.Query{Counter: name1(shingle), Unit: store.TenMinutes, From: slot0 - 20, To: slot0 + 20}
}

func count(t testing.TB, s *Shingler, shingle uint64) uint64 {
	t.Helper()
	dst := []uint64{99}
	must(t, s.Read(bg, dst, []store.Query{query(shingle)}))
	return dst[0]
}

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
	// While the store is unwell nothing is flushed and nothing lost, until the buffer is full.
	f.ill.Store(true)
	for i := range uint64(10_000) {
		s.Add(delta(i, 1))
	}
	must(t, s.Flush(bg))
	s.Add(delta(0, 1)) // a counter that is there needs no room
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

// TestFailedFlushLeavesNoStaleCache has a store that counted and then failed: reads tell what it holds.
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

func TestDropForgetsWhatIsCached(t *testing.T) {
	s := idle(t, store.NewMemoryCounters(), nil)
	pair := []store.Unique{{Counter: name1(2), PairType: TypePair, Pair: 1, Slot: slot0}}
	s.Add(delta(1, 3))
	must(t, s.AddUnique(bg, pair))
	if count(t, s, 1) != 3 || count(t, s, 2) != 1 {
		t.Fatal("not counted")
	}
	must(t, s.Drop(bg, store.Period{Unit: store.TenMinutes, Number: slot0 + 144}))
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

// TestNoCommitDuringRead tries a flush while the store is being read: the update must not be seen twice.
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

// TestCloseFlushes shows the whole life with the goroutine: updates arrive by themselves, and the rest with Close.
func TestCloseFlushes(t *testing.T) {
	backend := store.NewMemoryCounters()
	cfg := small()
	cfg.FlushEvery = 64 * time.Millisecond
	s, err := New(cfg, Deps{Store: backend, Log: zerolog.Nop()})
	must(t, err)
	must(t, s.Start(bg))
	slot := store.TenMinutes.Number(time.Now())
	s.Add(store.Delta{Counter: name1(1), Slot: slot, N: 1})
	for end := time.Now().Add(10 * time.Second); s.Metrics().Flushed == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is flushed")
		}
	}
	s.Add(store.Delta{Counter: name1(1), Slot: slot, N: 2})
	must(t, s.Close())
	dst := make([]uint64, 1)
	must(t, backend.Read(bg, dst, []store.Query{{Counter: name1(1), Unit: store.TenMinutes, From: slot, To: slot}}))
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

// TestExactUnderConcurrency has one writer per counter who reads after each of its updates, and readers that see no count
// fall, while flushes and cold reads go on.
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
					err := s.AddUnique(bg, []store.Unique{{Counter: name1(w), PairType: TypePair, Pair: i % 50, Slot: slot0}})
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
	for _, field := range []string{"flush_every:", "max_buffered:", "cache_bytes:", "cache_ttl:", "store_timeout:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no word of %s in %v", field, err)
		}
	}
}

// TestModel compares the Shingler with the slow model over random histories: with jumps of the clock over the borders of
// periods, restarts with and without a flush, and flushes that fail.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{t: t, f: &faulty{Counters: store.NewMemoryCounters()}, kept: storetest.NewCounterModel()}
		h.at = time.Unix(int64(1405*14+1)*86400, 0)
		h.s = idle(t, h.f, func() time.Time { return h.at })
		rt.Repeat(map[string]func(*rapid.T){
			"do": h.do, "flush": h.flush, "failing flush": h.failFlush, "restart": h.restart, "crash": h.crash, "jump": h.jump,
			"": h.check,
		})
	})
}

type history struct {
	t       *testing.T
	s       *Shingler
	f       *faulty
	at      time.Time
	kept    *storetest.CounterModel // what is in the store
	pending []store.Delta           // what is not
}

func (h *history) slot(rt *rapid.T) uint32 {
	// Updates come late, and from clocks that are ahead.
	off := rapid.SampledFrom([]int64{0, 0, 0, -600, 600, -86400, 86400}).Draw(rt, "off")
	return store.TenMinutes.Number(h.at.Add(time.Duration(off) * time.Second))
}

func (h *history) query(rt *rapid.T) store.Query {
	q := store.Query{Counter: storetest.DrawCounter(rt)}
	if rapid.Bool().Draw(rt, "days") {
		q.Unit = store.Day
	}
	q.To = q.Unit.Number(h.at) + rapid.Uint32Range(0, 1).Draw(rt, "ahead")
	q.From = q.To - rapid.Uint32Range(0, q.Unit.Kept()-1).Draw(rt, "length")
	return q
}

func (h *history) want(q []store.Query) []uint64 {
	dst := make([]uint64, len(q))
	must(h.t, h.kept.Read(bg, dst, q))
	for i, q := range q {
		for _, d := range h.pending {
			number := d.Slot
			if q.Unit == store.Day {
				number /= 144
			}
			if d.Counter == q.Counter && number >= q.From && number <= q.To {
				dst[i] += d.N
			}
		}
	}
	return dst
}

func (h *history) do(rt *rapid.T) {
	b := &Batch{}
	for range rapid.IntRange(0, 5).Draw(rt, "adds") {
		b.Adds = append(b.Adds, store.Delta{
			Counter: storetest.DrawCounter(rt), Slot: h.slot(rt), N: rapid.Uint64Range(0, 5).Draw(rt, "n"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(rt, "uniques") {
		b.Uniques = append(b.Uniques, store.Unique{
			Counter: storetest.DrawCounter(rt), PairType: TypePair, Pair: rapid.Uint64Range(0, 2).Draw(rt, "pair"), Slot: h.slot(rt),
		})
	}
	for range rapid.IntRange(0, 3).Draw(rt, "queries") {
		b.Queries = append(b.Queries, h.query(rt))
	}
	want := h.want(b.Queries)
	must(h.t, h.s.Do(bg, b))
	if fmt.Sprint(b.Before) != fmt.Sprint(want) {
		rt.Fatalf("values before: %v; want %v", b.Before, want)
	}
	must(h.t, h.kept.AddUnique(bg, b.Uniques))
	h.pending = append(h.pending, b.Adds...)
}

func (h *history) flushed() {
	must(h.t, h.kept.Add(bg, h.pending))
	h.pending = nil
}

func (h *history) flush(*rapid.T) {
	must(h.t, h.s.Flush(bg))
	h.flushed()
}

func (h *history) failFlush(*rapid.T) {
	h.f.failAdd.Store(true)
	_ = h.s.Flush(bg) // fails if there was anything
	h.f.failAdd.Store(false)
	h.pending = nil
}

func (h *history) restart(*rapid.T) {
	must(h.t, h.s.Close())
	h.flushed()
	h.s = idle(h.t, h.f, func() time.Time { return h.at })
}

func (h *history) crash(*rapid.T) {
	h.pending = nil
	h.s = idle(h.t, h.f, func() time.Time { return h.at })
}

func (h *history) jump(rt *rapid.T) {
	h.at = h.at.Add(rapid.SampledFrom([]time.Duration{
		time.Second, 10 * time.Minute, 10*time.Minute - time.Second, 23 * time.Hour, 24 * time.Hour, 13 * 24 * time.Hour, -time.Hour,
	}).Draw(rt, "by"))
	must(h.t, h.s.Retain(bg))
	h.flushed()
	slot, day := store.TenMinutes.Number(h.at), store.Day.Number(h.at)
	must(h.t, errors.Join(
		h.kept.Drop(bg, store.Period{Unit: store.TenMinutes, Number: slot - 144}),
		h.kept.Drop(bg, store.Period{Unit: store.Day, Number: day - 14}),
	))
}

func (h *history) check(rt *rapid.T) {
	var q []store.Query
	for range rapid.IntRange(0, 4).Draw(rt, "queries") {
		q = append(q, h.query(rt))
	}
	got, want := make([]uint64, len(q)), h.want(q)
	must(h.t, h.s.Read(bg, got, q))
	for i := range q {
		if got[i] != want[i] {
			rt.Fatalf("%+v = %d; want %d", q[i], got[i], want[i])
		}
	}
}
