package choices

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// world is a site whose pages link to others. People prefer some of the links of each page, most of them the same: Zipf's law with an exponent of 1.2,
// which is less than what a thousand readers of one encyclopaedia did.
type world struct {
	pages, links int
	rng          *rand.Rand
}

func (w *world) link(page uint32, rank int) uint32 {
	return mix(page, uint32(rank)+7) % uint32(w.pages) //nolint:gosec // small
}

// person has one: two of three times what others like, else whatever it likes itself.
func (w *world) person(page uint32) uint32 {
	if w.rng.IntN(3) == 0 {
		return w.random(page)
	}
	for {
		if r := int(math.Pow(w.rng.Float64(), -1/1.2)) - 1; r < w.links {
			return w.link(page, r)
		}
	}
}

func (w *world) random(page uint32) uint32 { return w.link(page, w.rng.IntN(w.links)) }

// goes has somebody follow so many links, from the pages that most begin with; it returns what is known of it.
func (w *world) goes(l *Links, links int, choose func(uint32) uint32, learn bool) *Visitor {
	v := new(Visitor)
	seen := map[uint32]bool{}
	page := uint32(w.rng.IntN(5)) //nolint:gosec // small
	for range links {
		to := choose(page)
		if !seen[to] {
			seen[to] = true
			v.Follow(l, page, to, learn)
		}
		if page = to; w.rng.IntN(4) == 0 {
			page = uint32(w.rng.IntN(5)) //nolint:gosec // small
		}
	}
	return v
}

// quantile is the value of Unusual below which a share of so many visitors are.
func (w *world) quantile(l *Links, share float64, links int, choose func(uint32) uint32) float32 {
	var all []float32
	for range 300 {
		if u := w.goes(l, links, choose, false).Unusual(6); u == u {
			all = append(all, u)
		}
	}
	slices.Sort(all)
	return all[int(share*float64(len(all)-1))]
}

func site(pages, people, robots int) (*world, *Links) {
	w, l := &world{pages: pages, links: 20, rng: rand.New(rand.NewPCG(1, 2))}, new(Links)
	for i := range people {
		w.goes(l, 20, w.person, true)
		if i < robots {
			w.goes(l, 20, w.random, true)
		}
	}
	return w, l
}

// TestUnusual: to whom all links are alike is told from people, by more the more it follows, also where there are as many of these as people; hardly
// any of the people is as unusual.
func TestUnusual(t *testing.T) {
	for name, c := range map[string]struct {
		robots     int
		few, links float32 // what half of the robots exceed with 12 links, with 60
	}{
		"people alone": {0, 0.7, 1.7},
		"half robots":  {600, 0.4, 0.8},
	} {
		w, l := site(60, 600, c.robots)
		if got := w.quantile(l, 0.97, 60, w.person); got > 1.1 {
			t.Errorf("%s: three people of a hundred are above %.2f", name, got)
		}
		if few, many := w.quantile(l, 0.5, 12, w.random), w.quantile(l, 0.5, 60, w.random); few < c.few || many < c.links {
			t.Errorf("%s: half of the robots are above %.2f with 12 links, %.2f with 60; want %.2f, %.2f", name, few, many, c.few, c.links)
		}
	}
}

// TestNobodyDiffers: on a site where all links are alike to everybody, hardly anybody stands out.
func TestNobodyDiffers(t *testing.T) {
	w, l := &world{pages: 60, links: 20, rng: rand.New(rand.NewPCG(3, 4))}, new(Links)
	for range 600 {
		w.goes(l, 20, w.random, true)
	}
	for _, links := range []int{12, 60, 300} {
		if got := w.quantile(l, 0.98, links, w.random); got > 1.8 {
			t.Errorf("with %d links two of a hundred are above %.2f", links, got)
		}
	}
}

// TestPagesDiffer: who goes by pages with many links, all alike to everybody, is not unusual beside those who go by pages with two.
func TestPagesDiffer(t *testing.T) {
	w, l := &world{pages: 1 << 30, rng: rand.New(rand.NewPCG(5, 6))}, new(Links)
	by := func(links int, first uint32) *Visitor {
		v := new(Visitor)
		for i := range uint32(20) {
			v.Follow(l, first+i, w.link(first+i, w.rng.IntN(links)), true)
		}
		return v
	}
	for range 200 {
		by(2, 1000)
		by(40, 2000)
	}
	var wide, narrow float32
	for range 50 {
		narrow += by(2, 1000).Unusual(6) / 50
		wide += by(40, 2000).Unusual(6) / 50
	}
	if wide > 0.5 || narrow < -1 {
		t.Errorf("by pages with forty links it is %.2f, by pages with two %.2f", wide, narrow)
	}
}

