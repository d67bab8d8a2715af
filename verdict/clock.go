package verdict

import (
	"sync"
	"time"

	"antirobot/store"
)

// clock converts between this machine's clock and the one that nodes with a shared store have in common. Safe for
// concurrent use.
type clock struct {
	st   store.Store
	read func() time.Time

	mu   sync.RWMutex  // held while times are converted
	skew time.Duration // by how much the store's clock is ahead of ours, as applied to the bans in memory
}

// alignEvery is how often a node with a shared store checks whether its clock has changed relative to the store's.
const alignEvery = 100 * time.Millisecond

func (c *clock) now() time.Time { return c.read() }

// horizon is the time before which an ended record may be forgotten: earlier than the present while this machine's clock
// is in doubt.
func (c *clock) horizon() time.Time { return store.Horizon(c.st, c.now()) }

// passTime returns a time by the clock that all nodes share, by which passes go.
func (c *clock) passTime(at time.Time) time.Time { return store.Time(c.st, at) }

func (c *clock) passNow() time.Time { return c.passTime(c.now()) }

// skewed calls f with the skew, which does not change meanwhile.
func (c *clock) skewed(f func(skew time.Duration)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f(c.skew)
}

func (c *clock) skewNow() (skew time.Duration) {
	c.skewed(func(s time.Duration) { skew = s })
	return skew
}
