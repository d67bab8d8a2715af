// Package choices learns which links of its pages the visitors of a service follow, and tells who follows those that others do from whom all
// links are alike to: people look for something, and many of them for the same; a program that clicks at random does not.
package choices

import (
	"math"
	"sync"
)

const (
	leastPages = 1 << 9 // places for pages, at first …
	mostPages  = 1 << 13
	linksEach  = 16     // … and for so many links of each
	enough     = 8      // links that were followed from a page before anything is said of it
	lasts      = 256    // of how many of the latest of them the usual one is the mean
	sure       = 100    // links that were followed before anything is said of any
	alike      = 32     // links of one visitor after which each further one is worth less
	mostWeight = 4096   // … of all by which a link is compared
	mostTimes  = 50_000 // a link that so many have followed halves what is known of all
	apart      = 0.3    // standard deviation of what people are like, in those of one link: each looks for something else
	most       = 3      // … that one link counts for
	mostLinks  = 1 << 12
)

// Links are how often the links of a service's pages have been followed. Where there are more pages than places, those from which most is
// followed are known. Safe for concurrent use; the zero value knows nothing and takes no memory, later 22 KiB, and 352 KiB for a site with many links.
type Links struct {
	mu       sync.Mutex
	pages    []page
	followed []uint16 // by how many, for each link
	taken    int      // of these, places that are not 0

	mean, square, weight float32 // by how much more usual links are than those that were followed before
}

// page is what is known of one from which links were followed.
type page struct {
	mark     uint16
	followed float32 // links, by all
	usual    float32 // mean of the natural logarithm of the share of those who had followed the same link before
}

// Visitor is how usual one visitor's choices are. The zero value knows nothing. 8 bytes; not safe for concurrent use.
type Visitor struct {
	sum float32 // in standard deviations
	n   uint16
}

// Follow says that it has followed a link to a page that is new to it. Pages are named by their hashes; learn says that others are compared with it from
// now on. A link to the same page says nothing.
func (v *Visitor) Follow(l *Links, from, to uint32, learn bool) {
	if from == to {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.find(from, learn)
	if p == nil {
		return
	}
	n := &l.followed[mix(from, to)%uint32(len(l.followed))] //nolint:gosec // at most 131,072 places
	by := float32(math.Log((float64(*n)+0.5)/(float64(p.followed)+1))) - p.usual
	if p.followed >= enough {
		v.compare(l, by, learn)
	}
	if learn {
		l.learn(p, n, by)
	}
}

// compare adds one link. The caller holds the lock.
func (v *Visitor) compare(l *Links, by float32, learn bool) {
	if square := l.square - l.mean*l.mean; l.weight >= sure && square > 0 {
		spread := float32(math.Sqrt(float64(square)))
		by = min(max(by, l.mean-most*spread), l.mean+most*spread)
		if v.n == mostLinks {
			v.sum, v.n = v.sum/2, v.n/2
		}
		v.sum += (by - l.mean) / spread
		v.n++
	}
	if !learn {
		return
	}
	weight := 1 / (1 + float32(v.n)/alike)
	l.weight = min(l.weight+weight, mostWeight)
	l.mean += (by - l.mean) * weight / l.weight
	l.square += (by*by - l.square) * weight / l.weight
}

// Unusual is by how many standard deviations the links that it has followed are less usual than those that others follow: about 0 for one of them, 1 to 3
// for whom all links are alike to, by more the more it has followed; below 0 for who follows what most do. NaN after fewer than least of them.
func (v *Visitor) Unusual(least int) float32 {
	if int(v.n) < least {
		return float32(math.NaN())
	}
	n := float64(v.n)
	return -v.sum / float32(math.Sqrt(n+apart*apart*n*n))
}

// find returns what is known of a page; nil if it is another that has its place. Such a place is worth less each time, if it may. The caller holds the lock.
func (l *Links) find(from uint32, learn bool) *page {
	if l.pages == nil {
		l.size(leastPages)
	}
	h := mix(from, 0)
	p, mark := &l.pages[h%uint32(len(l.pages))], uint16(h>>16) //nolint:gosec // at most 8,192 places; part of a hash
	switch {
	case p.mark == mark:
		return p
	case !learn:
		return nil
	}
	if p.followed--; p.followed > 0 {
		return nil
	}
	*p = page{mark: mark}
	return p
}

// learn counts a link. The caller holds the lock.
func (l *Links) learn(p *page, n *uint16, by float32) {
	p.followed++
	p.usual += by / min(p.followed, lasts)
	if *n == 0 {
		l.taken++
	}
	*n++
	switch crowded := l.taken > len(l.followed)/2; {
	case crowded && len(l.pages) < mostPages:
		l.size(mostPages)
	case crowded || *n == mostTimes:
		l.fade()
	}
}

// fade halves what is known, so that newer links find room. The caller holds the lock.
func (l *Links) fade() {
	l.taken = 0
	for i := range l.followed {
		if l.followed[i] /= 2; l.followed[i] > 0 {
			l.taken++
		}
	}
	for i := range l.pages {
		l.pages[i].followed /= 2
	}
}

// size begins anew with so many places for pages.
func (l *Links) size(pages int) {
	l.pages, l.followed, l.taken = make([]page, pages), make([]uint16, pages*linksEach), 0
}

// mix is a hash of a link, or of a page alone.
func mix(from, to uint32) uint32 {
	h := uint64(from)*0x9e3779b97f4a7c15 ^ (uint64(to)+1)*0xc2b2ae3d27d4eb4f
	h ^= h >> 29
	return uint32(h * 0xbf58476d1ce4e5b9 >> 32) //nolint:gosec // part of a hash
}
