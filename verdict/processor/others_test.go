package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestEntersWithin: addresses that are opened in the middle of a visit count, but not for who never says where it comes from.
func TestEntersWithin(t *testing.T) {
	of := func(flags sessionFlags, referer client.Referer) float32 {
		c := &evidence{e: &verdict.Event{}}
		c.s.flags = flags
		for i := range 8 {
			e := &verdict.Event{At: time.Unix(1.8e9+int64(i)*9, 0), Path: uint64(i) * 77}
			if i%2 == 0 {
				e.Referer = referer
			}
			c.t.load(e, true, false)
		}
		return entersWithin(c)
	}
	if got := of(0, client.RefererNone); got == got {
		t.Errorf("who names no page: %v", got)
	}
	if got := of(flagLed, client.RefererNone); got < 0.85 {
		t.Errorf("who names pages for their parts alone: %v", got)
	}
	if got := of(0, client.RefererSame); got != 0.5 {
		t.Errorf("who opens every other page from outside: %v", got)
	}
}
