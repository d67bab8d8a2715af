package verdict

import (
	"context"
	"sync"
	"time"

	"antirobot/store"
)

// horizon is the time before which whatever has ended may be forgotten: earlier than the present while this machine's
// clock is in doubt. What has ended stops nobody in either case.
func (c *Cacher) horizon() time.Time { return store.Horizon(c.st, c.now()) }

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
	for _, key := range c.bans.Settle(c.now().UnixNano()) {
		c.banWrites.Add(key)
	}
}

// Settle makes bans begin at the given time if they were made more than a clock jump after it, and returns their keys.
func (t *banTable) Settle(at int64) (moved []banKey) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		var late []uint32
		for _, j := range sh.heap {
			if sh.at(j).made > at+int64(store.JumpLeast) {
				late = append(late, j)
			}
		}
		for _, j := range late {
			r := sh.at(j)
			r.until, r.made = r.until-(r.made-at), at
			moved = append(moved, banKey{r.subject, r.source, t.names.text(r.service)})
			sh.fix(r.heapAt)
		}
		sh.mu.Unlock()
	}
	return moved
}

// Move converts the times of all bans to a clock that is d ahead of the previous one.
func (t *banTable) Move(d time.Duration) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for _, j := range sh.heap { // the order stays the same
			r := sh.at(j)
			r.until, r.made = r.until+int64(d), r.made+int64(d)
		}
		sh.mu.Unlock()
	}
}

// alignEvery is how often a node with a shared store checks whether its clock has changed relative to the store's.
const alignEvery = time.Second

// skewed is how far the shared store's clock is ahead of ours, as applied to the bans in memory: the times that nodes
// tell each other are the store's. It is held while times are converted from one clock to the other.
type skewed struct {
	sync.RWMutex
	by time.Duration
}

// align moves the bans when our clock was set: by the store's clock nothing has happened.
func (c *Cacher) align() {
	s, ok := c.st.(store.Skewed)
	if !ok {
		return
	}
	c.skew.Lock()
	defer c.skew.Unlock()
	if by := s.Skew(); by != c.skew.by {
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
func (c *Cacher) told(k banKey) (b Ban, told *Ban, known bool) {
	c.skew.RLock()
	defer c.skew.RUnlock()
	b, known = c.bans.Get(k, c.horizon().UnixNano())
	return b, b.moved(c.skew.by), known
}
