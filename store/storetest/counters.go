package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"antirobot/store"
)

// CounterOptions says what the backend under test can do.
type CounterOptions struct {
	// Reopen closes c and opens its data; nil for a backend that forgets.
	Reopen func(t *testing.T, c store.Counters) store.Counters
	// Close ends c after a history; nil: open's clean-up is soon enough.
	Close func(t *testing.T, c store.Counters)
	// Runs bounds the histories of the property test; 0: rapid's default.
	Runs int
	// Expires says that the backend drops records by its own clock, and ignores Drop.
	Expires bool
}

// RunCounters checks the contract of store.Counters. open registers its own clean-up.
func RunCounters(t *testing.T, open func(t *testing.T) store.Counters, opts CounterOptions) {
	tests := map[string]func(t *testing.T, c store.Counters, o CounterOptions){
		"Periods": testPeriods, "Apart": testApart, "Saturates": testSaturates, "Range": testRange,
		"Unique": testUnique, "Pair": testPair, "UniqueParallel": testUniqueParallel, "AddParallel": testAddParallel,
		"Drop": testDrop, "Refused": testRefused, "Reopen": testCountersReopen,
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) { tests[name](t, open(t), opts) })
	}
	t.Run("Model", func(t *testing.T) { testCounterModel(t, open, opts) })
}

// slot0 is 2023-11-02 07:50 UTC, on day0.
const (
	slot0 = 2831519
	day0  = 19663
)

func counter(shingle uint64) store.Counter {
	return store.Counter{Prefix: "mass_in", Shingle: shingle, Type: 14}
}

func delta(c store.Counter, slot uint32, n uint64) []store.Delta {
	return []store.Delta{{Counter: c, Slot: slot, N: n}}
}

// unique is what c counts of a pair of its own.
func unique(c store.Counter, pair uint64, slot uint32) store.Unique {
	return store.Unique{Counter: c, PairType: 30, Pair: c.Shingle<<32 | pair, Slot: slot}
}

// Read sets dst[i] to the sum of the counts that q[i] asks for.
func Read(ctx context.Context, c store.Records, dst []uint64, q []store.Query) error {
	var records []store.Record
	var owners []int
	for i := range q {
		if err := q[i].Valid(); err != nil {
			return fmt.Errorf("query %d: %w", i, err)
		}
		dst[i] = 0
		per := q[i].Unit.PerRecord()
		for n := q[i].From / per; q[i].From <= q[i].To && n <= q[i].To/per; n++ {
			records = append(records, store.Record{Counter: q[i].Counter, Unit: q[i].Unit, Number: n})
			owners = append(owners, i)
		}
	}
	return c.ReadRecords(ctx, records, func(j int, counts []store.Count) {
		i, base := owners[j], uint64(records[j].Number)*uint64(records[j].Unit.PerRecord())
		for _, n := range counts {
			if p := base + uint64(n.Period); p >= uint64(q[i].From) && p <= uint64(q[i].To) {
				dst[i] = store.AddCounts(dst[i], n.N)
			}
		}
	})
}

func wantCount(t testing.TB, c store.Records, name store.Counter, unit store.Unit, from, to uint32, want uint64) {
	t.Helper()
	dst := []uint64{12345}
	err := Read(bg, c, dst, []store.Query{{Counter: name, Unit: unit, From: from, To: to}})
	if err != nil || dst[0] != want {
		t.Fatalf("count of %v by %v %d..%d = %d, %v; want %d", name, unit, from, to, dst[0], err, want)
	}
}

