package verdict

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/verdict/bans"
)

const (
	sweepEvery    = time.Minute
	startPatience = 15 * time.Second // for the first scan of a shared store
	followPause   = time.Second      // after an error
	closePatience = 10 * time.Second // for the last writes
)

// Start reads the store, then keeps reading and writing until Close. With an unshared store an error is fatal, because
// the bans, revocations and spent allowances are missing. A shared store that is away is not an error: the Cacher
// carries on with what it has, reports that in Health and in each Decision, and tries again.
func (c *Cacher) Start(ctx context.Context) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	if c.st.Shared() {
		c.startShared(ctx, run)
		c.wg.Go(func() { c.followAttack(run) })
		if c.said.hearsAny {
			c.wg.Go(func() { c.hearAll(run) })
		}
	} else if err := c.load(ctx); err != nil {
		cancel()
		return err
	}
	c.wg.Go(func() { c.banWrites.Run(run) })
	c.wg.Go(func() { c.ledger.Writes().Run(run) })
	c.wg.Go(func() { c.revoked.behind.Run(run) })
	c.wg.Go(func() { c.standing.Writes().Run(run) })
	c.wg.Go(func() { c.sweep(run) })
	if c.said.tells() {
		c.wg.Go(func() { c.tellAll(run) })
	}
	return nil
}

func (c *Cacher) load(ctx context.Context) error {
	return errors.Join(c.scanBans(ctx), c.ledger.Load(ctx), c.revoked.Scan(ctx), c.standing.Scan(ctx), c.readAttack(ctx))
}

// sweep forgets what has expired, and gives idle leases back.
func (c *Cacher) sweep(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		c.sweepOnce()
		if n%60 == 59 {
			c.standing.Sweep(c.horizon())
		}
		if err := c.ledger.GiveBack(ctx, false); err != nil {
			c.log.Warn().Err(err).Msg("an idle lease is lost")
		}
	}
}

func (c *Cacher) sweepOnce() {
	at := c.horizon()
	c.bans.Sweep(at.UnixNano())
	c.readers.sweep(c.now().UnixNano())
	c.doubts.Sweep(c.now().UnixNano())
	c.ledger.Sweep(c.passTime(at))
	c.settleClock()
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
	err := errors.Join(c.banWrites.Flush(ctx), c.ledger.Writes().Flush(ctx), c.revoked.behind.Flush(ctx), c.standing.Writes().Flush(ctx))
	return errors.Join(err, c.ledger.GiveBack(ctx, true), c.local.Load().Close())
}

// register adds the metrics of this package to the set.
func (c *Cacher) register(set *metrics.Set) {
	c.badRecords = set.NewCounter("antirobot_bad_records_total")
	for s := range c.bansMade {
		c.bansMade[s] = set.NewCounter(fmt.Sprintf("antirobot_bans_made_total{source=%q}", bans.Source(s)))
	}
	gauge := func(name string, f func() float64) { set.NewGauge(name, f) }
	gauge("antirobot_under_attack", func() float64 { return c.UnderAttack().Share })
	set.RegisterMetricsWriter(func(w io.Writer) { c.loads.write(w, c.now().UnixNano()) })
	gauge("antirobot_bans", func() float64 { return float64(c.bans.Len()) })
	gauge("antirobot_bans_dropped_total", func() float64 { return float64(c.bans.Evicted()) })
	gauge("antirobot_over_quota", func() float64 { return float64(c.readers.clients.Len() + c.readers.networks.Len()) })
	gauge("antirobot_over_quota_refused_full_total", func() float64 { return float64(c.readers.clients.Refused() + c.readers.networks.Refused()) })
	gauge("antirobot_doubts", func() float64 { return float64(c.doubts.Len()) })
	gauge("antirobot_campaigns", func() float64 { return float64(c.campaigns.count(c.now())) })
	gauge("antirobot_doubts_refused_full_total", func() float64 { return float64(c.doubts.Refused()) })
	gauge("antirobot_passes_paying", func() float64 { return float64(c.ledger.Totals().Passes) })
	gauge("antirobot_allowance_spent_total", func() float64 { return float64(c.ledger.Totals().Spent) })
	gauge("antirobot_allowance_returned_total", func() float64 { return float64(c.ledger.Totals().Returned) })
	gauge("antirobot_allowance_refused_full_total", func() float64 { return float64(c.ledger.Totals().Refused) })
	gauge("antirobot_standing", func() float64 { return float64(c.standing.Len()) })
	gauge("antirobot_standing_refused_total", func() float64 { return float64(c.standing.Refused()) })
	gauge("antirobot_verdict_stale", func() float64 { return float64(b2u(c.stale.Load() != 0)) })
	c.said.register(gauge)
	for name, b := range map[string]interface {
		Backlog() (waiting int64, failed uint64)
	}{"bans": c.banWrites, "ledger": c.ledger.Writes(), "revocations": c.revoked.behind, "standing": c.standing.Writes()} {
		gauge(fmt.Sprintf("antirobot_writes_waiting{of=%q}", name), func() float64 { n, _ := b.Backlog(); return float64(n) })
		gauge(fmt.Sprintf("antirobot_writes_failed_total{of=%q}", name), func() float64 { _, n := b.Backlog(); return float64(n) })
	}
}

func b2u(b bool) byte {
	if b {
		return 1
	}
	return 0
}
