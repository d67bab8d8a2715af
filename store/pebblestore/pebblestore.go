// Package pebblestore keeps a gateway's state in a directory of its own, with Pebble: the default backend of package
// store.
//
// Invariants:
//  1. A write is synced when its call returns nil. Concurrent writers share a sync. A hasty write (store.Hasten) is
//     synced a second later, or with the next one that waits.
//  2. One goroutine, the committer, reads, decides and writes: Swap, Spend, Take and Incr are atomic without locks. It
//     works on the next group while the disk syncs the last one.
//  3. A value begins with its expiry. An expired value is absent at once; a bounded background sweep removes it.
//  4. No disk error ends the process or blocks the store for good. On a full disk, writes wait in patientFS, callers
//     are refused at once, and Healthy returns the cause; after a failed sync the engine is reopened. Reads continue.
//  5. Expired values are removed by the horizon of a store.Clock, which is written every minute: a clock that jumps
//     ahead and back loses nothing, across restarts too.
//  6. A foreign, damaged or held directory is refused with a remedy, and left unchanged.
package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"antirobot/store"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
)

// Store is a store.Store in a directory. Safe for concurrent use; made by New.
type Store struct {
	living
	*committer
	*horizon
	log zerolog.Logger
	now func() time.Time

	countersCache int64
	countersMu    sync.Mutex
	counters      *Counters // nil until OpenCounters
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Keeper = (*Store)(nil)
)

// Sizes of the caches of blocks read from disk. Bans and passes live in the gateway's tables; the counters are kept
// separately, by an engine of their own.
const (
	stateCache    = 8 << 20
	countersCache = 128 << 20 // including the tables of recent writes
)

// Deps are the dependencies of a Store. Dir is required.
type Deps struct {
	Dir string // the data directory, created if absent; for the store alone
	Log zerolog.Logger
	Now func() time.Time // nil: time.Now

	CountersCache int64 // bytes; 0: countersCache

	fs    vfs.FS               // nil: the system's
	ran   func() time.Duration // time that has really passed; nil: from Now's monotonic readings
	limit limits
}

type limits struct {
	// memTable is the size of a table of recent writes; at most four exist.
	memTable int64
	// writeTimeout is how long a write may take before further ones are refused.
	writeTimeout time.Duration
	// syncCounters is how much of the latest counts a crash may lose.
	syncCounters time.Duration
	// feedKeep is how many messages of a topic are kept; up to an eighth more.
	feedKeep uint64
}

func (l *limits) complete() {
	if l.memTable == 0 {
		l.memTable = 4 << 20
	}
	if l.writeTimeout == 0 {
		l.writeTimeout = 5 * time.Second
	}
	if l.syncCounters == 0 {
		l.syncCounters = time.Second
	}
	if l.feedKeep == 0 {
		l.feedKeep = 65536
	}
}

// New opens the data directory. Errors are errForeign, errHeld, errDamaged, or the disk's.
func New(d Deps) (*Store, error) {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.fs == nil {
		d.fs = vfs.Default
	}
	d.limit.complete()
	if d.CountersCache == 0 {
		d.CountersCache = countersCache
	}
	h := newHealth(d.Log)
	tune := func(o *pebble.Options) { tuneState(o, d.limit.memTable) }
	s := &Store{
		living: living{dir: d.Dir, health: h, setup: setup{base: d.fs, log: d.Log, health: h, tune: tune}},
		log:    d.Log, now: d.Now, countersCache: d.CountersCache,
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.committer = newCommitter(&s.living, d.Now, d.limit)
	s.horizon = &horizon{committer: s.committer, log: d.Log}
	at, doubt := s.lastHorizon()
	s.clock = store.NewClock(d.Now, d.ran, at, doubt, clockHold, d.Log)
	s.done.Go(s.commit)
	s.done.Go(s.settle)
	s.done.Go(s.sweep)
	s.writeClock()
	s.done.Go(s.watchClock)
	return s, nil
}

// Shared implements store.Store: the directory belongs to this process alone.
func (s *Store) Shared() bool { return false }

// Healthy implements store.Store.
func (s *Store) Healthy() error {
	if err := s.living.Healthy(); errors.Is(err, store.ErrClosed) {
		return err
	}
	return errors.Join(s.health.err(), s.clock.Err())
}

// Close finishes requests in progress if the disk allows it, and answers them in any case. It returns when the
// directory is free, or after ten seconds.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.countersMu.Lock()
	counters := s.counters
	s.countersMu.Unlock()
	end := make(chan error, 1)
	go func() {
		if counters == nil {
			end <- nil
			return
		}
		end <- counters.Close()
	}()
	return errors.Join(s.close("close store"), <-end)
}

func (s *Store) ready(ctx context.Context, ttl time.Duration) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if ttl < 0 {
		return store.ErrTTL
	}
	return nil
}

// Checkpoint writes a consistent copy of the store and its counters into dir; see living.Checkpoint.
func (s *Store) Checkpoint(dir string) error {
	if err := s.living.Checkpoint(dir); err != nil {
		return err
	}
	s.countersMu.Lock()
	c := s.counters
	s.countersMu.Unlock()
	if c == nil {
		return nil
	}
	return c.living.with(func(e *engine) error {
		return errors.Join(e.checkpoint(filepath.Join(dir, countsName)), syncDir(dir))
	})
}

func (s *Store) write(ctx context.Context, ttl time.Duration, r request) (result, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return result{}, err
	}
	r.expiry = store.ExpiryAt(s.now(), ttl)
	return s.do(ctx, &r)
}

// Put implements store.KV.
func (s *Store) Put(ctx context.Context, key, val []byte, ttl time.Duration) error {
	_, err := s.write(ctx, ttl, request{verb: doPut, key: spaceKey(spaceKV, key), val: bytes.Clone(val)})
	return err
}

// Swap implements store.KV.
func (s *Store) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	res, err := s.write(ctx, ttl, swap(key, old, val))
	return res.ok, err
}

func swap(key, old, val []byte) request {
	return request{verb: doSwap, key: spaceKey(spaceKV, key), old: bytes.Clone(old), val: bytes.Clone(val)}
}

// Delete implements store.KV.
func (s *Store) Delete(ctx context.Context, key []byte) error {
	_, err := s.write(ctx, 0, request{verb: doDelete, key: spaceKey(spaceKV, key)})
	return err
}

// Spend implements store.Once.
func (s *Store) Spend(ctx context.Context, key []byte, ttl time.Duration) (bool, error) {
	res, err := s.write(ctx, ttl, request{verb: doSpend, key: spaceKey(spaceOnce, key)})
	return res.ok, err
}

// Take implements store.Quota.
func (s *Store) Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (int64, error) {
	res, err := s.write(ctx, ttl, request{verb: doTake, key: spaceKey(spaceQuota, key), n: want, limit: limit})
	return res.n, err
}

// Incr implements store.Quota.
func (s *Store) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error) {
	res, err := s.write(ctx, ttl, request{verb: doIncr, key: spaceKey(spaceQuota, key), n: n})
	return res.n, err
}

// hasty is a Store whose Swap and Incr don't wait for the disk.
type hasty struct{ *Store }

// Hasten is store.Hasten.
func (s *Store) Hasten() store.Store { return hasty{s} }

func (h hasty) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	r := swap(key, old, val)
	r.hasty = true
	res, err := h.write(ctx, ttl, r)
	return res.ok, err
}

func (h hasty) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error) {
	res, err := h.write(ctx, ttl, request{verb: doIncr, key: spaceKey(spaceQuota, key), n: n, hasty: true})
	return res.n, err
}
