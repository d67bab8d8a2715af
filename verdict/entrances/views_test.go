package entrances

import (
	"testing"
	"time"
)

// TestViews: rarity is reported once enough is known, and forgotten after a day.
func TestViews(t *testing.T) {
	var v views
	at := time.Unix(1.8e9, 0)
	if got := v.note(7, at); got >= 0 {
		t.Errorf("the first page of all has been seen by %v", got)
	}
	for i := range enoughSeen {
		v.note(uint32(1000+i%100), at)
	}
	if got := v.note(7, at); got != 1 {
		t.Errorf("the page has been seen by %v others, want 1", got)
	}
	if known := v.known(); known < 95 || known > 101 {
		t.Errorf("%v pages are known", known)
	}
	for i := range enoughSeen {
		v.note(uint32(1000+i%100), at.Add(25*time.Hour))
	}
	if got := v.note(7, at.Add(25*time.Hour)); got != 0 {
		t.Errorf("a day later it has been seen by %v", got)
	}
}

// TestSiteOfManyPages: where people come in by many pages, and most of them have not been used yet, such a one is no odd door.
func TestSiteOfManyPages(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	var v views
	for i := range 1000 { // a site of many pages, each of which somebody comes in by
		v.note(uint32(i)*0x9e3779b9, at)
	}
	if odd := v.odd(5000*0x9e3779b9&0xffffffff, 30000, at); odd > 0.1 {
		t.Errorf("a door that nobody has used, where most have not been: %v", odd)
	}
}
