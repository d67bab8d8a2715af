package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"antirobot/store"
)

// Keys of counters: 'F' and the day of ten-minute counts, or 'D' and the fortnight of daily ones, in four bytes; the
// prefix behind its length in one byte; the type in two bytes; the shingle in eight.
const (
	spaceFine  = 'F'
	spaceDaily = 'D'
)

// Counters is a store.Counters in the directory of a Store. Updates are on the disk after a second. Safe for concurrent
// use.
type Counters struct {
	living
	clock *store.Clock
	seed  maphash.Seed
	locks [256]sync.Mutex // of pairs: testing and counting must be atomic
}

var _ store.Counters = (*Counters)(nil)

// OpenCounters opens the store's counters, once. Close closes them, at the latest with the store. Damaged counters
// return errDamaged: their directory can be moved away alone.
func (s *Store) OpenCounters() (*Counters, error) {
	s.countersMu.Lock()
	defer s.countersMu.Unlock()
	if s.closed.Load() {
		return nil, store.ErrClosed
	}
	if s.counters != nil {
		return nil, errors.New("open counters: they are open")
	}
	path := filepath.Join(s.dir, countsName)
	h := newHealth(s.log)
	c := &Counters{
		living: living{
			path: path, health: h,
			setup: setup{base: s.setup.base, log: s.log, health: h, tune: s.tuneCounters},
		},
		clock: s.clock,
		seed:  maphash.MakeSeed(),
	}
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		err = create(s.dir, countsName, c.setup.build)
	} else {
		err = checkFormat(path)
	}
	if err == nil {
		err = c.start()
	}
	if err != nil {
		return nil, fmt.Errorf("open counters: %w", err)
	}
	every := s.committer.limit.syncCounters
	c.done.Go(func() { c.keep(every) })
	s.counters = c
	return c, nil
}

