package counter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/store"
	"antirobot/store/storetest"
)

// TestModel compares the Shingler with the slow model over random histories, with clock jumps across period boundaries,
// restarts with and without a flush, and flushes that fail.
func TestModel(t *testing.T) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; raceEnabled && runs > 20 { // one goroutine
			return
		}
		h := &history{t: t, f: &faulty{Counters: store.NewMemoryCounters()}, kept: store.NewMemoryCounters(), seen: map[pairSlot]bool{}}
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
	kept    *store.MemoryCounters // what is in the store
	pending []store.Delta         // what is not
	seen    map[pairSlot]bool     // pairs that went to the store
}

type pairSlot struct {
	store.Counter
	slot uint32
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
	must(h.t, storetest.Read(bg, h.kept, dst, q))
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
		b.Uniques = append(b.Uniques, storetest.DrawUnique(rt, h.slot(rt)))
	}
	for range rapid.IntRange(0, 3).Draw(rt, "queries") {
		b.Queries = append(b.Queries, h.query(rt))
	}
	want := h.want(b.Queries)
	must(h.t, h.s.Do(bg, b))
	if fmt.Sprint(b.Before) != fmt.Sprint(want) {
		rt.Fatalf("values before: %v; want %v", b.Before, want)
	}
	h.unique(b.Uniques)
	h.pending = append(h.pending, b.Adds...)
}

// unique does what is expected of AddUnique: pairs that are known become pending updates, the others go to the store, to
// which everything that is pending in their shards has gone before.
func (h *history) unique(u []store.Unique) {
	var fresh []store.Unique
	var behind uint64
	for _, u := range u {
		pair, day := u.PairCounter(), u.Slot/144
		known := h.seen[pairSlot{pair, u.Slot}] && h.s.cached(store.TenMinutes, day) && h.s.cached(store.Day, day/14)
		waits := false
		for _, d := range h.pending {
			if d.Counter == pair && d.N > 0 && d.Slot/144 == day {
				waits = true
				known = known || d.Slot == u.Slot
			}
		}
		switch {
		case known:
			h.pending = append(h.pending, store.Delta{Counter: pair, Slot: u.Slot, N: 1})
			continue
		case waits:
			behind |= 1 << h.s.name(&pair).shard()
		}
		fresh = append(fresh, u)
	}
	var pending []store.Delta
	for _, d := range h.pending {
		if behind&(1<<h.s.name(&d.Counter).shard()) != 0 {
			must(h.t, h.kept.Add(bg, []store.Delta{d}))
		} else {
			pending = append(pending, d)
		}
	}
	h.pending = pending
	must(h.t, h.kept.AddUnique(bg, fresh))
	for _, u := range fresh {
		h.seen[pairSlot{u.PairCounter(), u.Slot}] = true
	}
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
	_ = h.s.Flush(bg) // fails if there was anything to write
	h.f.failAdd.Store(false)
	h.pending = nil
}

func (h *history) restart(*rapid.T) {
	must(h.t, h.s.Close())
	h.flushed()
	clear(h.seen)
	h.s = idle(h.t, h.f, func() time.Time { return h.at })
}

func (h *history) crash(*rapid.T) {
	h.pending = nil
	clear(h.seen)
	h.s = idle(h.t, h.f, func() time.Time { return h.at })
}

func (h *history) jump(rt *rapid.T) {
	h.at = h.at.Add(rapid.SampledFrom([]time.Duration{
		time.Second, 10 * time.Minute, 10*time.Minute - time.Second, 23 * time.Hour, 24 * time.Hour, 13 * 24 * time.Hour, -time.Hour,
	}).Draw(rt, "by"))
	must(h.t, h.s.retain(bg))
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
