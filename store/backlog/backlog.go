// Package backlog keeps counts on disk until a shared store has them.
//
// Invariants:
//  1. A batch is on disk before it is sent, and removed when the store confirms it. A restart sends the rest.
//  2. A failed batch is sent again under its writer's number, and counted once. Each process has a new writer name, so
//     that numbers lost in a crash do no harm.
//  3. Batches are sent one at a time, in order.
//  4. While the store is away or a backlog exists, a call returns once its updates are on disk. Beyond
//     Deps.MaxBytes, or if the disk fails too, calls are refused and nothing of them is kept.
//  5. Reads see the store without the backlog.
package backlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/store"
	"antirobot/store/pebblestore"
)

// ErrFull is returned while as much waits as Deps.MaxBytes allows.
var ErrFull = errors.New("backlog: the queue on disk is full")

const batchItems = 4096

// Counters is a store.Counters with a backlog. Made by Open; safe for concurrent use.
type Counters struct {
	store.Repeatable
	maxBytes int64
	log      zerolog.Logger
	now      func() time.Time
	disk     *pebblestore.Log
	writer   uint64
	calls    chan *call

	life   context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	ended  atomic.Bool
	hurry  atomic.Bool // nothing is sent any more

	first, next uint64    // positions of the oldest batch, and of the next; used by run
	resume      time.Time // when a failed batch is sent again; used by run

	stats stats
}

type stats struct {
	batches, bytes        atomic.Int64
	oldest                atomic.Int64 // when the oldest was written, in Unix seconds; 0: none waits
	queued, sent          atomic.Uint64
	failed, refused, lost atomic.Uint64
}

type call struct {
	adds    []store.Delta
	uniques []store.Unique
	kept    atomic.Bool
	done    chan error
}

// Deps are the dependencies of Counters. Store and Dir are required.
type Deps struct {
	Store   store.Repeatable
	Dir     string // a directory of its own
	Log     zerolog.Logger
	Now     func() time.Time
	Metrics *metrics.Set
	// MaxBytes bounds the waiting batches on disk, about 20 bytes a sum; 0: 1 GiB, for some fifty million sums.
	MaxBytes int64
}

// Open opens the backlog with the batches of the last process.
func Open(d Deps) (*Counters, error) {
	if d.MaxBytes == 0 {
		d.MaxBytes = 1 << 30
	}
	disk, err := pebblestore.OpenLog(pebblestore.LogDeps{Dir: d.Dir, Log: d.Log, CacheBytes: 1 << 20})
	if err != nil {
		return nil, fmt.Errorf("backlog: %w", err)
	}
	c := &Counters{
		Repeatable: d.Store, maxBytes: d.MaxBytes, log: d.Log, now: d.Now, disk: disk, writer: rand.Uint64(),
		calls: make(chan *call),
	}
	if c.now == nil {
		c.now = time.Now
	}
	if err := c.survey(); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	if d.Metrics != nil {
		d.Metrics.RegisterMetricsWriter(c.writeMetrics)
	}
	c.life, c.cancel = context.WithCancel(context.Background())
	c.done.Go(c.run)
	return c, nil
}

var everything = [2][]byte{make([]byte, 8), {255, 255, 255, 255, 255, 255, 255, 255}}

func key(position uint64) []byte { return binary.BigEndian.AppendUint64(nil, position) }

func (c *Counters) survey() error {
	err := c.disk.Scan(everything[0], everything[1], false, func(k, v []byte) bool {
		at := binary.BigEndian.Uint64(k)
		if c.next == 0 {
			c.first = at
			c.stats.oldest.Store(writtenAt(v))
		}
		c.next = at + 1
		c.stats.batches.Add(1)
		c.stats.bytes.Add(int64(len(v)))
		return true
	})
	if err != nil {
		return fmt.Errorf("backlog: %w", err)
	}
	if n := c.stats.batches.Load(); n > 0 {
		c.log.Warn().Int64("batches", n).Int64("bytes", c.stats.bytes.Load()).
			Msg("counts from before the start wait for the store")
	} else {
		c.first, c.next = 1, 1
	}
	return nil
}

// Add implements store.Counters. On nil the updates are in the store or on disk.
func (c *Counters) Add(ctx context.Context, d []store.Delta) error {
	return c.hand(ctx, &store.Batch{Adds: d})
}

// AddUnique implements store.Counters, as Add does.
func (c *Counters) AddUnique(ctx context.Context, u []store.Unique) error {
	return c.hand(ctx, &store.Batch{Uniques: u})
}

// hand gives a call's updates to run, in batches.
func (c *Counters) hand(ctx context.Context, b *store.Batch) error {
	if c.ended.Load() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.Valid(); err != nil {
		return err
	}
	b.Adds, b.Uniques = slices.Clone(b.Adds), slices.Clone(b.Uniques) // the caller may be gone while they are written
	for len(b.Adds)+len(b.Uniques) > 0 {
		n, m := min(len(b.Adds), batchItems), min(len(b.Uniques), batchItems)
		piece := &call{adds: b.Adds[:n:n], uniques: b.Uniques[:m:m], done: make(chan error, 1)}
		b.Adds, b.Uniques = b.Adds[n:], b.Uniques[m:]
		if err := c.wait(ctx, piece); err != nil {
			return err
		}
	}
	return nil
}

func (c *Counters) wait(ctx context.Context, piece *call) error {
	select {
	case c.calls <- piece:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.life.Done():
		return store.ErrClosed
	}
	select {
	case err := <-piece.done:
		return err
	case <-ctx.Done():
		if piece.kept.Load() { // the store is slow, and will have it later
			return nil
		}
		return ctx.Err()
	}
}

// Hurry makes calls return once their updates are on disk, from now on.
func (c *Counters) Hurry() { c.hurry.Store(true) }

// Sync implements store.Records: the backlog is on disk, the rest as safe as the store makes it.
func (c *Counters) Sync(ctx context.Context) error {
	if c.ended.Load() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.stats.batches.Load() == 0 {
		return c.Repeatable.Sync(ctx)
	}
	if err := c.disk.Sync(); err != nil {
		return fmt.Errorf("backlog: %w", err)
	}
	return nil
}

// Healthy returns nil if the store or the backlog takes updates.
func (c *Counters) Healthy() error {
	if c.ended.Load() {
		return store.ErrClosed
	}
	if c.Repeatable.Healthy() == nil && c.stats.batches.Load() == 0 {
		return nil
	}
	if c.stats.bytes.Load() >= c.maxBytes {
		return ErrFull
	}
	return c.disk.Healthy()
}

// Close ends the queue. What waits stays on disk.
func (c *Counters) Close() error {
	if c.ended.Swap(true) {
		return nil
	}
	c.cancel()
	c.done.Wait()
	if n := c.stats.batches.Load(); n > 0 {
		c.log.Warn().Int64("batches", n).Msg("counts wait on disk for the next start")
	}
	return c.disk.Close()
}