// tuneCounters sets options for many small records, merged and read at random.
func (s *Store) tuneCounters(o *pebble.Options) {
	o.Cache = pebble.NewCache(s.countersCache)
	o.MemTableSize = 16 << 20
	o.MemTableStopWritesThreshold = 4
	o.Merger = newCountsMerger()
	o.MaxOpenFiles = 1000
	o.L0CompactionThreshold = 2
	o.L0StopWritesThreshold = 24
	o.LBaseMaxBytes = 64 << 20
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	o.FlushDelayDeleteRange = 10 * time.Second // the space that Drop frees is reclaimed soon
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	for i := range o.Levels {
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	// The last level's filters would cost 1.25 bytes per counter, on disk and in the cache.
	o.Levels[len(o.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
}

// Sync implements store.Records. Concurrent callers share a sync.
func (c *Counters) Sync(ctx context.Context) error {
	return c.with(ctx, func(e *engine) error { return e.sync() })
}

// Close closes the counters; everything added before is then on the disk.
func (c *Counters) Close() error { return c.close("close counters") }

// with is living.with for a call that may have been given up.
func (c *Counters) with(ctx context.Context, f func(e *engine) error) error {
	if c.closed.Load() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.living.with(f)
}

func (c *Counters) write(e *engine, b *pebble.Batch) error {
	if b.Empty() {
		return b.Close()
	}
	if _, err := c.health.state(); err != nil {
		return err
	}
	if err := e.db.Apply(b, pebble.NoSync); err != nil {
		return fmt.Errorf("write counters: %w", err)
	}
	c.dirty.Store(true)
	return errors.Join(e.died(), b.Close())
}

func spaceOf(u store.Unit) byte {
	if u == store.Day {
		return spaceDaily
	}
	return spaceFine
}

func appendCounterKey(dst []byte, space byte, base uint32, k *store.Counter) []byte {
	dst = append(dst, space)
	dst = binary.BigEndian.AppendUint32(dst, base)
	dst = append(dst, byte(len(k.Prefix)))
	dst = append(dst, k.Prefix...)
	dst = binary.BigEndian.AppendUint16(dst, k.Type)
	return binary.BigEndian.AppendUint64(dst, k.Shingle)
}

// Add implements store.Counters. Deltas in order of their counters are cheapest.
func (c *Counters) Add(ctx context.Context, d []store.Delta) error {
	if err := (&store.Batch{Adds: d}).Valid(); err != nil {
		return err
	}
	return c.with(ctx, func(e *engine) error {
		b := e.db.NewBatchWithSize(len(d) * 64)
		// One unit after the other: keys in order are cheaper to insert.
		if err := errors.Join(addUnit(b, d, store.TenMinutes), addUnit(b, d, store.Day)); err != nil {
			return errors.Join(err, b.Close())
		}
		return c.write(e, b)
	})
}

// addUnit merges the deltas into the records of one unit. Adjacent deltas of a record, in order of their periods, are
// combined.
func addUnit(b *pebble.Batch, d []store.Delta, u store.Unit) error {
	var key, next, val []byte
	var room [store.SlotsPerDay]slotCount
	counts := room[:0]
	merge := func() error {
		if len(counts) == 0 {
			return nil
		}
		val = appendCounts(val[:0], counts)
		return b.Merge(key, val, nil)
	}
	for i := range d {
		if d[i].N == 0 {
			continue
		}
		n := min(d[i].N, store.MaxCount)
		number := d[i].Slot
		if u == store.Day {
			number /= store.SlotsPerDay
		}
		slot := uint8(number % u.PerRecord())
		next = appendCounterKey(next[:0], spaceOf(u), number/u.PerRecord(), &d[i].Counter)
		if last := len(counts) - 1; last >= 0 && bytes.Equal(key, next) && counts[last].Period <= slot {
			if counts[last].Period == slot {
				counts[last].N = store.AddCounts(counts[last].N, n)
			} else {
				counts = append(counts, slotCount{N: n, Period: slot})
			}
			continue
		}
		if err := merge(); err != nil {
			return err
		}
		key, next = next, key
		counts = append(counts[:0], slotCount{N: n, Period: slot})
	}
	return merge()
}

// AddUnique implements store.Counters.
func (c *Counters) AddUnique(ctx context.Context, u []store.Unique) error {
	var stripes []int
	for i := range u {
		if err := u[i].Valid(); err != nil {
			return fmt.Errorf("unique %d: %w", i, err)
		}
		stripes = append(stripes, int(maphash.Comparable(c.seed, u[i].PairCounter())%uint64(len(c.locks))))
	}
	slices.SortFunc(stripes, cmp.Compare) // the same order everywhere, so that no two batches deadlock
	for _, s := range slices.Compact(stripes) {
		c.locks[s].Lock()
		defer c.locks[s].Unlock()
	}
	return c.with(ctx, func(e *engine) error {
		b := e.db.NewIndexedBatch() // sees pairs that occur twice in the batch
		for i := range u {
			day := u[i].Slot / store.SlotsPerDay
			err := errors.Join(
				addUnique(b, spaceFine, day, uint8(u[i].Slot%store.SlotsPerDay), &u[i]),
				addUnique(b, spaceDaily, day/store.DaysPerFortnight, uint8(day%store.DaysPerFortnight), &u[i]),
			)
			if err != nil {
				return errors.Join(err, b.Close())
			}
		}
		return c.write(e, b)
	})
}

func addUnique(b *pebble.Batch, space byte, base uint32, slot uint8, u *store.Unique) error {
	counter := u.PairCounter()
	pair := appendCounterKey(make([]byte, 0, 96), space, base, &counter)
	seen, err := sumOf(b, pair, slot, slot)
	if err != nil {
		return err
	}
	one := appendCounts(nil, []slotCount{{N: 1, Period: slot}})
	if seen == 0 {
		err = b.Merge(appendCounterKey(make([]byte, 0, 96), space, base, &u.Counter), one, nil)
	}
	return errors.Join(err, b.Merge(pair, one, nil))
}

// Drop implements store.Records with one range delete, up to the clock's horizon.
func (c *Counters) Drop(ctx context.Context, before store.Period) error {
	present := before.Unit.Number(c.clock.Horizon())
	before.Number = min(before.Number, present-min(present, before.Unit.Kept()-1))
	return c.with(ctx, func(e *engine) error {
		space := spaceOf(before.Unit)
		end := binary.BigEndian.AppendUint32([]byte{space}, before.Number/before.Unit.PerRecord())
		b := e.db.NewBatch()
		if err := b.DeleteRange([]byte{space}, end, nil); err != nil {
			return errors.Join(fmt.Errorf("drop counters: %w", err), b.Close())
		}
		return c.write(e, b)
	})
}

// sumOf returns the sum of the slots from..to of the record at key; 0 if it is absent.
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

// ReadRecords implements store.Records.
func (c *Counters) ReadRecords(ctx context.Context, r []store.Record, f func(i int, counts []store.Count)) error {
	if err := store.ValidRecords(r); err != nil {
		return err
	}
	return c.with(ctx, func(e *engine) error {
		var room [96]byte
		var counts []store.Count
		for i := range r {
			val, closer, err := e.db.Get(appendCounterKey(room[:0], spaceOf(r[i].Unit), r[i].Number, &r[i].Counter))
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
