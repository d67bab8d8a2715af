package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"antirobot/store"
)

// CounterModel is the most obvious Counters: a map from period to count. Not safe for concurrent use.
type CounterModel struct {
	counts map[string]uint64
}

// NewCounterModel returns an empty model.
func NewCounterModel() *CounterModel { return &CounterModel{counts: map[string]uint64{}} }

var _ store.Counters = (*CounterModel)(nil)

func modelKey(c store.Counter, u store.Unit, number uint32) string {
	return fmt.Sprintf("%q %d %x %s %d", c.Prefix, c.Type, c.Shingle, u, number)
}

func (m *CounterModel) add(key string, n uint64) {
	if m.counts[key] += n; m.counts[key] > math.MaxInt64 || m.counts[key] < n {
		m.counts[key] = math.MaxInt64
	}
}

// Add implements store.Counters.
func (m *CounterModel) Add(_ context.Context, d []store.Delta) error {
	for _, d := range d {
		m.add(modelKey(d.Counter, store.TenMinutes, d.Slot), d.N)
		m.add(modelKey(d.Counter, store.Day, d.Slot/144), d.N)
	}
	return nil
}

// AddUnique implements store.Counters.
func (m *CounterModel) AddUnique(_ context.Context, u []store.Unique) error {
	for _, u := range u {
		pair := store.Counter{Prefix: u.Prefix, Type: u.PairType, Shingle: u.Pair}
		for unit, number := range map[store.Unit]uint32{store.TenMinutes: u.Slot, store.Day: u.Slot / 144} {
			if m.counts[modelKey(pair, unit, number)] == 0 {
				m.add(modelKey(u.Counter, unit, number), 1)
			}
			m.add(modelKey(pair, unit, number), 1)
		}
	}
	return nil
}

// Read returns the sums of queries.
func (m *CounterModel) Read(_ context.Context, dst []uint64, q []store.Query) error {
	for i, q := range q {
		dst[i] = 0
		for n := int64(q.From); n <= int64(q.To); n++ {
			dst[i] += m.counts[modelKey(q.Counter, q.Unit, uint32(n))]
			dst[i] = min(dst[i], math.MaxInt64)
		}
	}
	return nil
}

// ReadRecords implements store.Counters.
func (m *CounterModel) ReadRecords(_ context.Context, r []store.Record, f func(i int, counts []store.Count)) error {
	for i, r := range r {
		var counts []store.Count
		for p := range r.Unit.PerRecord() {
			if n := m.counts[modelKey(r.Counter, r.Unit, r.Number*r.Unit.PerRecord()+p)]; n > 0 {
				counts = append(counts, store.Count{N: n, Period: uint8(p)})
			}
		}
		f(i, counts)
	}
	return nil
}

// Drop implements store.Counters.
func (m *CounterModel) Drop(_ context.Context, before store.Period) error {
	for key := range m.counts {
		var prefix, unit string
		var typ, number int
		var shingle uint64
		if _, err := fmt.Sscanf(key, "%q %d %x %s %d", &prefix, &typ, &shingle, &unit, &number); err != nil {
			return err
		}
		per := 144
		if before.Unit == store.Day {
			per = 14
		}
		if unit == before.Unit.String() && number/per < int(before.Number)/per {
			delete(m.counts, key)
		}
	}
	return nil
}

// Sync implements store.Counters.
func (m *CounterModel) Sync(context.Context) error { return nil }

// testCounterModel compares with the model over random histories around days and fortnights.
func testCounterModel(t *testing.T, open func(t *testing.T) store.Counters, o CounterOptions) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; o.Runs > 0 && runs > o.Runs {
			return
		}
		c, m := open(t), NewCounterModel()
		defer func() {
			if o.Close != nil {
				o.Close(t, c)
			}
		}()
		genDelta := rapid.Custom(func(rt *rapid.T) store.Delta {
			return store.Delta{Counter: DrawCounter(rt), Slot: DrawSlot(rt), N: rapid.Uint64Range(0, 5).Draw(rt, "n")}
		})
		genUnique := rapid.Custom(func(rt *rapid.T) store.Unique {
			return DrawUnique(rt, DrawSlot(rt))
		})
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
				q := rapid.SliceOfN(rapid.Custom(DrawQuery), 0, 8).Draw(rt, "queries")
				got, want := make([]uint64, len(q)), make([]uint64, len(q))
				must(t, errors.Join(Read(bg, c, got, q), m.Read(bg, want, q)))
				for i := range q {
					if got[i] != want[i] {
						rt.Fatalf("%+v = %d; want %d", q[i], got[i], want[i])
					}
				}
				r := make([]store.Record, len(q))
				for i := range q {
					r[i] = store.Record{
						Counter: q[i].Counter, Unit: q[i].Unit,
						Number: q[i].From / q[i].Unit.PerRecord(),
					}
				}
				if got, want := records(t, c, r), records(t, m, r); !slices.Equal(got, want) {
					rt.Fatalf("records %+v: %v; want %v", r, got, want)
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
		Counter: DrawCounter(rt), PairType: 30, Pair: rapid.Uint64Range(0, 2).Draw(rt, "pair"),
		Slot: slot,
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
