package entrances

import (
	"math"
	"sync"
	"time"
)

// views counts how many subjects have loaded each page of a service, in this half day and the previous one: this shows
// what is new to everybody, and what everybody reads. Pages that share a slot count together. Safe for concurrent use.
type views struct {
	mu       sync.Mutex
	now, old [viewPlaces]uint8
	half     int64
	loads    [2]uint32 // of both
	pages    uint32    // slots currently in use
	before   uint32
}

const (
	viewPlaces = 1 << 15
	enoughSeen = 300 // page loads needed before anything is said about rarity
)

// note counts a page that is new to its subject, and returns how many others have loaded it; below zero: unknown.
func (v *views) note(page uint32, at time.Time) float32 {
	i := (page ^ page>>17) % viewPlaces
	half := at.Unix() / halfDay
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turn(half)
	others := float32(v.now[i]) + float32(v.old[i])
	v.count(i)
	if v.loads[0]+v.loads[1] < enoughSeen {
		return -1
	}
	return others
}

// seen returns how many have loaded a page, without counting anybody; below zero: unknown.
func (v *views) seen(page uint32, at time.Time) float32 {
	i := (page ^ page>>17) % viewPlaces
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turn(at.Unix() / halfDay)
	if v.loads[0]+v.loads[1] < enoughSeen {
		return -1
	}
	return float32(v.now[i]) + float32(v.old[i])
}

// count adds one. The caller holds the lock.
func (v *views) count(i uint32) {
	if v.now[i] == 0 {
		v.pages++
	}
	if v.now[i] != math.MaxUint8 {
		v.now[i]++
	}
	v.loads[0]++
}

// turn begins another half day. The caller holds the lock.
func (v *views) turn(half int64) {
	switch {
	case half == v.half+1:
		v.old, v.now, v.half = v.now, [viewPlaces]uint8{}, half
		v.before, v.pages = v.pages, 0
		v.loads[1], v.loads[0] = v.loads[0], 0
	case half > v.half:
		v.old, v.now, v.half = [viewPlaces]uint8{}, [viewPlaces]uint8{}, half
		v.loads, v.pages, v.before = [2]uint32{}, 0, 0
	}
}

const (
	enoughDoors = 100 // entrances needed before anything is said about them
	doorGuess   = 0.5 // entrances that each page is assumed to have had
)

// odd is by how much likelier a page is to be opened by somebody to whom all the pages of the site are alike than by those
// who were counted, as the logarithm of the odds; NaN is unknown. pages is how many pages the site has.
func (v *views) odd(page uint32, pages float32, at time.Time) float32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turn(at.Unix() / halfDay)
	return v.oddLocked((page^page>>17)%viewPlaces, pages)
}

func (v *views) oddLocked(i uint32, pages float32) float32 {
	all := float32(v.loads[0] + v.loads[1])
	if pages = max(pages, float32(max(v.pages, v.before))); all < enoughDoors {
		return nan
	}
	here := float32(v.now[i]) + float32(v.old[i]) + doorGuess
	return float32(math.Log(float64((all + doorGuess*pages) / (pages * here))))
}

// come counts somebody who opens a page, and returns how likely it was that anybody opens it within so many seconds, if
// they come as before, and how odd the page was before, see odd.
func (v *views) come(page uint32, pages float32, within float64, at time.Time) (chance, odd float32) {
	i := (page ^ page>>17) % viewPlaces
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turn(at.Unix() / halfDay)
	n := float64(v.now[i]) + float64(v.old[i]) + doorGuess
	span := halfDay/2 + float64(at.Unix()%halfDay)
	odd = v.oddLocked(i, pages)
	v.count(i)
	return float32(1 - math.Exp(-n*within/span)), odd
}

// known is how many pages of the service are known; 0: too few to compute shares.
func (v *views) known() float32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.loads[0]+v.loads[1] < enoughSeen {
		return 0
	}
	return float32(max(v.pages, v.before))
}
