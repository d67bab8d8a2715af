package verdict

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/store"
	"antirobot/verdict/bans"
)

const (
	sweepEvery    = time.Minute
	startPatience = 15 * time.Second // for the first scan of a shared store
	followPause   = time.Second      // after an error
	closePatience = 10 * time.Second // for the last writes
)

// writer writes to the store behind the requests.
type writer interface {
	Run(ctx context.Context)
	Flush(ctx context.Context) error
	Err() error
	Backlog() (waiting int64, failed uint64)
}

func (c *Cacher) writers() map[string]writer {
	return map[string]writer{
		"bans": c.LiveBans.writes, "ledger": c.ledger.Writes(), "revocations": c.Revocations.writes, "standing": c.grades.Writes(),
	}
}

// Start reads the store, then keeps reading and writing until Close. With an unshared store an error is fatal, because
// the bans, revocations and spent allowances are missing. A shared store that is away is not an error: the Cacher
// carries on with what it has, reports that in Health and in each Decision, and tries again.
func (c *Cacher) Start(ctx context.Context) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	if c.st.Shared() {
		c.startShared(ctx, run)
	} else if err := errors.Join(
		c.LiveBans.scan(ctx), c.ledger.Load(ctx), c.Revocations.scan(ctx), c.grades.Scan(ctx), c.Attacks.load(ctx),
	); err != nil {
		cancel()
		return err
	}
	for _, w := range c.writers() {
		c.wg.Go(func() { w.Run(run) })
	}
	c.wg.Go(func() { c.sweep(run) })
	if c.feed.queue != nil {
		c.wg.Go(func() { c.feed.run(run) })
	}
	return nil
}

func (c *Cacher) startShared(ctx, run context.Context) {
	followers := []follower{
		{of: "bans", topic: banTopic, scan: c.scanShared, heard: c.LiveBans.heard},
		{of: "revocations", topic: revocationTopic, scan: c.Revocations.scan, heard: c.Revocations.heard},
		{of: "standing", scan: c.grades.Scan},
	}
	c.align()
	c.openLog()
	c.wg.Go(func() { store.Every(run, alignEvery, c.align) })
	c.wg.Go(func() {
		for run.Err() == nil {
			_ = c.Attacks.load(run) // the followers report a store that fails
			store.Pause(run, attackEvery)
		}
	})
	if c.applies {
		c.wg.Go(func() {
			c.feed.follow(run, func(msg []byte) {
				if !c.apply(msg) {
					c.bad.Inc()
				}
			})
		})
	}
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
	if err := c.LiveBans.scan(ctx); err != nil {
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
	signal := sync.OnceFunc(func() { ready <- struct{}{} })
	for ctx.Err() == nil {
		err := c.followOnce(ctx, f, func() {
			c.stale.And(^f.bit)
			signal()
		})
		if ctx.Err() != nil || err == nil || errors.Is(err, store.ErrGap) || errors.Is(err, errScan) {
			continue
		}
		c.stale.Or(f.bit)
		signal()
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
			c.bad.Inc() // perhaps a message of a newer version: the next scan repairs what it changed
		}
		return nil
	})
	if until.Err() != nil {
		return nil
	}
	return err
}

// sweep forgets expired records, and gives idle leases back.
func (c *Cacher) sweep(ctx context.Context) {
	n := 0
	store.Every(ctx, sweepEvery, func() {
		c.sweepOnce()
		if n++; n%60 == 0 {
			c.grades.Sweep(c.horizon())
		}
		if err := c.ledger.GiveBack(ctx, false); err != nil {
			c.log.Warn().Err(err).Msg("an idle lease is lost")
		}
	})
}

func (c *Cacher) sweepOnce() {
	at, now := c.horizon(), c.now().UnixNano()
	c.LiveBans.table.Sweep(at.UnixNano())
	c.Replica.sweep(now)
	c.latest.Sweep(now)
	c.ledger.Sweep(c.passTime(at))
	c.settle()
}

// Close stops the goroutines, writes what is still pending, returns all leases, and reports what of that failed. When
// it is called, no decisions may be running or follow. The store stays open: it belongs to the caller.
func (c *Cacher) Close() error {
	if c.cancel == nil {
		return nil
	}
	c.cancel()
	c.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	var errs []error
	for _, w := range c.writers() {
		errs = append(errs, w.Flush(ctx))
	}
	return errors.Join(append(errs, c.ledger.GiveBack(ctx, true), c.local.Load().Close())...)
}

// A gateway with a shared store logs every ban, lifting, revocation and payment that it makes or hears in a local file. A
// starting gateway reads it first: it serves while the store is away, and is the source for writing back what the store has
// lost. Times in it are the store's.

