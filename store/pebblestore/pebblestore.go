// Package pebblestore keeps a gateway's state in a directory of its own, with Pebble: the default backend of package
// store.
//
// Invariants:
//  1. A write is on the disk (log synced) when its call returns nil. Concurrent writers share one sync. Who is in haste
//     (store.Hasten) doesn't wait for it; that write is on the disk a second later, or with the next one that waits.
//  2. One goroutine, the committer, reads, decides and writes. So Swap, Spend, Take and Incr are atomic without locks, and
//     a hot key costs no more than others. It works on the next group while the disk still syncs the last one.
//  3. A value begins with its expiry. An expired value is absent at once; a bounded background sweep removes it.
//  4. No disk error ends the process or blocks the store for good. On a full disk, writes wait in patientFS, callers are
//     refused at once, Healthy says why, and work resumes when there is room; after a failed sync the engine is reopened.
//     Reads continue meanwhile.
//  5. Expired values are removed by the horizon of a store.Clock: a clock that jumps ahead and back loses nothing. The
//     horizon is written every minute, so that a restart in between makes no difference.
//  6. A directory that is not ours, is damaged, or is in use is refused with an error that says what to do, and is left
//     unchanged.
package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/store"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
)

// Store is a store.Store in a directory. Safe for concurrent use; made by New.
type Store struct {
	cfg    Config
	dir    string
	log    zerolog.Logger
	now    func() time.Time
	clock  *store.Clock
	held   io.Closer
	setup  setup
	health *health
	feeds  feeds
	stats  stats

	mu  sync.RWMutex // guards eng against replacement and closing; held for one short read at a time
	eng *engine      // nil after Close

	countersMu sync.Mutex
	counters   *Counters // nil until OpenCounters

	queue    chan *request
	settling chan *group
	due      *time.Timer    // when the disk is to take what nobody waited for; the committer's
	owing    bool           // there is such; the committer's
	inflight sync.WaitGroup // groups that wait for their sync
	closing  chan struct{}
	drained  chan struct{} // closed when no more requests will be answered
	closed   atomic.Bool
	once     sync.Once
	closeErr error
	done     sync.WaitGroup
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Keeper = (*Store)(nil)
)

// closeTimeout bounds Close: a disk that hangs must not keep the process from ending.
const closeTimeout = 10 * time.Second

// Deps are what a Store works with. Dir is required.
type Deps struct {
	Dir string // the data directory, created if it does not exist; nothing else may live in it
	Log zerolog.Logger
	Now func() time.Time // nil: time.Now

	fs  vfs.FS               // nil: the system's
	ran func() time.Duration // how much time has really passed; nil: from Now's monotonic readings
}

// New opens the data directory. The store's goroutines run until Close. Errors are errForeign, errHeld, errDamaged, or
// those of the disk.
func New(cfg Config, d Deps) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.fs == nil {
		d.fs = vfs.Default
	}
	h := newHealth(d.Log)
	s := &Store{
		cfg: cfg, dir: d.Dir, log: d.Log, now: d.Now, health: h,
		setup:    setup{base: d.fs, log: d.Log, health: h, tune: cfg.tuneState},
		queue:    make(chan *request, 1024),
		settling: make(chan *group, 1),
		due:      time.NewTimer(0),
		closing:  make(chan struct{}),
		drained:  make(chan struct{}),
	}
	s.due.Stop()
	s.feeds.more = make(map[string]chan struct{})
	if err := s.openDir(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	horizon, doubt := s.lastHorizon()
	s.clock = store.NewClock(d.Now, d.ran, horizon, doubt, cfg.ClockHold, d.Log)
	s.done.Go(s.commit)
	s.done.Go(s.settle)
	s.done.Go(s.sweep)
	s.writeClock()
	s.done.Go(s.watchClock)
	return s, nil
}

func (s *Store) openDir() (err error) {
	if _, err := survey(s.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if s.held, err = hold(s.dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = s.held.Close() // the first error is the one to report
		}
	}()
	exists, err := survey(s.dir) // again: it may have been created before we held the directory
	if err != nil {
		return err
	}
	if !exists {
		if err := create(s.dir, stateName, s.setup.build); err != nil {
			return err
		}
	}
	s.eng, err = s.setup.start(s.statePath())
	return err
}

func (s *Store) statePath() string { return filepath.Join(s.dir, stateName) }

// Shared implements store.Store: the directory belongs to this process alone.
func (s *Store) Shared() bool { return false }

// Healthy implements store.Store.
func (s *Store) Healthy() error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return errors.Join(s.health.err(), s.clock.Err())
}

// Close closes the store: requests in progress are finished if the disk allows it, and answered in any case. It returns
// when the directory is free for others, after at most ten seconds.
func (s *Store) Close() error {
	s.once.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	s.closed.Store(true)
	s.mu.RLock()
	s.eng.fs.stopWaiting()
	s.mu.RUnlock()
	close(s.closing)
	s.countersMu.Lock()
	counters := s.counters
	s.countersMu.Unlock()
	var countersErr error
	if counters != nil {
		countersErr = counters.Close()
	}
	end := make(chan error, 1)
	go func() {
		s.done.Wait()
		s.mu.Lock()
		eng := s.eng
		s.eng = nil
		s.mu.Unlock()
		if eng.died() != nil {
			eng.fs.fence()
		}
		end <- eng.close()
	}()
	select {
	case err := <-end:
		return errors.Join(wrap("close store", err), countersErr, s.held.Close())
	case <-time.After(closeTimeout):
		// The directory stays held until the process ends: something may still be writing to it.
		return fmt.Errorf("close store: the disk did not answer within %v", closeTimeout)
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ready returns why a call cannot begin.
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
