package pebblestore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

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
	err := storetest.Read(bg, c, dst, []store.Query{{
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
		must(t, errors.Join(c.Add(bg, d), c.Add(bg, one(7, at, 5)), c.eng.db.Flush()))
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
	must(t, errors.Join(c.Drop(bg, store.Period{Unit: store.TenMinutes, Number: day + 288}), c.eng.db.Flush()))
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