// openLog reads the log of the previous run, and logs from then on.
func (c *Cacher) openLog() {
	if c.logFile == "" {
		return
	}
	c.readLog()
	l := store.OpenLog(c.logFile, c.now, c.log, c.eachLogged)
	c.local.Store(l)
	c.ledger.LogTo(l)
}

// eachLogged yields all records that the log has to hold.
func (c *Cacher) eachLogged(put func(store.Logged) error) (err error) {
	skew := c.skewNow()
	c.LiveBans.table.EachRecord(c.now().UnixNano(), func(b *bans.Ban) bool {
		err = put(banRecord(b, skew))
		return err == nil
	})
	if err != nil {
		return err
	}
	err = c.Revocations.each(func(id revokedKey, val int64) error { return put(revocationRecord(id, val)) })
	if err != nil {
		return err
	}
	return c.ledger.EachLease(put)
}

func (c *Cacher) readLog() {
	at := c.now()
	read, err := store.ReadLog(c.logFile, func(store.Logged) error { return nil })
	if err == nil && at.Sub(read.At) > bans.LiftedFor {
		// The record of a ban that was lifted since then may be forgotten.
		c.log.Warn().Time("of", read.At).Msg("the local log of the shared store's bans is too old to be used")
		return
	}
	if err == nil {
		read, err = store.ReadLog(c.logFile, c.takeLogged)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.log.Warn().Err(err).Msg("the local log of the shared store's bans can't be read")
	}
	if read.Damaged > 0 {
		c.log.Warn().Int("places", read.Damaged).
			Msg("the local log of the shared store's bans is damaged: skipped what can't be read")
	}
	c.log.Info().Int("records", read.Records).Dur("age", at.Sub(read.At).Truncate(time.Second)).
		Msg("read the local log of the shared store's bans, revocations and payments")
}

func (c *Cacher) takeLogged(l store.Logged) (err error) {
	switch of := string(l.Key); {
	case len(of) > len(bans.Prefix) && of[:len(bans.Prefix)] == bans.Prefix:
		_, _, err = c.LiveBans.take(l.Key, l.Val)
	case len(of) > len(revokedPrefix) && of[:len(revokedPrefix)] == revokedPrefix:
		_, err = c.Revocations.apply(l.Val)
	default:
		err = c.ledger.Recall(l.Key, l.Val)
	}
	if err != nil {
		c.bad.Inc()
	}
	return nil
}

// register adds the metrics of this package to the set.
func (c *Cacher) register(set *metrics.Set) {
	set.RegisterMetricsWriter(func(w io.Writer) { c.Loads.write(w, c.now().UnixNano()) })
	gauge := func(name string, f func() float64) { set.NewGauge(name, f) }
	gauge("antirobot_under_attack", func() float64 { return c.UnderAttack().Share })
	gauge("antirobot_bans", func() float64 { return float64(c.LiveBans.table.Len()) })
	gauge("antirobot_bans_dropped_total", func() float64 { return float64(c.LiveBans.table.Evicted()) })
	gauge("antirobot_over_quota", func() float64 { return float64(c.clients.Len() + c.networks.Len()) })
	gauge("antirobot_over_quota_refused_full_total", func() float64 { return float64(c.clients.Refused() + c.networks.Refused()) })
	gauge("antirobot_doubts", func() float64 { return float64(c.doubts.Len()) })
	gauge("antirobot_doubts_refused_full_total", func() float64 { return float64(c.doubts.Refused()) })
	gauge("antirobot_campaigns", func() float64 { return float64(c.campaigns.Len()) })
	gauge("antirobot_passes_paying", func() float64 { return float64(c.ledger.Totals().Passes) })
	gauge("antirobot_allowance_spent_total", func() float64 { return float64(c.ledger.Totals().Spent) })
	gauge("antirobot_allowance_returned_total", func() float64 { return float64(c.ledger.Totals().Returned) })
	gauge("antirobot_allowance_refused_full_total", func() float64 { return float64(c.ledger.Totals().Refused) })
	gauge("antirobot_standing", func() float64 { return float64(c.grades.Len()) })
	gauge("antirobot_standing_refused_total", func() float64 { return float64(c.grades.Refused()) })
	gauge("antirobot_verdict_stale", func() float64 { return float64(min(c.stale.Load(), 1)) })
	c.feed.register(gauge)
	for name, w := range c.writers() {
		gauge(fmt.Sprintf("antirobot_writes_waiting{of=%q}", name), func() float64 { n, _ := w.Backlog(); return float64(n) })
		gauge(fmt.Sprintf("antirobot_writes_failed_total{of=%q}", name), func() float64 { _, n := w.Backlog(); return float64(n) })
	}
}