func testPeriods(t *testing.T, c store.Counters, _ CounterOptions) {
	k := counter(1)
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 0)
	must(t, c.Add(bg, nil))
	must(t, c.Add(bg, delta(k, slot0, 0)))
	wantCount(t, c, k, store.Day, day0, day0, 0)
	must(t, c.Add(bg, delta(k, slot0, 3)))
	must(t, c.Add(bg, delta(k, slot0, 4)))
	must(t, c.Add(bg, []store.Delta{
		{Counter: k, Slot: slot0 + 1, N: 10},
		{Counter: k, Slot: slot0 + 1, N: 20},
		{Counter: k, Slot: day0*144 + 143, N: 100},
		{Counter: k, Slot: day0*144 + 144, N: 1000},
		{Counter: k, Slot: day0*144 - 1, N: 10000},
	}))
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 7)
	wantCount(t, c, k, store.TenMinutes, slot0+1, slot0+1, 30)
	wantCount(t, c, k, store.TenMinutes, slot0, slot0+1, 37)
	wantCount(t, c, k, store.TenMinutes, slot0+2, slot0+1, 0)
	wantCount(t, c, k, store.TenMinutes, day0*144, day0*144+143, 137)
	wantCount(t, c, k, store.TenMinutes, day0*144, day0*144+144, 1137)
	wantCount(t, c, k, store.TenMinutes, day0*144-1, day0*144+143, 10137)
	wantCount(t, c, k, store.Day, day0, day0, 137)
	wantCount(t, c, k, store.Day, day0-1, day0+1, 11137)
	wantCount(t, c, k, store.Day, day0+1, day0+15, 1000)
	// The boundary of a fortnight: 19663 = 1404·14 + 7.
	edge := uint32(1405 * 14)
	must(t, c.Add(bg, []store.Delta{{Counter: k, Slot: (edge - 1) * 144, N: 1}, {Counter: k, Slot: edge * 144, N: 2}}))
	wantCount(t, c, k, store.Day, edge-1, edge-1, 1)
	wantCount(t, c, k, store.Day, edge, edge, 2)
	wantCount(t, c, k, store.Day, edge-1, edge, 3)
	// The first and the last possible periods.
	must(t, c.Add(bg, []store.Delta{{Counter: k, Slot: 0, N: 5}, {Counter: k, Slot: math.MaxUint32, N: 6}}))
	wantCount(t, c, k, store.TenMinutes, 0, 10, 5)
	wantCount(t, c, k, store.TenMinutes, math.MaxUint32-10, math.MaxUint32, 6)
	wantCount(t, c, k, store.Day, 0, 0, 5)
}

func testApart(t *testing.T, c store.Counters, _ CounterOptions) {
	names := []store.Counter{
		{Prefix: "a", Shingle: 1, Type: 1},
		{Prefix: "a", Shingle: 1, Type: 256},
		{Prefix: "a", Shingle: 256, Type: 1},
		{Prefix: "a", Shingle: 0, Type: 0},
		{Prefix: "a", Shingle: math.MaxUint64, Type: math.MaxUint16},
		{Prefix: "a\x00", Shingle: 1, Type: 1},
		{Prefix: "b", Shingle: 1, Type: 1},
		{Prefix: "aa", Shingle: 1, Type: 1},
	}
	for i, k := range names {
		must(t, c.Add(bg, delta(k, slot0, uint64(i+1))))
	}
	q := make([]store.Query, len(names))
	for i, k := range names {
		q[i] = store.Query{Counter: k, Unit: store.TenMinutes, From: slot0, To: slot0}
	}
	got := make([]uint64, len(q))
	must(t, Read(bg, c, got, q))
	for i := range names {
		if got[i] != uint64(i+1) {
			t.Errorf("%v = %d; want %d", names[i], got[i], i+1)
		}
	}
}

func testSaturates(t *testing.T, c store.Counters, _ CounterOptions) {
	k := counter(1)
	must(t, c.Add(bg, delta(k, slot0, math.MaxUint64)))
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, store.MaxCount)
	must(t, c.Add(bg, delta(k, slot0, 1)))
	must(t, c.Add(bg, delta(k, slot0+1, store.MaxCount-1)))
	must(t, c.Add(bg, delta(k, slot0+1, 1)))
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, store.MaxCount)
	wantCount(t, c, k, store.TenMinutes, slot0+1, slot0+1, store.MaxCount)
	wantCount(t, c, k, store.TenMinutes, slot0, slot0+1, store.MaxCount)
	wantCount(t, c, k, store.Day, day0, day0, store.MaxCount)
}

