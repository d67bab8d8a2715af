package bounded

import (
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// spread hashes small numbers.
func spread(k uint64) uint64 { return (k + 1) * 0x9e3779b97f4a7c15 >> 7 * 0xbf58476d1ce4e5b9 }

// TestTableIsAMap compares the table with a map, with deletions; within the bound nothing is lost.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := NewTable[uint32, uint64](1<<16, func(k uint32) uint64 { return spread(uint64(k)) }, nil)
		want := map[uint32]uint64{}
		for n := range rapid.IntRange(1, 400).Draw(t, "steps") {
			k := rapid.Uint32Range(0, 300).Draw(t, "key")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				tab.Sweep(func(k uint32, r *uint64) bool { return k%3 == uint32(n)%3 })
				for k := range want {
					if k%3 == uint32(n)%3 {
						delete(want, k)
					}
				}
			case 1, 2:
				sh, h := tab.Lock(k)
				r := sh.Find(h, k)
				v, known := want[k]
				if (r != nil) != known || r != nil && *r != v {
					t.Fatalf("key %d: found %v, want %v %v", k, r, v, known)
				}
				sh.Unlock()
			default:
				sh, h := tab.Lock(k)
				r, fresh := tab.Open(sh, h, k)
				if _, known := want[k]; fresh == known {
					t.Fatalf("key %d: fresh %v", k, fresh)
				}
				*r += uint64(n)
				want[k] += uint64(n)
				sh.Unlock()
			}
		}
		if tab.Len() != len(want) {
			t.Fatalf("%d live, want %d", tab.Len(), len(want))
		}
	})
}

// TestTableOfNeighbours compares a table whose keys have few homes, in one shard, with a map: entries stand far from home, and the records that go
// are those from anywhere between. Each entry says how far it is.
func TestTableOfNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		homes := rapid.Uint64Range(1, 9).Draw(t, "homes")
		tab := NewTable[uint32, uint32](Shards*60, func(k uint32) uint64 {
			return spread(uint64(k))&^(1<<32-1) | uint64(k)%homes*61<<6
		}, nil)
		keys, want := rapid.SliceOfN(rapid.Uint32Range(0, 99), 1, 200).Draw(t, "keys"), map[uint32]bool{}
		for n, k := range keys {
			if n%7 == 6 {
				tab.Sweep(func(x uint32, _ *uint32) bool { return x == k })
				delete(want, k)
				continue
			}
			if len(want) == 60 && !want[k] {
				continue // nothing is to be evicted
			}
			sh, h := tab.Lock(k)
			r, _ := tab.Open(sh, h, k)
			*r, want[k] = k, true
			sh.Unlock()
		}
		sh := &tab.shards[0]
		for k := range uint32(100) {
			if r := sh.Find(tab.hash(k), k); (r != nil) != want[k] || r != nil && *r != k {
				t.Fatalf("key %d: found %v, want %v", k, r, want[k])
			}
		}
		mask := uint64(len(sh.index) - 1)
		for at, j := range sh.index {
			if j == 0 {
				continue
			}
			away := (uint64(at) - tab.hash(sh.at(j&sh.number-1).key)>>6) & mask
			if said := uint64(j / (sh.number + 1) & far); said != min(away, far) || tab.away(sh, j, uint64(at)) != away {
				t.Fatalf("an entry %d places away from its home says %d", away, said)
			}
		}
	})
}

// TestTableKeepsWhatIsUsed: a full table evicts what was not touched, keeps its bound, and finds everything it holds.
func TestTableKeepsWhatIsUsed(t *testing.T) {
	tab := NewTable[uint64, uint64](64*20, spread, nil)
	touch := func(k uint64) bool {
		sh, h := tab.Lock(k)
		defer sh.Unlock()
		r, fresh := tab.Open(sh, h, k)
		*r = k
		return fresh
	}
	lost := 0
	for k := range uint64(100_000) {
		touch(1000 + k)
		if k%10 == 0 && touch(k/10%40) && k > 10_000 {
			lost++
		}
	}
	if lost > 5 { // by chance many new ones may fall upon one shard
		t.Errorf("what was used every few hundred steps was lost %d times", lost)
	}
	if n := tab.Len(); n > 64*20 {
		t.Errorf("%d live", n)
	}
	for i := range tab.shards {
		sh := &tab.shards[i]
		n := 0
		for _, j := range sh.index {
			if j == 0 {
				continue
			}
			n++
			s := sh.at(j&sh.number - 1)
			if s.r != s.key || sh.Find(tab.hash(s.key), s.key) != &s.r {
				t.Fatalf("key %d is not where it should be", s.key)
			}
		}
		if n != int(sh.n) {
			t.Fatalf("shard %d: %d in the index, counted %d", i, n, sh.n)
		}
	}
}

func keeps[K comparable, R any](t *Table[K, R], k K) bool {
	sh, h := t.Lock(k)
	defer sh.Unlock()
	return sh.Find(h, k) != nil
}

// TestTableEvictsAFlood: what is touched again and again, but only in the second in which it came, goes before what came back once.
func TestTableEvictsAFlood(t *testing.T) {
	var clock atomic.Uint32
	const room, few = 64 * 100, 500
	tab := NewTable[uint64, uint64](room, spread, &clock)
	touch := func(k uint64) {
		sh, h := tab.Lock(k)
		_, _ = tab.Open(sh, h, k)
		sh.Unlock()
	}
	for range 2 {
		for k := range uint64(few) {
			touch(k)
		}
		clock.Add(1)
	}
	for k := range uint64(20 * room) {
		for range 3 {
			touch(1000 + k)
		}
		if k%5000 == 0 {
			clock.Add(1)
		}
	}
	left := 0
	for k := range uint64(few) {
		if keeps(tab, k) {
			left++
		}
	}
	if left < few*95/100 {
		t.Errorf("%d of %d that came back are left", left, few)
	}
}

// TestTableTakesTurns: where every record was used again, those are evicted that were not of late, and a shard full of records in use has
// room for new ones.
func TestTableTakesTurns(t *testing.T) {
	var clock atomic.Uint32
	const room = 64 * 100
	tab := NewTable[uint64, uint64](room, spread, &clock)
	touch := func(k uint64) {
		sh, h := tab.Lock(k)
		_, _ = tab.Open(sh, h, k)
		sh.Unlock()
	}
	const few = 100
	for k := range uint64(20 * room) { // each twice, the few all the time
		touch(1000 + k)
		clock.Add(1)
		touch(1000 + k)
		if k%10 == 0 {
			touch(k / 10 % few)
		}
	}
	left := 0
	for k := range uint64(few) {
		if keeps(tab, k) {
			left++
		}
	}
	if newest := uint64(1000 + 20*room - 1); left < few*9/10 || !keeps(tab, newest) || tab.Len() > room {
		t.Errorf("%d of %d that were used all the time are left; the newest %v, %d in all", left, few, keeps(tab, newest), tab.Len())
	}
}
