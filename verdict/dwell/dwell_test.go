package dwell

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// The kinds of a site: lists are left after a few seconds, what they list is read.
const list, item = 1 << 60, 2 << 60

// reads has a visitor look at pages of both kinds, for times that differ widely around the typical ones, in seconds.
func reads(k *Kinds, rng *rand.Rand, v *Visitor, pages int, onList, onItem float64) {
	for range pages {
		kind, typical := uint64(list), onList
		if rng.IntN(3) > 0 {
			kind, typical = item, onItem
		}
		v.Open(kind)
		v.Stay(k, float32(math.Log(typical)+0.9*rng.NormFloat64()))
	}
}

func site(rng *rand.Rand) *Kinds {
	k := new(Kinds)
	for range 60 {
		reads(k, rng, new(Visitor), 20, 6, 30)
	}
	return k
}

// TestOdds: who stays longer where others do is told from whom all pages are alike to, however slow either is, and those who do the opposite as well;
// in few pages less clearly than in many.
func TestOdds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	k := site(rng)
	share := func(pages int, onList, onItem float64) float64 { // of visitors for whom it is likelier that they do as others do
		as := 0
		for range 200 {
			var v Visitor
			reads(k, rng, &v, pages, onList, onItem)
			if v.Odds(6) > 0 {
				as++
			}
		}
		return float64(as) / 200
	}
	for _, c := range []struct {
		who             string
		pages           int
		onList, onItem  float64
		atLeast, atMost float64
	}{
		{"as others", 30, 6, 30, 0.9, 1},
		{"as others, three times as slowly", 30, 18, 90, 0.9, 1},
		{"as others, in a few pages", 8, 6, 30, 0.6, 0.95},
		{"all alike", 30, 12, 12, 0, 0.12},
		{"all alike and slow", 30, 60, 60, 0, 0.12},
		{"the opposite", 30, 30, 6, 0, 0.02},
	} {
		if got := share(c.pages, c.onList, c.onItem); got < c.atLeast || got > c.atMost {
			t.Errorf("%s: %.2f of them seem to do as others do, want %.2f to %.2f", c.who, got, c.atLeast, c.atMost)
		}
	}
}

// TestSlowProgramsMoveNothing: many programs to whom all pages are alike, and which open one kind alone, don't make that kind look as if people stayed on it.
func TestSlowProgramsMoveNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	k := site(rng)
	before, _ := k.longer(list>>52 + 1)
	for range 200 {
		var v Visitor
		for range 20 {
			v.Open(list)
			v.Stay(k, float32(math.Log(120)+0.3*rng.NormFloat64()))
		}
	}
	after, _ := k.longer(list>>52 + 1)
	items, _ := k.longer(item>>52 + 1)
	if before > -0.6 || after > 0.7*before || items < after+0.8 {
		t.Errorf("on lists %.2f longer, then %.2f; on items %.2f", before, after, items)
	}
	var v Visitor
	reads(k, rng, &v, 60, 6, 30)
	if v.Odds(6) < 1 {
		t.Errorf("who does as others do has odds of %.2f", v.Odds(6))
	}
}

// TestNothingIsSaid of pages that are alike to everybody, before enough is known, of who has seen little, and of pages that nobody can read.
func TestNothingIsSaid(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	k := new(Kinds)
	for range 400 {
		reads(k, rng, new(Visitor), 20, 12, 12)
	}
	var v Visitor
	reads(k, rng, &v, 40, 6, 30)
	if o := v.Odds(6); math.Abs(float64(o)) > 0.6 {
		t.Errorf("where all pages are alike the odds are %v", o)
	}
	v = Visitor{}
	fresh := new(Kinds)
	reads(fresh, rng, &v, 40, 6, 30)
	if o := v.Odds(6); o != 0 {
		t.Errorf("at a service that knows nothing the odds are %v", o)
	}
	known := site(rng)
	v = Visitor{}
	reads(known, rng, &v, 5, 6, 30)
	if o := v.Odds(6); o == o {
		t.Errorf("after five pages the odds are %v", o)
	}
	v.Open(0)
	was := v
	if v.Stay(known, 3); v != was {
		t.Errorf("a stay on no page counts")
	}
}

// TestBounds: nobody collects more odds than a change of habits takes off again, and no number of stays makes a place deaf.
func TestBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	k := site(rng)
	var v Visitor
	reads(k, rng, &v, 70_000, 2, 90)
	if v.Odds(6) != bound {
		t.Errorf("odds of %v", v.Odds(6))
	}
	reads(k, rng, &v, 60, 90, 2)
	if v.Odds(6) > 0 {
		t.Errorf("odds of %v after the habits have changed", v.Odds(6))
	}
	for range 40_000 {
		k.learn(9, 1, 1)
	}
	if p := k.places[9]; p.weight > most+1 {
		t.Errorf("a place weighs %v", p.weight)
	}
}

// TestAtOnce is for the race detector.
func TestAtOnce(t *testing.T) {
	k := new(Kinds)
	var all sync.WaitGroup
	for i := range uint64(4) {
		all.Go(func() { reads(k, rand.New(rand.NewPCG(i, i)), new(Visitor), 500, 6, 30) })
	}
	all.Wait()
	if _, known := k.longer(1); !known {
		t.Error("nothing was learnt")
	}
}

func BenchmarkStay(b *testing.B) {
	k, v := site(rand.New(rand.NewPCG(1, 1))), new(Visitor)
	b.ReportAllocs()
	for i := range b.N {
		v.Open(uint64(1+i%2) << 60)
		v.Stay(k, float32(i%5))
	}
}
