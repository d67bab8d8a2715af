// Package dwell learns on which kinds of pages the visitors of a service stay longer than on others, and tells who does as they do from
// whom all pages are alike to: people leave a list sooner than what it lists, and a program's pauses know nothing of that.
package dwell

import (
	"math"
	"sync"
)

const (
	kinds    = 1 << kindBits
	kindBits = 12
	enough   = 100 // stays needed before anything is said
	guesses  = 3   // stays that each kind is assumed to have had, which were as long as others
	alike    = 64  // stays of one visitor after which each further one is worth less
	most     = 1 << 14
	own      = 3   // stays of a visitor of which its own usual time is known
	slowest  = 512 // of how many of the latest stays that is the mean
	differ   = 0.8 // variance of the logarithm of times on pages of one kind
	bound    = 6   // of the odds: somebody else may be at the keyboard, or a program
)

// Kinds are how much longer visitors stay on the pages of each kind than on those they stay on otherwise. A kind is whatever its hash
// says; kinds that share a place count together. Each visitor counts by how it differs from itself, on pages of the kinds that it opens, so that those
// who are slow, and programs that open one kind, move nothing. Safe for concurrent use; 32 KiB.
type Kinds struct {
	mu     sync.Mutex
	places [kinds]place
	weight float32
}

// place is of one kind: by how much stays were longer, as a natural logarithm, and how many there were.
type place struct{ sum, weight float32 }

// longer is by how much visitors stay longer on pages of a kind, as a natural logarithm, and whether enough is known to say so; 0 if not. The caller
// holds the lock.
func (k *Kinds) longer(kind uint16) (by float32, known bool) {
	if k.weight < enough {
		return 0, false
	}
	p := &k.places[kind%kinds]
	return p.sum / (p.weight + guesses), true
}

// learn counts a stay. The caller holds the lock.
func (k *Kinds) learn(kind uint16, by, weight float32) {
	p := &k.places[kind%kinds]
	if p.weight > most {
		p.sum, p.weight = p.sum/2, p.weight/2
	}
	p.sum += by * weight
	p.weight += weight
	k.weight = min(k.weight+weight, most)
}

// Visitor is how one visitor's stays follow what Kinds know. The zero value knows nothing. 16 bytes; not safe for concurrent use.
type Visitor struct {
	usual  float32 // mean of the logarithms of its times
	longer float32 // … of how much longer others stay on these pages
	odds   float32
	n      uint16
	kind   uint16 // of the page that it is on; 0: none that is known
}

// Open says which page it is on now, by the hash of its kind; 0 for none that anybody can read.
func (v *Visitor) Open(kind uint64) {
	v.kind = 0
	if kind != 0 {
		v.kind = uint16(kind>>(64-kindBits)) + 1 //nolint:gosec // twelve bits
	}
}

// Stay says for how long it was on that page, as the natural logarithm of the seconds.
func (v *Visitor) Stay(k *Kinds, seconds float32) {
	if v.kind == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	by, known := k.longer(v.kind)
	if v.n >= own {
		r, d := seconds-v.usual, by-v.longer
		if known {
			v.odds = min(max(v.odds+(r*d-d*d/2)/differ, -bound), bound)
		}
		k.learn(v.kind, r+v.longer, 1/(1+float32(v.n)/alike)) // than on pages of no kind: who opens one kind alone teaches nothing
	}
	v.n = min(v.n+1, math.MaxUint16-1)
	n := float32(min(v.n, slowest))
	v.usual += (seconds - v.usual) / n
	v.longer += (by - v.longer) / n
}

// Odds are how much likelier its times are if it stays longer where others do than if all pages are alike to it, as a natural logarithm
// between -6 and 6; NaN after fewer than least stays.
func (v *Visitor) Odds(least int) float32 {
	if int(v.n) < least {
		return float32(math.NaN())
	}
	return v.odds
}