func testRange(t *testing.T, c store.Counters, _ CounterOptions) {
	k := counter(1)
	for i := range uint32(145) {
		must(t, c.Add(bg, delta(k, slot0+i, uint64(i))))
	}
	wantCount(t, c, k, store.TenMinutes, slot0, slot0+144, 144*145/2)
	wantCount(t, c, k, store.Day, day0, day0+14, 144*145/2)
	for _, q := range []store.Query{
		{Counter: k, Unit: store.TenMinutes, From: slot0, To: slot0 + 145},
		{Counter: k, Unit: store.TenMinutes, From: 0, To: math.MaxUint32},
		{Counter: k, Unit: store.Day, From: day0, To: day0 + 15},
	} {
		if err := Read(bg, c, make([]uint64, 1), []store.Query{q}); !errors.Is(err, store.ErrRange) {
			t.Errorf("query over %d..%d %s: %v; want ErrRange", q.From, q.To, q.Unit, err)
		}
	}
}

func testUnique(t *testing.T, c store.Counters, _ CounterOptions) {
	k, other := counter(1), counter(2)
	must(t, c.AddUnique(bg, []store.Unique{unique(k, 7, slot0), unique(k, 7, slot0), unique(k, 8, slot0)}))
	must(t, c.AddUnique(bg, []store.Unique{unique(k, 7, slot0)}))
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 2)
	wantCount(t, c, k, store.Day, day0, day0, 2)
	// The pair is new in these ten minutes, not on this day.
	must(t, c.AddUnique(bg, []store.Unique{unique(k, 7, slot0+1)}))
	wantCount(t, c, k, store.TenMinutes, slot0+1, slot0+1, 1)
	wantCount(t, c, k, store.Day, day0, day0, 2)
	must(t, c.AddUnique(bg, []store.Unique{unique(k, 7, slot0+144)}))
	wantCount(t, c, k, store.TenMinutes, slot0+144, slot0+144, 1)
	wantCount(t, c, k, store.Day, day0+1, day0+1, 1)
	// The type of a pair is part of it.
	seven := unique(k, 7, slot0)
	seven.PairType = 99
	must(t, c.AddUnique(bg, []store.Unique{unique(other, 7, slot0), seven}))
	wantCount(t, c, other, store.TenMinutes, slot0, slot0, 1)
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 3)
	// An ordinary update of the same counter adds to it.
	must(t, c.Add(bg, delta(k, slot0, 10)))
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 13)
}

// testPair: the unique grows once for a pair, by whatever call it was counted.
func testPair(t *testing.T, c store.Counters, _ CounterOptions) {
	k := counter(1)
	u := unique(k, 55, slot0)
	pair := u.PairCounter()
	must(t, c.AddUnique(bg, []store.Unique{u, u}))
	must(t, c.Add(bg, delta(pair, slot0, 5)))
	must(t, c.AddUnique(bg, []store.Unique{u}))
	wantCount(t, c, pair, store.TenMinutes, slot0, slot0, 8)
	wantCount(t, c, pair, store.Day, day0, day0, 8)
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 1)
	// After an ordinary update nothing is left for the unique.
	before := unique(k, 56, slot0)
	must(t, c.Add(bg, delta(before.PairCounter(), slot0, 1)))
	must(t, c.AddUnique(bg, []store.Unique{before}))
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 1)
	before.Slot++
	must(t, c.AddUnique(bg, []store.Unique{before}))
	wantCount(t, c, k, store.TenMinutes, slot0+1, slot0+1, 1)
	wantCount(t, c, k, store.Day, day0, day0, 1)
	wantCount(t, c, before.PairCounter(), store.Day, day0, day0, 3)
	// A pair that is full has been seen.
	full := unique(k, 57, slot0)
	must(t, c.Add(bg, delta(full.PairCounter(), slot0, store.MaxCount)))
	must(t, c.AddUnique(bg, []store.Unique{full}))
	wantCount(t, c, full.PairCounter(), store.TenMinutes, slot0, slot0, store.MaxCount)
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 1)
}

