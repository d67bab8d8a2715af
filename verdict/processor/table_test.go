package processor

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// TestTableIsAMap compares the table with a map, with deletions; within the bound nothing is lost.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := newTable[uint32, uint64](1<<16, func(k uint32) uint64 { return tally.Fold(uint64(k)+1, 0x9e3779b97f4a7c15) })
		want := map[uint32]uint64{}
		for n := range rapid.IntRange(1, 400).Draw(t, "steps") {
			k := rapid.Uint32Range(0, 300).Draw(t, "key")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				tab.sweep(func(k uint32, r *uint64) bool { return k%3 == uint32(n)%3 })
				for k := range want {
					if k%3 == uint32(n)%3 {
						delete(want, k)
					}
				}
			case 1, 2:
				sh, h := tab.lock(k)
				r := sh.find(h, k)
				v, known := want[k]
				if (r != nil) != known || r != nil && *r != v {
					t.Fatalf("key %d: found %v, want %v %v", k, r, v, known)
				}
				sh.mu.Unlock()
			default:
				sh, h := tab.lock(k)
				r, fresh := tab.open(sh, h, k)
				if _, known := want[k]; fresh == known {
					t.Fatalf("key %d: fresh %v", k, fresh)
				}
				*r += uint64(n)
				want[k] += uint64(n)
				sh.mu.Unlock()
			}
		}
		if int(tab.live.Load()) != len(want) {
			t.Fatalf("%d live, want %d", tab.live.Load(), len(want))
		}
	})
}

// TestTableOfNeighbours compares a table whose keys have few homes, in one shard, with a map: entries stand far from home, and the records that go
// are those from anywhere between. Each entry says how far it is.
func TestTableOfNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		homes := rapid.Uint64Range(1, 9).Draw(t, "homes")
		tab := newTable[uint32, uint32](tableShards*60, func(k uint32) uint64 {
			return tally.Fold(uint64(k)+1, 0x9e3779b97f4a7c15)&^(1<<32-1) | uint64(k)%homes*61<<6
		})
		keys, want := rapid.SliceOfN(rapid.Uint32Range(0, 99), 1, 200).Draw(t, "keys"), map[uint32]bool{}
		for n, k := range keys {
			if n%7 == 6 {
				tab.sweep(func(x uint32, _ *uint32) bool { return x == k })
				delete(want, k)
				continue
			}
			if len(want) == 60 && !want[k] {
				continue // nothing is to be evicted
			}
			sh, h := tab.lock(k)
			r, _ := tab.open(sh, h, k)
			*r, want[k] = k, true
			sh.mu.Unlock()
		}
		sh := &tab.shards[0]
		for k := range uint32(100) {
			if r := sh.find(tab.hash(k), k); (r != nil) != want[k] || r != nil && *r != k {
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
	tab := newTable[uint64, uint64](64*20, func(k uint64) uint64 { return tally.Fold(k+1, 0x9e3779b97f4a7c15) })
	touch := func(k uint64) bool {
		sh, h := tab.lock(k)
		defer sh.mu.Unlock()
		r, fresh := tab.open(sh, h, k)
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
	if n := tab.live.Load(); n > 64*20 {
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
			if s.r != s.key || sh.find(tab.hash(s.key), s.key) != &s.r {
				t.Fatalf("key %d is not where it should be", s.key)
			}
		}
		if n != int(sh.n) {
			t.Fatalf("shard %d: %d in the index, counted %d", i, n, sh.n)
		}
	}
}

// TestFadedCounts: a steady pace of r a second counts as r times the span, and a burst as its size.
func TestFadedCounts(t *testing.T) {
	var s session
	at := time.Unix(1.8e9, 0)
	for range 20_000 {
		at = at.Add(200 * time.Millisecond)
		s.turn(&verdict.Event{At: at, N: 1, Method: 'G'}, false)
	}
	for i, want := range []float64{0: 5.5, 1: 50, 2: 300, 3: 3000 * (1 - math.Exp(-4000.0/600))} {
		if got := float64(s.faded[i]); got < want*0.98 || got > want*1.02 {
			t.Errorf("in %v s: %v, want %v", spans[i], got, want)
		}
	}
	s.fade(at.Add(time.Minute))
	if got := float64(s.faded[2]); got < 300/math.E*0.97 || got > 300/math.E*1.03 {
		t.Errorf("a minute later: %v", got)
	}
}

// TestDistinct checks the estimates of small sets.
func TestDistinct(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 5, 20, 60, 150} {
		var mean float64
		const rounds = 50
		for range rounds {
			var set uint64
			for range n {
				set |= bit(rnd.Uint64(), 64)
			}
			mean += float64(distinct(set, 64)) / rounds
		}
		if mean < float64(n)*0.85-0.1 || mean > float64(n)*1.15+0.5 {
			t.Errorf("%d values are estimated as %.1f", n, mean)
		}
	}
}

// TestSharesFade: a subject that changes its behaviour is known by the new one after a few hundred pages, and no share
// ever leaves 0 to 1.
func TestSharesFade(t *testing.T) {
	var s session
	e := &verdict.Event{At: time.Unix(1.8e9, 0), N: 1, Method: 'G', Status: 200}
	of := part(shareRefererNone, shareCount, 4)
	for n := range 2000 {
		e.At = e.At.Add(time.Second)
		e.Referer = client.RefererNone
		if n >= 1000 {
			e.Referer = client.RefererSame
		}
		s.turn(e, false)
		for i, c := range s.shares {
			if c > s.sharesOf {
				t.Fatalf("page %d: share %d is %d of %d", n, i, c, s.sharesOf)
			}
		}
	}
	if v := of(&evidence{s: s}); v > 0.1 {
		t.Errorf("a thousand pages later: %v", v)
	}
}
