package store

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
)

// JumpLeast is how far a clock must move at once to have jumped: less is the work of a daemon that sets it right.
const JumpLeast = time.Minute

// Clock watches the clock of this machine, and says what may be forgotten by it. What has ended is absent by the clock as
// it is; it is forgotten for good only when it ended before the horizon, which goes with the clock, but does not follow a
// jump ahead until the clock has stood there for as long as a hold. So a clock that goes ahead and back costs nothing that
// was to be kept. Safe for concurrent use.
type Clock struct {
	log  zerolog.Logger
	now  func() time.Time
	ran  func() time.Duration // what no one can set
	hold time.Duration

	mu      sync.Mutex
	wall    time.Time     // at the last look
	at      time.Duration // by ran, the same
	horizon time.Time
	doubt   time.Duration // for how long the clock has been ahead of the horizon; 0: it is not
	jumps   uint64
	jump    time.Duration // the last one
	jumped  time.Time     // when, by the clock after it
	noted   time.Duration // by ran, the same
}

// NewClock returns a Clock over now, which was at a horizon when it was looked at last, in doubt for a while already; the
// zero values are for one that is new. What can not be set is read from now's monotonic readings, unless ran is given.
func NewClock(now func() time.Time, ran func() time.Duration, horizon time.Time, doubt, hold time.Duration, log zerolog.Logger) *Clock {
	begin := now()
	if ran == nil {
		ran = func() time.Duration { return now().Sub(begin) }
	}
	c := &Clock{log: log, now: now, ran: ran, hold: hold, wall: begin.Round(0), at: ran(), horizon: horizon, doubt: doubt}
	if horizon.IsZero() {
		c.horizon = c.wall
	}
	if gap := c.wall.Sub(c.horizon); gap < -JumpLeast {
		c.note(gap)
	}
	c.Look()
	return c
}

// Look brings the horizon up to date, and notices jumps. It is called by those who ask, and should be about once a second.
func (c *Clock) Look() (horizon time.Time, doubt time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, at := c.now().Round(0), c.ran()
	ran := at - c.at
	if by := wall.Sub(c.wall) - ran; by.Abs() > JumpLeast {
		c.note(by)
		c.doubt = 0 // a new one, for a whole hold
	}
	c.wall, c.at, c.horizon = wall, at, c.horizon.Add(ran)
	if ahead := wall.Sub(c.horizon); ahead > JumpLeast && c.doubt+ran < c.hold {
		c.doubt += max(ran, 1)
	} else {
		c.horizon, c.doubt = wall, 0
	}
	return c.horizon, c.doubt
}

// note takes a jump. The caller holds the lock.
func (c *Clock) note(by time.Duration) {
	c.jumps++
	c.jump, c.jumped, c.noted = by, c.now(), c.ran()
	c.log.Error().Stringer("by", by.Round(time.Second)).Stringer("kept_for", c.hold).
		Msg("the clock of this machine jumped: what has ended by it is kept for a while, in case it goes back; look at its time service")
}

// Horizon returns the moment before which what has ended may be forgotten.
func (c *Clock) Horizon() time.Time {
	horizon, _ := c.Look()
	return horizon
}

// Jumps returns how often the clock jumped.
func (c *Clock) Jumps() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jumps
}

// Err speaks of a jump for LossNotice.
func (c *Clock) Err() error {
	c.Look()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jumps == 0 || c.ran()-c.noted > LossNotice {
		return nil
	}
	where := "ahead"
	if c.jump < 0 {
		where = "back"
	}
	return fmt.Errorf("store: the clock of this machine jumped %v %s, to %s: look at its time service",
		c.jump.Abs().Round(time.Second), where, c.jumped.UTC().Format(time.RFC3339))
}

// WriteMetrics writes the numbers in the Prometheus text format.
func (c *Clock) WriteMetrics(w io.Writer) {
	horizon, doubt := c.Look()
	ahead := 0.0
	if doubt > 0 {
		ahead = c.now().Round(0).Sub(horizon).Seconds()
	}
	metrics.WriteCounterUint64(w, "antirobot_clock_jumps_total", c.Jumps())
	metrics.WriteGaugeFloat64(w, "antirobot_clock_doubted_seconds", ahead)
}

// Keeper is a Store that keeps what has ended while the clock is in doubt.
type Keeper interface {
	// Horizon is that of the store's Clock.
	Horizon() time.Time
	// Jumps is how often the clock jumped.
	Jumps() uint64
	// ScanKept is Scan of all that has not ended before Horizon. ttl is negative for what has ended by the clock.
	ScanKept(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error
}

// Horizon returns the moment before which what has ended may be forgotten: the present, where the store is no Keeper.
func Horizon(s KV, now time.Time) time.Time {
	if k, ok := s.(Keeper); ok {
		return k.Horizon()
	}
	return now
}

// ScanKept is s.ScanKept, or s.Scan where s is no Keeper.
func ScanKept(ctx context.Context, s KV, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	if k, ok := s.(Keeper); ok {
		return k.ScanKept(ctx, prefix, f)
	}
	return s.Scan(ctx, prefix, f)
}
