package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// schema is the version of what the gateways keep on the servers. Version 2 marks revoked bans and list entries; version 1
// deleted them, so they could not be told from what a server had lost.
const schema = 2

// clock knows how far the servers' clock is ahead of ours.
type clock struct {
	seen atomic.Int64           // nanoseconds, as last measured
	used atomic.Pointer[skewed] // nil: not measured yet
}

// skewed is a skew, which changes only when the clocks do, and when it was measured last.
type skewed struct {
	by time.Duration
	at time.Time
}

// skewStep is how much the measurement must change before Skew does: times that nodes exchange should not jitter with the
// network.
const skewStep = time.Second

// note takes a measurement: the servers' time between two readings of ours.
func (c *clock) note(server, before, after time.Time, most time.Duration) {
	if after.Sub(before) > most {
		return // it would measure the network
	}
	skew := server.Sub(before.Add(after.Sub(before) / 2).Round(0))
	c.seen.Store(int64(skew))
	used := skewed{at: after}
	if was := c.used.Load(); was != nil {
		used.by = was.by
	}
	switch {
	case skew.Abs() <= most:
		used.by = 0
	case (skew - used.by).Abs() > skewStep:
		used.by = skew
	}
	c.used.Store(&used)
}

func (c *clock) err(most time.Duration) error {
	skew := time.Duration(c.seen.Load())
	if skew.Abs() <= most {
		return nil
	}
	where := "behind"
	if skew < 0 {
		where = "ahead of"
	}
	return fmt.Errorf("redis: the clock of this machine is %v %s the store's: set one of them right", skew.Abs().Round(time.Millisecond), where)
}

// Skew implements store.Skewed. It follows at once when this machine's clock is set: the monotonic clock tells by how much.
func (s *Store) Skew() time.Duration {
	used := s.clock.used.Load()
	if used == nil {
		return 0
	}
	now := s.now()
	if set := now.Round(0).Sub(used.at.Round(0)) - now.Sub(used.at); set.Abs() > skewStep {
		return used.by - set
	}
	return used.by
}

// clockHold is how long entries that expired by this machine's clock are kept after it jumped ahead: longer than it takes
// to measure the clock again.
const clockHold = time.Hour

// Horizon implements store.Keeper: after a jump of this machine's own clock nothing in its memory is forgotten. The servers
// expire entries by their own clock.
func (s *Store) Horizon() time.Time { return s.steady.Horizon() }

// Jumps implements store.Keeper.
func (s *Store) Jumps() uint64 { return s.steady.Jumps() }

// ScanKept implements store.Keeper.
func (s *Store) ScanKept(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	return s.Scan(ctx, prefix, f)
}

// schemaError reports that newer gateways use the servers.
func (s *Store) schemaError() error {
	if v := s.schema.Load(); v > schema {
		return fmt.Errorf("redis: the shared store is of version %d and this program knows %d: bring it up to the version of the other gateways", v, schema)
	}
	return nil
}

func (s *Store) schemaKey() string { return s.key(letterOwn, 0, []byte("schema")) }

func (s *Store) lifeKey() string { return s.key(letterOwn, 0, []byte("life")) }

// live takes the name of the servers' data. If it differs from the one before, they were emptied, and every follower learns
// of that as a gap.
func (s *Store) live(name string) {
	switch old := s.named.Load(); {
	case old == nil:
		s.named.Store(&name)
	case *old != name:
		s.owed.again()
		s.named.Store(&name)
		s.era.Add(1)
	}
}

// Life implements store.Mortal.
func (s *Store) Life() (name string, masters uint64) {
	if p := s.named.Load(); p != nil {
		name = *p
	}
	return name, s.era.Load()
}

// hello tells the servers our version, and learns theirs and their time.
func (s *Store) hello(ctx context.Context) (time.Time, error) {
	before := s.now()
	m, err := s.run(ctx, false, s.scripts.hello, []string{s.schemaKey(), s.lifeKey()}, strconv.Itoa(schema), rand.Text())
	if err != nil {
		return time.Time{}, err
	}
	parts, err := m.AsStrSlice()
	if err != nil || len(parts) != 4 {
		return time.Time{}, s.failed(fmt.Errorf("the servers' time can't be read: %w", err))
	}
	var n [3]int64
	for i, p := range parts[:len(n)] {
		if n[i], err = strconv.ParseInt(p, 10, 64); err != nil {
			return time.Time{}, s.failed(fmt.Errorf("the servers' time can't be read: %w", err))
		}
	}
	now := time.Unix(n[0], n[1]*1000)
	s.clock.note(now, before, s.now(), s.cfg.MaxClockSkew)
	s.schema.Store(n[2])
	s.live(parts[3])
	return now, nil
}
