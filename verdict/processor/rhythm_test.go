//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package processor

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestRhythm: who comes in when hardly anybody does stands out, but only once the people of the site are known for a day; who
// comes in by one page after the other within an hour or two has come once; where people come at any hour, nobody stands out.
func TestRhythm(t *testing.T) {
	for name, c := range map[string]struct {
		days        int
		from, to    int // hours in which people come
		least, most float32
	}{
		"people who sleep":  {2, 8, 23, 1.5, 2.6},
		"known for hours":   {0, 8, 23, 0, 0},
		"people everywhere": {2, 0, 24, -0.2, 0.2},
	} {
		p, _ := newProcessor(t, nil)
		start := time.Unix(1.8e9, 0).Truncate(24 * time.Hour)
		n := 0
		for day := range c.days + 1 {
			for hour := c.from; hour < c.to; hour++ {
				for range 10 {
					n++
					w := &walk{p: p, n: (1000 + n) << 8, at: start.Add(time.Duration(24*day+hour)*time.Hour + 10*time.Minute)}
					w.load("/door", "", 0)
					w.load(fmt.Sprint("/in/", n), "/door", 10*time.Second)
				}
			}
		}
		visitor := func(n, hour int) float32 {
			w := &walk{p: p, n: n, at: start.Add(time.Duration(24*c.days+hour) * time.Hour)}
			for i := range 3 {
				w.load(fmt.Sprint("/list/", n, i), "", 5*time.Minute)
			}
			if of := w.factors(); of["hour_odds"] == of["hour_odds"] {
				return of["hour_odds"]
			}
			return 0
		}
		if night := visitor(1, 26); night < c.least || night > c.most {
			t.Errorf("%s: at two at night %v, want %v to %v", name, night, c.least, c.most)
		}
		if noon := visitor(2, 36); noon > 0.2 || c.least > 0 && noon > -0.2 {
			t.Errorf("%s: at noon %v", name, noon)
		}
	}
}

// TestReloadsAreNoReading: a page that reloads itself by the clock makes nobody even, whose own pace is not; one address after the other by
// the clock does, also where only the query differs.
func TestReloadsAreNoReading(t *testing.T) {
	spread := func(reloads, evenly int) float32 {
		var s session
		at, n := time.Unix(1.8e9, 0), uint64(0)
		open := func(after time.Duration, fresh bool) {
			if at = at.Add(after); fresh {
				n++
			}
			e := event(at, 1)
			e.Path, e.Target, e.Series, e.Number = 1<<20, n*0x9e3779b97f4a7c15, 1, uint32(n)
			s.turn(e, true, false)
		}
		open(0, true)
		for range reloads {
			open(20*time.Second, false)
		}
		for range evenly {
			open(20*time.Second, true)
		}
		for i := range 8 {
			open([...]time.Duration{3 * time.Second, 70 * time.Second, 9 * time.Second, 25 * time.Second}[i%4], true)
		}
		return factors[slices.Index(FactorNames(), "gap_spread")].of(&evidence{s: s})
	}
	reader := spread(0, 0)
	if waits := spread(40, 0); waits < 0.95*reader {
		t.Errorf("gap_spread %.2f after a page that reloads itself, %.2f without", waits, reader)
	}
	if clock := spread(0, 40); clock > 0.7*reader {
		t.Errorf("gap_spread %.2f after a list by the clock, %.2f without", clock, reader)
	}
}
