package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"antirobot/store"
)

// sumOf returns the sum of the slots from..to of the record at key; an absent record sums to zero.
func sumOf(r pebble.Reader, key []byte, from, to uint8) (uint64, error) {
	val, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read counters: %w", err)
	}
	sum, err := sumCounts(val, from, to)
	if err != nil {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return sum, errors.Join(err, closer.Close())
}

// Read implements store.Counters: one lookup for each record that a query touches, at most two.
func (c *Counters) Read(ctx context.Context, dst []uint64, q []store.Query) error {
	for i := range q {
		if err := q[i].Valid(); err != nil {
			return fmt.Errorf("query %d: %w", i, err)
		}
	}
	return c.with(ctx, func(e *engine) error {
		c.reads.Add(int64(len(q)))
		var room [96]byte
		key := room[:0]
		for i := range q {
			dst[i] = 0
			space, per := byte(spaceFine), q[i].Unit.PerRecord()
			if q[i].Unit == store.Day {
				space = spaceDaily
			}
			for from := uint64(q[i].From); from <= uint64(q[i].To); {
				base := uint32(from / uint64(per))
				last := min(uint64(base)*uint64(per)+uint64(per)-1, uint64(q[i].To))
				key = appendCounterKey(key[:0], space, base, &q[i].Counter)
				n, err := sumOf(e.db, key, uint8(from%uint64(per)), uint8(last%uint64(per)))
				if err != nil {
					return err
				}
				c.records.Add(1)
				dst[i] = store.AddCounts(dst[i], n)
				from = last + 1
			}
		}
		return nil
	})
}

// ReadRecords implements store.Counters.
func (c *Counters) ReadRecords(ctx context.Context, r []store.Record, f func(i int, counts []store.Count)) error {
	for i := range r {
		if err := r[i].Valid(); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return c.with(ctx, func(e *engine) error {
		c.reads.Add(int64(len(r)))
		c.records.Add(int64(len(r)))
		var room [96]byte
		var counts []store.Count
		for i := range r {
			space := byte(spaceFine)
			if r[i].Unit == store.Day {
				space = spaceDaily
			}
			val, closer, err := e.db.Get(appendCounterKey(room[:0], space, r[i].Number, &r[i].Counter))
			if errors.Is(err, pebble.ErrNotFound) {
				f(i, nil)
				continue
			}
			if err != nil {
				return fmt.Errorf("read counters: %w", err)
			}
			counts, err = addCounts(counts[:0], val)
			if err := errors.Join(err, closer.Close()); err != nil {
				return fmt.Errorf("%w: %w", errDamaged, err)
			}
			f(i, counts)
		}
		return nil
	})
}

// CounterMetrics are numbers for an operator; all except the sizes only grow.
type CounterMetrics struct {
	DiskBytes   int64
	CacheBytes  int64
	CacheHits   int64
	CacheMisses int64
	MemBytes    int64
	Adds        int64 // deltas and uniques
	Reads       int64 // queries
	Records     int64 // records that the queries looked up
	Errors      int64
	Revived     int64
	Compactions int64
	ReadAmp     int64 // tables that a lookup may have to visit, at present
}

// Metrics returns the current numbers; after Close, without sizes.
func (c *Counters) Metrics() CounterMetrics {
	m := CounterMetrics{
		Adds: c.adds.Load(), Reads: c.reads.Load(), Records: c.records.Load(), Errors: c.errors.Load(),
		Revived: c.revived.Load(),
	}
	_ = c.with(context.Background(), func(e *engine) error { // closed: no sizes
		p := e.db.Metrics()
		m.DiskBytes = int64(p.DiskSpaceUsage())
		m.CacheBytes, m.CacheHits, m.CacheMisses = p.BlockCache.Size, p.BlockCache.Hits, p.BlockCache.Misses
		m.MemBytes, m.Compactions, m.ReadAmp = int64(p.MemTable.Size), p.Compact.Count, int64(p.ReadAmp())
		return nil
	})
	return m
}
