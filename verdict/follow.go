package verdict

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"antirobot/store"
)

func (c *Cacher) startShared(ctx, run context.Context) {
	followers := []follower{
		{of: "bans", topic: banTopic, scan: c.scanShared, heard: c.heardBan},
		{of: "revocations", topic: revocationTopic, scan: c.revoked.Scan, heard: c.revoked.Heard},
		{of: "standing", scan: c.standing.Scan},
	}
	c.align()
	c.openLog()
	c.wg.Go(func() { c.keepAligned(run) })
	ready := make(chan struct{}, len(followers))
	for i := range followers {
		f := &followers[i]
		f.bit = 1 << i
		c.stale.Or(f.bit)
		c.wg.Go(func() { c.follow(run, f, ready) })
	}
	patience, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for range followers {
		select {
		case <-ready:
			continue
		case <-patience.Done():
		}
		break
	}
	if c.stale.Load() != 0 {
		c.log.Error().Msg("the shared store does not answer: starting from the local log of its bans and revocations")
	}
}

// follower is one table that a shared store keeps in sync on all nodes.
type follower struct {
	of    string
	topic string // empty: no feed, only scans
	bit   uint32 // in stale
	scan  func(context.Context) error
	heard func([]byte) error
}

// scanShared reads the bans, and also checks whether the store has lost leases.
func (c *Cacher) scanShared(ctx context.Context) error {
	if err := c.scanBans(ctx); err != nil {
		return err
	}
	if err := c.ledger.Restore(ctx); err != nil {
		return err
	}
	c.ledger.LogLife()
	c.local.Load().Stamp()
	return nil
}

// errScan is returned by a follower's heard when the message says that only a scan can tell what has changed.
var errScan = errors.New("verdict: to be scanned again")

// follow keeps memory in sync with the shared store: it notes the feed's position, scans, follows from there, and scans
// again every Rescan and whenever the feed has a gap. ready is signalled once: after the first scan, or when the store
// did not allow it.
func (c *Cacher) follow(ctx context.Context, f *follower, ready chan<- struct{}) {
	tell := sync.OnceFunc(func() { ready <- struct{}{} })
	for ctx.Err() == nil {
		err := c.followOnce(ctx, f, func() {
			c.stale.And(^f.bit)
			tell()
		})
		if ctx.Err() != nil || err == nil || errors.Is(err, store.ErrGap) || errors.Is(err, errScan) {
			continue
		}
		c.stale.Or(f.bit)
		tell()
		c.log.Error().Err(err).Str("of", f.of).Msg("the shared store can't be read; going on from memory")
		store.Pause(ctx, followPause)
	}
}

func (c *Cacher) followOnce(ctx context.Context, f *follower, scanned func()) error {
	var from string
	if f.heard != nil {
		var err error
		if from, err = c.st.Position(ctx, f.topic); err != nil {
			return fmt.Errorf("position of %s: %w", f.topic, err)
		}
	}
	if err := f.scan(ctx); err != nil {
		return err
	}
	scanned()
	if f.heard == nil {
		store.Pause(ctx, c.cfg.Rescan)
		return nil
	}
	until, cancel := context.WithTimeout(ctx, c.cfg.Rescan)
	defer cancel()
	err := c.st.Follow(until, f.topic, from, func(_ string, msg []byte) error {
		switch err := f.heard(msg); {
		case errors.Is(err, errScan):
			return err
		case err != nil:
			c.badRecords.Inc() // perhaps a message of a newer version: the next scan repairs what it changed
		}
		return nil
	})
	if until.Err() != nil {
		return nil
	}
	return err
}
