package pebblestore

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
)

// LogDeps are the dependencies of a Log. Dir is required.
type LogDeps struct {
	Dir        string // a directory of its own, created if absent
	Log        zerolog.Logger
	CacheBytes int64  // of memory, for blocks read from disk
	FS         vfs.FS // nil: the system's
}

// Log keeps ordered records in a directory of its own. It has the invariants of Store, except that a write is on the
// disk after a second, or Sync. Safe for concurrent use; made by OpenLog.
type Log struct{ living }

// OpenLog opens the directory.
func OpenLog(d LogDeps) (l *Log, err error) {
	if d.FS == nil {
		d.FS = vfs.Default
	}
	h := newHealth(d.Log)
	l = &Log{living{dir: d.Dir, health: h, setup: setup{base: d.FS, log: d.Log, health: h, tune: d.tune}}}
	if err := l.open(); err != nil {
		return nil, err
	}
	l.done.Go(func() { l.keep(syncLog) })
	return l, nil
}

// syncLog is how much of the latest writes a crash may lose.
const syncLog = time.Second

// tune sets options for ordered, seldom read records: few, large, well compressed tables.
func (d *LogDeps) tune(o *pebble.Options) {
	o.Cache = pebble.NewCache(d.CacheBytes)
	o.MemTableSize = 4 << 20
	o.MemTableStopWritesThreshold = 3
	o.MaxOpenFiles = 500
	o.L0CompactionThreshold = 4
	o.LBaseMaxBytes = 64 << 20
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 1 }
	o.FlushDelayDeleteRange = 10 * time.Second
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	for i := range o.Levels {
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	o.Levels[len(o.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
}

// Close closes the log; earlier writes are then on the disk, if the disk allows it.
func (l *Log) Close() error { return l.close("close log") }

// LogBatch collects changes. It is valid inside its call of Write.
type LogBatch struct {
	b   *pebble.Batch
	err error
}

// Put writes a record. It copies both.
func (b *LogBatch) Put(key, val []byte) { b.note(b.b.Set(key, val, nil)) }

// Forget removes the records from one key up to, and without, another.
func (b *LogBatch) Forget(from, to []byte) { b.note(b.b.DeleteRange(from, to, nil)) }

// Delete removes one record, if there is one.
func (b *LogBatch) Delete(key []byte) { b.note(b.b.Delete(key, nil)) }

func (b *LogBatch) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Write makes all changes that fill collects, or none. If the disk refuses writes it fails at once.
func (l *Log) Write(fill func(b *LogBatch)) error {
	return l.with(func(e *engine) error {
		if _, err := l.health.state(); err != nil {
			return err
		}
		b := LogBatch{b: e.db.NewBatch()}
		defer func() { _ = b.b.Close() }() // it frees memory alone
		fill(&b)
		if b.err != nil || b.b.Empty() {
			return wrap("write log", b.err)
		}
		if err := e.db.Apply(b.b, pebble.NoSync); err != nil {
			return fmt.Errorf("write log: %w", err)
		}
		l.dirty.Store(true)
		return e.died()
	})
}

// Sync brings all earlier writes to the disk.
func (l *Log) Sync() error { return l.with((*engine).sync) }

// Get appends the record of a key to dst; false without one.
func (l *Log) Get(dst, key []byte) (val []byte, ok bool, err error) {
	err = l.with(func(e *engine) error {
		v, closer, err := e.db.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		val, ok = append(dst, v...), true
		return closer.Close()
	})
	return val, ok, err
}

// Scan calls f with the records in from <= key < to, or backwards, until f returns false. Key and value are valid
// during the call.
func (l *Log) Scan(from, to []byte, backwards bool, f func(key, val []byte) bool) error {
	return l.with(func(e *engine) error {
		it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		first, next := it.First, it.Next
		if backwards {
			first, next = it.Last, it.Prev
		}
		for ok := first(); ok; ok = next() {
			if !f(it.Key(), it.Value()) {
				break
			}
		}
		return wrap("read log", errors.Join(it.Error(), it.Close()))
	})
}

// Bytes estimates the disk space of the records in a range; 0 if unknown.
func (l *Log) Bytes(from, to []byte) (n int64) {
	_ = l.with(func(e *engine) error {
		u, err := e.db.EstimateDiskUsage(from, to)
		n = int64(u) //nolint:gosec // no disk is that large
		return err
	})
	return n
}
