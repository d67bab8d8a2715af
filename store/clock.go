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

// JumpLeast is the smallest jump: smaller changes are a time daemon's corrections.
const JumpLeast = time.Minute

// Clock watches this machine's clock. An entry that has expired by it is absent, but is only removed if it expired
// before the horizon. The horizon follows the clock, except for a jump ahead until the clock has stayed there for a
// whole hold: a clock that goes ahead and back loses nothing. Safe for concurrent use.
type Clock struct {
	log  zerolog.Logger
	now  func() time.Time
	ran  func() time.Duration // cannot be set by anyone
	hold time.Duration

	mu      sync.Mutex
	wall    time.Time // at the last look
	at      time.Duration
	horizon time.Time
	doubt   time.Duration // how long the clock has been ahead of the horizon; 0: it is not
	jumps   uint64
	jump    time.Duration
	jumped  time.Time // when it happened, by the clock after the jump
	noted   time.Duration
}

// NewClock returns a Clock over now. horizon and doubt are those of the last look; both are zero for a new Clock.
// Elapsed time comes from now's monotonic readings, unless ran is given.
func NewClock(
	now func() time.Time, ran func() time.Duration, horizon time.Time, doubt, hold time.Duration, log zerolog.Logger,
) *Clock {
	begin := now()
	if ran == nil {
		ran = func() time.Duration { return now().Sub(begin) }
	}
	c := &Clock{
		log: log, now: now, ran: ran, hold: hold, wall: begin.Round(0), at: ran(), horizon: horizon,
		doubt: doubt,
	}
	if horizon.IsZero() {
		c.horizon = c.wall
	}
	if gap := c.wall.Sub(c.horizon); gap < -JumpLeast {
		c.note(gap)
	}
	c.Look()
	return c
}

// Look updates the horizon and notices jumps. It should run about once a second.
func (c *Clock) Look() (horizon time.Time, doubt time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, at := c.now().Round(0), c.ran()
	ran := at - c.at
	if by := wall.Sub(c.wall) - ran; by.Abs() > JumpLeast {
		c.note(by)
		c.doubt = 0
	}
	c.wall, c.at, c.horizon = wall, at, c.horizon.Add(ran)
	if ahead := wall.Sub(c.horizon); ahead > JumpLeast && c.doubt+ran < c.hold {
		c.doubt += max(ran, 1)
	} else {
		c.horizon, c.doubt = wall, 0
	}
	return c.horizon, c.doubt
}

// note records a jump. The caller holds the lock.
func (c *Clock) note(by time.Duration) {
	c.jumps++
	c.jump, c.jumped, c.noted = by, c.now(), c.ran()
	c.log.Error().Stringer("by", by.Round(time.Second)).Stringer("kept_for", c.hold).
		Msg("the clock of this machine jumped: expired entries are kept for a while; check its time service")
}

// Horizon returns the moment before which expired entries may be forgotten.
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

// Err reports a jump for LossNotice.
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

// Keeper is a Store that keeps expired entries after a jump of the clock.
type Keeper interface {
	// Horizon is the horizon of the store's Clock.
	Horizon() time.Time
	// Jumps is how often the clock jumped.
	Jumps() uint64
	// ScanKept is Scan over all entries that had not expired before Horizon. ttl is negative for those expired by the
	// clock.
	ScanKept(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error
}

// Horizon is s.Horizon, or now if s is no Keeper.
func Horizon(s KV, now time.Time) time.Time {
	if k, ok := s.(Keeper); ok {
		return k.Horizon()
	}
	return now
}

// ScanKept is s.ScanKept, or s.Scan if s is no Keeper.
func ScanKept(ctx context.Context, s KV, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	if k, ok := s.(Keeper); ok {
		return k.ScanKept(ctx, prefix, f)
	}
	return s.Scan(ctx, prefix, f)
}
