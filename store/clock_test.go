package store

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// hands is a clock that can be set, together with the time that has really passed.
type hands struct {
	wall time.Time
	ran  time.Duration
}

func (h *hands) run(d time.Duration) { h.wall, h.ran = h.wall.Add(d), h.ran+d }

func (h *hands) clock(horizon time.Time, doubt time.Duration) *Clock {
	return NewClock(func() time.Time { return h.wall }, func() time.Duration { return h.ran }, horizon, doubt, 24*time.Hour, zerolog.Nop())
}

// TestClock: the horizon follows the clock, waits out a jump ahead and follows a jump back; health reports both.
func TestClock(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for _, by := range []time.Duration{time.Hour, 24 * time.Hour, 365 * 24 * time.Hour} {
		h := &hands{wall: noon}
		c := h.clock(time.Time{}, 0)
		h.run(time.Hour)
		if got := c.Horizon(); !got.Equal(noon.Add(time.Hour)) || c.Err() != nil || c.Jumps() != 0 {
			t.Fatalf("before a jump: %v, %v, %d jumps", got, c.Err(), c.Jumps())
		}
		h.wall = h.wall.Add(by)
		if got := c.Horizon(); !got.Equal(noon.Add(time.Hour)) || c.Err() == nil || c.Jumps() != 1 {
			t.Errorf("%v ahead: %v, %v, %d jumps", by, got, c.Err(), c.Jumps())
		}
		h.run(2 * time.Hour)
		if got := c.Horizon(); !got.Equal(noon.Add(3*time.Hour)) || c.Err() != nil {
			t.Errorf("two hours after %v ahead: %v, %v", by, got, c.Err())
		}
		h.wall = h.wall.Add(-by)
		if got := c.Horizon(); !got.Equal(noon.Add(3*time.Hour)) || c.Err() == nil || c.Jumps() != 2 {
			t.Errorf("back by %v: %v, %v, %d jumps", by, got, c.Err(), c.Jumps())
		}
		h.wall = h.wall.Add(-by) // and further back: nothing is forgotten by a time that has not come yet
		if got := c.Horizon(); got.After(h.wall) {
			t.Errorf("twice back by %v the horizon is %v, and the clock %v", by, got, h.wall)
		}
		h.wall = h.wall.Add(by)
		c.Horizon()
		for range 26 { // a clock that stays ahead for a day is believed
			h.run(time.Hour)
			c.Horizon()
		}
		if got := c.Horizon(); !got.Equal(h.wall) {
			t.Errorf("a day after %v ahead the horizon is %v, and the clock %v", by, got, h.wall)
		}
	}
}

// TestClockOverRestarts: downtime is in doubt just as a jump is, over several lives and without an alarm; a clock that is
// behind a time seen before does raise one.
func TestClockOverRestarts(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	h := &hands{wall: noon.Add(30 * 24 * time.Hour)}
	c := h.clock(noon, 0)
	if got := c.Horizon(); !got.Equal(noon) || c.Err() != nil {
		t.Fatalf("after a month: %v, %v", got, c.Err())
	}
	lives := 0
	for horizon, doubt := c.Look(); doubt > 0; horizon, doubt = c.Look() {
		if lives++; lives > 4 {
			t.Fatalf("after %d days of eight hours the horizon is %v behind", lives, h.wall.Sub(horizon))
		}
		h.run(8 * time.Hour)
		horizon, doubt = c.Look()
		h.wall = h.wall.Add(16 * time.Hour) // the machine is off
		c = h.clock(horizon, doubt)
		if doubt == 0 {
			break
		}
	}
	h = &hands{wall: noon.Add(-time.Hour)}
	c = h.clock(noon, 0)
	if got := c.Horizon(); !got.Equal(h.wall) || c.Err() == nil {
		t.Errorf("a start an hour before the last look: %v, %v", got, c.Err())
	}
}
