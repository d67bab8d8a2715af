package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"antirobot/store"
	"antirobot/store/storetest"
)

type countersOf struct {
	*Counters
	s *Store
}

func openCounters(t *testing.T, dir string) countersOf {
	t.Helper()
	s := mustOpen(t, dir, nil)
	c, err := s.OpenCounters()
	if err != nil {
		t.Fatal(err)
	}
	return countersOf{c, s}
}

func TestCountersConformance(t *testing.T) {
	closed := func(t *testing.T, c store.Counters) {
		if err := c.(countersOf).s.Close(); err != nil { // closes the counters too
			t.Fatal(err)
		}
	}
	runs := 15
	if raceEnabled {
		runs = 3
	}
	storetest.RunCounters(t,
		func(t *testing.T) store.Counters { return openCounters(t, t.TempDir()) },
		storetest.CounterOptions{Runs: runs, Close: closed, Reopen: func(t *testing.T, c store.Counters) store.Counters {
			closed(t, c)
			return openCounters(t, c.(countersOf).s.dir)
		}})
}

// TestCountsMerge compares the merger with a map, with operands in any order and grouping, as compactions may choose them.
func TestCountsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type operand = []slotCount
		gen := rapid.Custom(func(t *rapid.T) operand {
			slots := rapid.SliceOfNDistinct(rapid.Uint8Range(0, 143), 1, 6, rapid.ID[uint8]).Draw(t, "slots")
			var o operand
			for s := range uint8(144) {
				if bytes.IndexByte(slots, s) >= 0 {
					o = append(o, slotCount{N: rapid.OneOf(rapid.Uint64Range(1, 300), rapid.Uint64Range(store.MaxCount-3, store.MaxCount)).Draw(t, "n"), Period: s})
				}
			}
			return o
		})
		ops := rapid.SliceOfN(gen, 1, 8).Draw(t, "operands")
		want := map[uint8]uint64{}
		for _, o := range ops {
			for _, c := range o {
				want[c.Period] = min(want[c.Period]+c.N, store.MaxCount)
			}
		}
		merge := func(list [][]byte, newer bool) []byte {
			m, err := newCountsMerger().Merge(nil, list[0])
			for _, b := range list[1:] {
				if err == nil && newer {
					err = m.MergeNewer(b)
				} else if err == nil {
					err = m.MergeOlder(b)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			out, _, err := m.Finish(true)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		var list [][]byte
		for _, o := range ops {
			list = append(list, appendCounts(nil, o))
		}
		cut := rapid.IntRange(0, len(list)-1).Draw(t, "cut")
		got := merge(list, true)
		if cut > 0 {
			halves := merge([][]byte{merge(list[cut:], false), merge(list[:cut], true)}, false)
			if !bytes.Equal(got, halves) {
				t.Fatalf("grouping matters: %x and %x", got, halves)
			}
		}
		for s := range uint8(144) {
			if n, err := sumCounts(got, s, s); err != nil || n != want[s] {
				t.Fatalf("slot %d = %d, %v; want %d", s, n, err, want[s])
			}
		}
	})
}

func FuzzCountsMerge(f *testing.F) {
	f.Add([]byte{}, []byte{1})
	f.Add([]byte{1, 5, 1}, []byte{1, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{1, 5, 1, 4, 1}, []byte{2, 1, 1})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		m, err := newCountsMerger().Merge(nil, a)
		if err != nil {
			return
		}
		if m.MergeOlder(b) != nil {
			return
		}
		out, _, err := m.Finish(true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := addCounts(nil, out); err != nil {
			t.Fatalf("the merge of %x and %x is no record: %v", a, b, err)
		}
	})
}

func one(shingle uint64, slot uint32, n uint64) []store.Delta {
	return []store.Delta{{Counter: store.Counter{Prefix: "p", Shingle: shingle, Type: 8}, Slot: slot, N: n}}
}