// TestNothingIsKnownYet: while most links are followed for the first time, as by the first visitors of a large site, nobody is unusual for that; and what
// fewer than eight have followed from a page says nothing of who follows the next.
func TestNothingIsKnownYet(t *testing.T) {
	w, l := &world{pages: 3000, links: 400, rng: rand.New(rand.NewPCG(7, 8))}, new(Links)
	var sum, n float32
	for range 150 {
		if u := w.goes(l, 40, w.random, true).Unusual(6); u == u {
			sum, n = sum+u, n+1
		}
	}
	if n < 50 || sum/n > 0.15 {
		t.Errorf("%v visitors are %.2f on average", n, sum/n)
	}
	v := new(Visitor)
	for i := range uint32(enough) {
		v.Follow(l, 1<<20, i, true)
	}
	if v.n != 0 {
		t.Errorf("%d links of a page that nobody knows were compared", v.n)
	}
}

// TestFewVisitors: what a dozen visitors have followed is no reason to call anybody unusual.
func TestFewVisitors(t *testing.T) {
	w, l := site(500, 12, 0)
	if u := w.goes(l, 200, w.random, true).Unusual(6); u > 1.1 {
		t.Errorf("among a dozen it is %.2f", u)
	}
	if u := new(Visitor).Unusual(6); u == u {
		t.Errorf("who has followed nothing is %v", u)
	}
}

// TestLearnsFromNobodyElse: whom others are not to be compared with changes nothing for them, however much it follows.
func TestLearnsFromNobodyElse(t *testing.T) {
	w, l := site(60, 300, 0)
	pages, followed, taken, known := slices.Clone(l.pages), slices.Clone(l.followed), l.taken, [3]float32{l.mean, l.square, l.weight}
	for range 2000 {
		w.goes(l, 20, func(page uint32) uint32 { return w.link(page, w.links-1) }, false)
	}
	if l.taken != taken || known != [3]float32{l.mean, l.square, l.weight} || !slices.Equal(l.pages, pages) || !slices.Equal(l.followed, followed) {
		t.Error("it has been learnt from")
	}
	if v := w.goes(l, 0, w.person, true); *v != (Visitor{}) {
		t.Errorf("who follows nothing is %+v", *v)
	}
	v := new(Visitor)
	for range 100 {
		v.Follow(l, 1, 1, true)
	}
	if *v != (Visitor{}) {
		t.Errorf("the same page again made it %+v", *v)
	}
}

// TestManyPages: a site with more links than there is room for at first gets more; with more than there is room for at all, those are known from which
// most is followed, and no place overflows.
func TestManyPages(t *testing.T) {
	if testing.Short() {
		t.Skip("follows millions of links")
	}
	w, l := site(1_000_000, 20_000, 0)
	if len(l.pages) != mostPages || len(l.followed) != mostPages*linksEach {
		t.Fatalf("there is room for %d pages, %d links", len(l.pages), len(l.followed))
	}
	taken := 0
	for _, n := range l.followed {
		if n > 0 {
			taken++
		}
	}
	if taken != l.taken || taken > len(l.followed)/2+1 {
		t.Errorf("%d places are taken, it says %d", taken, l.taken)
	}
	if people, robots := w.quantile(l, 0.95, 60, w.person), w.quantile(l, 0.5, 60, w.random); people > 1.1 || robots < people {
		t.Errorf("of the people one in twenty is above %.2f, of the robots half above %.2f", people, robots)
	}
	v := new(Visitor)
	for range mostTimes + 10 {
		v.Follow(l, 3, w.link(3, 0), true)
	}
	for i, n := range l.followed {
		if n >= mostTimes {
			t.Fatalf("place %d has %d", i, n)
		}
	}
	if u := v.Unusual(6); v.n > mostLinks || u != u || math.IsInf(float64(u), 0) {
		t.Errorf("after %d links it is %v", v.n, u)
	}
}

// TestAtOnce: many gateways' goroutines may use it (the race detector looks on).
func TestAtOnce(t *testing.T) {
	l := new(Links)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			w := &world{pages: 60, links: 20, rng: rand.New(rand.NewPCG(uint64(i), 1))} //nolint:gosec // small
			for range 50 {
				w.goes(l, 20, w.person, i%2 == 0)
			}
		})
	}
	wg.Wait()
	if l.weight == 0 {
		t.Error("nothing was learnt")
	}
}

func BenchmarkFollow(b *testing.B) {
	w, l := site(60, 600, 0)
	v := new(Visitor)
	b.ReportAllocs()
	for i := range b.N {
		page := uint32(i % 60) //nolint:gosec // small
		v.Follow(l, page, w.link(page, i%20), true)
	}
}
