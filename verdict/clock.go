package verdict

import (
	"context"
	"sync"
	"time"

	"antirobot/store"
	"antirobot/verdict/bans"
)

// horizon is the time before which whatever has ended may be forgotten: earlier than the present while this machine's
// clock is in doubt. What has ended stops nobody in either case.
func (c *Cacher) horizon() time.Time { return store.Horizon(c.st, c.now()) }

// passTime returns a time of this machine's clock by the one that all nodes share, by which passes go.
func (c *Cacher) passTime(at time.Time) time.Time { return store.Time(c.st, at) }

func (c *Cacher) passNow() time.Time { return c.passTime(c.now()) }

// settleClock checks whether the clock went back: a ban made in what is now the future begins now, and lasts as long as
// it was meant to. Nodes that share a store tell each other the store's time, so they don't need this.
func (c *Cacher) settleClock() {
	k, ok := c.st.(store.Keeper)
	if !ok || c.st.Shared() {
		return
	}
	jumps := k.Jumps()
	if c.jumps.Swap(jumps) == jumps {
		return
	}
	for _, key := range c.bans.Settle(c.now().UnixNano(), store.JumpLeast) {
		c.banWrites.Add(key)
	}
}

// alignEvery is how often a node with a shared store checks whether its clock has changed relative to the store's.
const alignEvery = 100 * time.Millisecond

// skewed is how far the shared store's clock is ahead of ours, as applied to the bans in memory: the times that nodes
// tell each other are the store's. It is held while times are converted from one clock to the other.
type skewed struct {
	sync.RWMutex
	by time.Duration
}

// align moves the bans when our clock was set: by the store's clock nothing has happened.
func (c *Cacher) align() {
	c.skew.Lock()
	defer c.skew.Unlock()
	if by := store.Skew(c.st); by != c.skew.by {
		c.bans.Move(c.skew.by - by)
		c.skew.by = by
	}
}

func (c *Cacher) keepAligned(ctx context.Context) {
	store.Every(ctx, alignEvery, c.align)
}

func (c *Cacher) skewNow() time.Duration {
	c.skew.RLock()
	defer c.skew.RUnlock()
	return c.skew.by
}

// told returns the record with the key, and the same with the store's times.
func (c *Cacher) told(k bans.Key) (b bans.Ban, told *bans.Ban, known bool) {
	c.skew.RLock()
	defer c.skew.RUnlock()
	b, known = c.bans.Get(k, c.horizon().UnixNano())
	return b, b.Moved(c.skew.by), known
}
