package processor

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestOthersSide: among visitors of whom nobody is known, those who stay evenly and never for long stand on one side of those
// who don't, whether a fifth of them or three fifths are robots; and who is on which side does not depend on how long the
// site's pages take to read.
func TestOthersSide(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	visitor := func(i int, middle, spread float64) (*verdict.Event, *trail) {
		at, tr := time.Unix(1.8e9, 0), &trail{}
		for k := range 30 {
			at = at.Add(time.Duration(middle * float64(time.Second) * math.Exp(spread*rng.NormFloat64())))
			e := &verdict.Event{At: at, Type: verdict.TypeHTML, BytesOut: 10000, Path: uint64(k) * 0x9e3779b97f4a7c15}
			tr.load(e, true, false, 3)
		}
		e := event(at, i*256, cookie(i))
		e.Claim = client.ParseClaim([]byte(firefox))
		return e, tr
	}
	for _, site := range []float64{4, 40} {
		for _, robots := range []int{1, 3} { // of five
			p := &people{}
			for i := range 150 {
				middle, spread := site, 1.2
				if i%5 < robots {
					middle, spread = site*0.7, 0.4
				}
				e, tr := visitor(i, middle, spread)
				x := tr.traits()
				p.others.vote(e, &x, normOthers)
			}
			var x, y float32
			for i := range 20 {
				e, even := visitor(1000+i, site*0.7, 0.4)
				_, person := visitor(2000+i, site, 1.2)
				x, y = x+p.compare(e, even).side/20, y+p.compare(e, person).side/20
			}
			if !(x > y+0.3) || !(x > 0) || !(y < 0) {
				t.Errorf("pages of %v s, %d of 5 are robots: a robot is at %.2f, a person at %.2f", site, robots, x, y)
			}
		}
	}
	e, tr := visitor(1, 10, 1)
	if s := (&people{}).compare(e, tr).side; s == s {
		t.Errorf("nobody has been seen, and a visitor is at %v", s)
	}
}

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
			c.t.load(e, true, false, 0)
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