func testUniqueParallel(t *testing.T, c store.Counters, _ CounterOptions) {
	const callers, pairs = 16, 25
	k := counter(1)
	parallel(t, callers, func(w int) (bool, error) {
		var all []store.Unique
		for i := range uint64(pairs) {
			all = append(all, unique(k, (i+uint64(w))%pairs, slot0), unique(counter(i), 1, slot0+uint32(w%2)))
		}
		for batch := range slices.Chunk(all, 6) {
			if err := c.AddUnique(bg, batch); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	// Counter 1 has pairs 0..24, and pair 1 in both slots.
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, pairs)
	wantCount(t, c, k, store.TenMinutes, slot0+1, slot0+1, 1)
	wantCount(t, c, k, store.Day, day0, day0, pairs)
	wantCount(t, c, counter(3), store.TenMinutes, slot0, slot0+1, 2)
	wantCount(t, c, counter(3), store.Day, day0, day0, 1)

	// The window between test and count is short: all callers repeat the same new pair.
	const rounds = 400
	for i := range uint64(rounds) {
		parallel(t, 8, func(int) (bool, error) {
			return true, c.AddUnique(bg, []store.Unique{unique(counter(100), i, slot0)})
		})
	}
	wantCount(t, c, counter(100), store.TenMinutes, slot0, slot0, rounds)
}

func testAddParallel(t *testing.T, c store.Counters, _ CounterOptions) {
	const callers, each = 8, 50
	parallel(t, callers, func(int) (bool, error) {
		for i := range uint32(each) {
			d := append(delta(counter(1), slot0, 1), delta(counter(2), slot0+i%3, 2)...)
			if err := c.Add(bg, d); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	wantCount(t, c, counter(1), store.TenMinutes, slot0, slot0, callers*each)
	wantCount(t, c, counter(2), store.TenMinutes, slot0, slot0+2, 2*callers*each)
	wantCount(t, c, counter(2), store.Day, day0, day0, 2*callers*each)
}

func testDrop(t *testing.T, c store.Counters, o CounterOptions) {
	if o.Expires {
		t.Skip("the backend drops records by its own clock")
	}
	k := counter(1)
	edge := uint32(1405 * 14)
	at := edge * 144
	for _, d := range []uint32{edge - 2, edge - 1, edge, edge + 1} {
		must(t, c.Add(bg, delta(k, d*144+5, 1)))
		must(t, c.AddUnique(bg, []store.Unique{unique(counter(2), 1, d*144+5)}))
	}
	must(t, c.Drop(bg, store.Period{Unit: store.TenMinutes, Number: at + 143})) // rounded down to the day
	wantCount(t, c, k, store.TenMinutes, at-144+5, at-144+5, 0)
	wantCount(t, c, k, store.TenMinutes, at-288+5, at-288+5, 0)
	wantCount(t, c, k, store.TenMinutes, at+5, at+149, 2)
	wantCount(t, c, k, store.Day, edge-2, edge+1, 4) // days are dropped separately
	must(t, c.AddUnique(bg, []store.Unique{unique(counter(2), 1, at-144+5), unique(counter(2), 1, at+5)}))
	wantCount(t, c, counter(2), store.TenMinutes, at-144+5, at-144+5, 1) // its pair was forgotten too
	wantCount(t, c, counter(2), store.TenMinutes, at+5, at+5, 1)         // and this one was not
	must(t, c.Drop(bg, store.Period{Unit: store.Day, Number: edge + 13}))
	wantCount(t, c, k, store.Day, edge-2, edge-1, 0)
	wantCount(t, c, k, store.Day, edge, edge+1, 2)
	must(t, c.Add(bg, delta(k, at-144+5, 9))) // late updates start from zero
	wantCount(t, c, k, store.Day, edge-1, edge-1, 9)
	wantCount(t, c, k, store.TenMinutes, at-144+5, at-144+5, 9)
}

func testRefused(t *testing.T, c store.Counters, _ CounterOptions) {
	ctx, cancel := context.WithCancel(bg)
	cancel()
	k := counter(1)
	read := func(ctx context.Context, q store.Query) error {
		return Read(ctx, c, make([]uint64, 1), []store.Query{q})
	}
	fails(t, context.Canceled, map[string]error{
		"Add":       c.Add(ctx, delta(k, slot0, 1)),
		"AddUnique": c.AddUnique(ctx, []store.Unique{unique(k, 1, slot0)}),
		"Read":      read(ctx, store.Query{Counter: k}),
		"Drop":      c.Drop(ctx, store.Period{}),
		"Sync":      c.Sync(ctx),
	})
	for _, prefix := range []string{"", string(make([]byte, store.MaxPrefix+1))} {
		bad := store.Counter{Prefix: prefix}
		fails(t, store.ErrPrefix, map[string]error{
			"Add":       c.Add(bg, append(delta(k, slot0, 1), delta(bad, slot0, 1)...)),
			"AddUnique": c.AddUnique(bg, []store.Unique{unique(k, 1, slot0), unique(bad, 1, slot0)}),
			"Read":      read(bg, store.Query{Counter: bad}),
		})
	}
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 0) // a batch that is refused as invalid counts nothing
}

func testCountersReopen(t *testing.T, c store.Counters, o CounterOptions) {
	if o.Reopen == nil {
		t.Skip("the backend forgets")
	}
	k := counter(1)
	must(t, c.Add(bg, delta(k, slot0, 3)))
	must(t, c.AddUnique(bg, []store.Unique{unique(counter(2), 1, slot0)}))
	must(t, c.Sync(bg))
	c = o.Reopen(t, c)
	must(t, c.Add(bg, delta(k, slot0, 4)))
	must(t, c.AddUnique(bg, []store.Unique{unique(counter(2), 1, slot0)}))
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 7)
	wantCount(t, c, k, store.Day, day0, day0, 7)
	wantCount(t, c, counter(2), store.Day, day0, day0, 1)
}

// testCounterModel compares with store.MemoryCounters over random histories around days and fortnights.
func testCounterModel(t *testing.T, open func(t *testing.T) store.Counters, o CounterOptions) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; o.Runs > 0 && runs > o.Runs {
			return
		}
		c, m := open(t), store.NewMemoryCounters()
		defer func() {
			if o.Close != nil {
				o.Close(t, c)
			}
		}()
		genDelta := rapid.Custom(func(rt *rapid.T) store.Delta {
			return store.Delta{Counter: DrawCounter(rt), Slot: DrawSlot(rt), N: rapid.Uint64Range(0, 5).Draw(rt, "n")}
		})
		genUnique := rapid.Custom(func(rt *rapid.T) store.Unique { return DrawUnique(rt, DrawSlot(rt)) })
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				d := rapid.SliceOfN(genDelta, 0, 8).Draw(rt, "deltas")
				must(t, errors.Join(c.Add(bg, d), m.Add(bg, d)))
			},
			"unique": func(rt *rapid.T) {
				u := rapid.SliceOfN(genUnique, 0, 8).Draw(rt, "uniques")
				must(t, errors.Join(c.AddUnique(bg, u), m.AddUnique(bg, u)))
			},
			"drop": func(rt *rapid.T) {
				if o.Expires {
					rt.Skip("the backend drops records by its own clock")
				}
				p := store.Period{Unit: store.TenMinutes, Number: DrawSlot(rt)}
				if rapid.Bool().Draw(rt, "days") {
					p = store.Period{Unit: store.Day, Number: p.Number / 144}
				}
				must(t, errors.Join(c.Drop(bg, p), m.Drop(bg, p)))
			},
			"reopen": func(rt *rapid.T) {
				if o.Reopen == nil {
					rt.Skip("the backend forgets")
				}
				c = o.Reopen(t, c)
			},
			"": func(rt *rapid.T) {
				var r []store.Record
				for _, q := range rapid.SliceOfN(rapid.Custom(DrawQuery), 0, 8).Draw(rt, "queries") {
					r = append(r, store.Record{Counter: q.Counter, Unit: q.Unit, Number: q.From / q.Unit.PerRecord()})
				}
				if got, want := records(t, c, r), records(t, m, r); !slices.Equal(got, want) {
					rt.Fatalf("records %+v: %v; store.MemoryCounters gives %v", r, got, want)
				}
			},
		})
	})
}

