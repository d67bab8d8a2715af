package processor

import (
	"sync"
	"time"
)

// views counts how many subjects have loaded each page of a service, in this half day and the previous one: this shows
// what is new to everybody, and what everybody reads. Pages that share a slot count together. Safe for concurrent use.
type views struct {
	mu       sync.Mutex
	now, old [viewPlaces]uint8
	half     int64
	total    uint32 // of both
	pages    uint32 // slots currently in use
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
	switch {
	case half == v.half+1:
		v.old, v.now, v.half = v.now, [viewPlaces]uint8{}, half
		v.before, v.pages = v.pages, 0
		v.total /= 2
	case half > v.half:
		v.old, v.now, v.half = [viewPlaces]uint8{}, [viewPlaces]uint8{}, half
		v.total, v.pages, v.before = 0, 0, 0
	}
	others := float32(v.now[i]) + float32(v.old[i])
	if v.now[i] == 0 {
		v.pages++
	}
	inc(&v.now[i])
	inc(&v.total)
	if v.total < enoughSeen {
		return -1
	}
	return others
}

// known is how many pages of the service are known; 0: too few to compute shares.
func (v *views) known() float32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.total < enoughSeen {
		return 0
	}
	return float32(max(v.pages, v.before))
}
