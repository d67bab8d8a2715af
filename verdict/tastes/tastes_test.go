package tastes

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// TestFewPagesProveLittle: a few pages that many happen to read, say by one link in the news, say little of what others read in common;
// as many pairs of readers of as many pages do.
func TestFewPagesProveLittle(t *testing.T) {
	chance := func(pages ...int) float32 { // so many pages that are read by one, by two, … people
		var all common
		home, page := 0, uint64(0)
		e := &verdict.Event{At: time.Unix(1.8e9, 0), N: 1}
		e.PathShape = 1 << 32
		for readers, n := range pages {
			for range n {
				page++
				e.Path = tally.Fold(page, 0xd1b54a32d192ed03)
				for range readers + 1 {
					for before := all.views[0]; all.views[0] == before; home++ { // half of the views count
						e.Subjects[0].ID = [16]byte{10: 0xff, 11: 0xff, 12: 77, 13: byte(home), 14: byte(home >> 8), 15: 9}
						all.note(e)
					}
				}
			}
		}
		c, _ := all.share(e)
		return c * all.views[0] * all.views[0] / 2 // pairs
	}
	if few := chance(80, 0, 0, 5); few > 8 {
		t.Errorf("%.1f pairs are expected, of 30 that five pages make", few)
	}
	if many := chance(40, 30); many < 15 || many > 30 {
		t.Errorf("%.1f pairs are expected, of 30 that thirty pages make", many)
	}
}

// TestASiteGetsToKnowItsPeople: that one worker's event is of a time when the site knows its people, and another one's of the time before,
// harms neither.
func TestASiteGetsToKnowItsPeople(t *testing.T) {
	var s Service
	e := &verdict.Event{At: time.Unix(1.8e9, 0), N: 1, Path: 1, PathShape: 1 << 32}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20_000 {
			s.NoteAnybody(e)
			s.Wanted(e, false)
		}
	}()
	for going := true; going; {
		s.Wanted(e, true)
		select {
		case <-done:
			going = false
		default:
		}
	}
	if _, _, known := s.Wanted(e, true); known {
		t.Error("something is known of people whom nobody has seen")
	}
}