// records prints the results of ReadRecords, which must contain each record exactly once.
func records(t testing.TB, c store.Counters, r []store.Record) []string {
	t.Helper()
	got := make([]string, len(r))
	must(t, c.ReadRecords(bg, r, func(i int, counts []store.Count) {
		if got[i] != "" {
			t.Errorf("record %d comes twice", i)
		}
		got[i] = fmt.Sprint("counts ", counts)
	}))
	return got
}

// DrawCounter draws one of few counters, so that histories overlap.
func DrawCounter(rt *rapid.T) store.Counter {
	return store.Counter{
		Prefix:  rapid.SampledFrom([]string{"a", "ab"}).Draw(rt, "prefix"),
		Shingle: rapid.Uint64Range(0, 2).Draw(rt, "shingle"),
		Type:    rapid.SampledFrom([]uint16{14, 30, 31}).Draw(rt, "type"),
	}
}

// DrawUnique draws a unique of DrawCounter's counters, whose pair is one of them too. No unique is a pair of another:
// their order is open.
func DrawUnique(rt *rapid.T, slot uint32) store.Unique {
	u := store.Unique{
		Counter: DrawCounter(rt), PairType: 30, Pair: rapid.Uint64Range(0, 2).Draw(rt, "pair"), Slot: slot,
	}
	if u.Type == u.PairType {
		u.Type++
	}
	return u
}

