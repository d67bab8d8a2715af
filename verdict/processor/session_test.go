package processor

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestFadedCounts: a steady pace of r a second counts as r times the span, and a burst as its size.
func TestFadedCounts(t *testing.T) {
	var s session
	at := time.Unix(1.8e9, 0)
	for range 20_000 {
		at = at.Add(200 * time.Millisecond)
		s.turn(&verdict.Event{At: at, N: 1, Method: 'G'}, false)
	}
	for i, want := range []float64{0: 5.5, 1: 50, 2: 300, 3: 3000 * (1 - math.Exp(-4000.0/600))} {
		if got := float64(s.faded[i]); got < want*0.98 || got > want*1.02 {
			t.Errorf("in %v s: %v, want %v", spans[i], got, want)
		}
	}
	s.fade(at.Add(time.Minute))
	if got := float64(s.faded[2]); got < 300/math.E*0.97 || got > 300/math.E*1.03 {
		t.Errorf("a minute later: %v", got)
	}
}

// TestDistinct checks the estimates of small sets.
func TestDistinct(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 5, 20, 60, 150} {
		var mean float64
		const rounds = 50
		for range rounds {
			var set uint64
			for range n {
				set |= bit(rnd.Uint64(), 64)
			}
			mean += float64(distinct(set, 64)) / rounds
		}
		if mean < float64(n)*0.85-0.1 || mean > float64(n)*1.15+0.5 {
			t.Errorf("%d values are estimated as %.1f", n, mean)
		}
	}
}

// TestSharesFade: a subject that changes its behaviour is known by the new one after a few hundred pages, and no share
// ever leaves 0 to 1.
func TestSharesFade(t *testing.T) {
	var s session
	e := &verdict.Event{At: time.Unix(1.8e9, 0), N: 1, Method: 'G', Status: 200}
	of := part(shareRefererNone, shareCount, 4)
	for n := range 2000 {
		e.At = e.At.Add(time.Second)
		e.Referer = client.RefererNone
		if n >= 1000 {
			e.Referer = client.RefererSame
		}
		s.turn(e, false)
		for i, c := range s.shares {
			if c > s.sharesOf {
				t.Fatalf("page %d: share %d is %d of %d", n, i, c, s.sharesOf)
			}
		}
	}
	if v := of(&evidence{s: s}); v > 0.1 {
		t.Errorf("a thousand pages later: %v", v)
	}
}