func countOf(t *testing.T, c store.Counters, shingle uint64, slot uint32) uint64 {
	t.Helper()
	dst := make([]uint64, 1)
	err := c.Read(bg, dst, []store.Query{{
		Counter: store.Counter{Prefix: "p", Shingle: shingle, Type: 8}, Unit: store.TenMinutes, From: slot, To: slot,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return dst[0]
}

// TestDropFreesDisk shows that dropped counts leave the disk without a scan or a compaction of the rest.
func TestDropFreesDisk(t *testing.T) {
	c := openCounters(t, t.TempDir())
	const day = 20000 * 144
	for _, at := range []uint32{day, day + 144, day + 288} {
		var d []store.Delta
		for range 5_000 {
			d = append(d, one(rand.Uint64(), at, 1)...)
		}
		if err := errors.Join(c.Add(bg, d), c.Add(bg, one(7, at, 5)), c.eng.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	size := func() uint64 {
		n, err := c.eng.db.EstimateDiskUsage([]byte{spaceFine}, []byte{spaceFine + 1})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := size()
	if before < 3*5_000*8 {
		t.Fatalf("the counts take %d bytes", before)
	}
	if err := errors.Join(c.Drop(bg, store.Period{Unit: store.TenMinutes, Number: day + 288}), c.eng.db.Flush()); err != nil {
		t.Fatal(err)
	}
	if a, b, n := countOf(t, c, 7, day), countOf(t, c, 7, day+144), countOf(t, c, 7, day+288); a != 0 || b != 0 || n != 5 {
		t.Errorf("after Drop: %d, %d, %d", a, b, n)
	}
	for end := time.Now().Add(time.Minute); size() > before/2; {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of %d are left", size(), before)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// BenchmarkCounterDisk prints the bytes on disk of ten million counters that were live in the same ten minutes, after
// compaction, with and without each counter's daily record.
func BenchmarkCounterDisk(b *testing.B) {
	n := 10_000_000
	if testing.Short() {
		n = 100_000
	}
	s, err := New(DefaultConfig(), Deps{Dir: b.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c, err := s.OpenCounters()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		r := rand.New(rand.NewPCG(1, 2))
		d := make([]store.Delta, 0, 10_000)
		for range n / cap(d) {
			d = d[:0]
			for range cap(d) {
				d = append(d, store.Delta{
					Counter: store.Counter{Prefix: "mass_in", Shingle: r.Uint64(), Type: uint16(8 + r.Uint32N(4))},
					Slot:    2831519 + r.Uint32N(6), N: 1 + r.Uint64N(3),
				})
			}
			if err := c.Add(bg, d); err != nil {
				b.Fatal(err)
			}
		}
		if err := errors.Join(c.eng.db.Flush(), c.eng.db.Compact(bg, []byte{'A'}, []byte{'Z'}, true)); err != nil {
			b.Fatal(err)
		}
	}
	fine, err1 := c.eng.db.EstimateDiskUsage([]byte{spaceFine}, []byte{spaceFine + 1})
	daily, err2 := c.eng.db.EstimateDiskUsage([]byte{spaceDaily}, []byte{spaceDaily + 1})
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(fine)/float64(n), "B/counter")
	b.ReportMetric(float64(fine+daily)/float64(n), "B/counter+day")
}

// BenchmarkCounterRead reads single records from a compacted directory; one in three is absent.
func BenchmarkCounterRead(b *testing.B) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	s, err := New(DefaultConfig(), Deps{Dir: b.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c, err := s.OpenCounters()
	if err != nil {
		b.Fatal(err)
	}
	for i := range uint64(n / 1000) {
		var d []store.Delta
		for j := range uint64(1000) {
			d = append(d, one((i*1000+j)*0x9e3779b97f4a7c15, 2831519, 1)...)
		}
		if err := c.Add(bg, d); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(c.eng.db.Flush(), c.eng.db.Compact(bg, []byte{'A'}, []byte{'Z'}, true)); err != nil {
		b.Fatal(err)
	}
	for _, per := range []int{1, 15} {
		b.Run(fmt.Sprintf("queries=%d", per), func(b *testing.B) {
			q, dst := make([]store.Query, per), make([]uint64, per)
			b.ReportAllocs()
			for b.Loop() {
				for i := range q {
					q[i] = store.Query{
						Counter: store.Counter{Prefix: "p", Shingle: rand.Uint64N(uint64(n)*3/2) * 0x9e3779b97f4a7c15, Type: 8},
						Unit:    store.TenMinutes, From: 2831519, To: 2831519,
					}
				}
				if err := c.Read(bg, dst, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