// DrawSlot draws a slot near the boundary of a fortnight or of a day.
func DrawSlot(rt *rapid.T) uint32 {
	day := uint32(1405*14) + rapid.SampledFrom([]uint32{0, 1, 2, 14}).Draw(rt, "day") - 1
	return day*144 + rapid.SampledFrom([]uint32{0, 1, 77, 143}).Draw(rt, "slot")
}

// DrawQuery draws a query that Read allows.
func DrawQuery(rt *rapid.T) store.Query {
	q := store.Query{Counter: DrawCounter(rt), Unit: store.TenMinutes, From: DrawSlot(rt)}
	if rapid.Bool().Draw(rt, "days") {
		q.Unit, q.From = store.Day, q.From/144
	}
	q.To = q.From + rapid.Uint32Range(0, q.Unit.Kept()-1).Draw(rt, "length")
	return q
}

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
			unique(of, 5, slot0), unique(of, 5, slot0), unique(of, 6, slot0), unique(of, 6, slot0+1),
		},
		Adds: []store.Delta{
			{Counter: k, Slot: slot0, N: 3}, {Counter: k, Slot: slot0 + 1, N: 4}, {Counter: k, Slot: slot0, N: 1},
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
	must(t, errors.Join(c.Count(bg, two), c.Count(bg, one), c.Count(bg, two)))
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
	count := func(writer, number, n uint64) {
		t.Helper()
		must(t, c.Count(bg, &store.Batch{Writer: writer, Number: number, Adds: delta(k, slot0, n)}))
	}
	for writer := range uint64(3) {
		for _, number := range []uint64{1, 2, 2, 10, 9} {
			count(writer, number, 1)
		}
	}
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, 9)
	count(7, 1, store.MaxCount)
	count(7, 2, 1)
	wantCount(t, c, k, store.TenMinutes, slot0, slot0, store.MaxCount)
}
