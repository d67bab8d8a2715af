//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package processor

import (
	"slices"
	"testing"
	"time"
)

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
			s.turn(e, true)
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
