package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/store"
)

// living is an engine that is reopened after a failure. Safe for concurrent use once open.
type living struct {
	dir    string // that it holds; empty: it belongs to a Store's
	path   string
	setup  setup
	health *health
	held   io.Closer // nil without dir

	mu  sync.RWMutex // guards eng against replacement and closing; held for one short read
	eng *engine      // nil after close

	dirty   atomic.Bool // something was written since the last sync
	revived atomic.Int64

	closing  chan struct{}
	closed   atomic.Bool
	once     sync.Once
	closeErr error
	done     sync.WaitGroup
}

// closeTimeout bounds close on a disk that hangs.
const closeTimeout = 10 * time.Second

// open holds the directory, and opens its engine or makes one.
func (l *living) open() (err error) {
	if _, err := survey(l.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if l.held, err = hold(l.dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = l.held.Close() // the first error is the one to report
		}
	}()
	exists, err := survey(l.dir) // it may have been created before it was held
	if err != nil {
		return err
	}
	if !exists {
		if err := create(l.dir, stateName, l.setup.build); err != nil {
			return err
		}
	}
	l.path = filepath.Join(l.dir, stateName)
	return l.start()
}

func (l *living) start() (err error) {
	l.closing = make(chan struct{})
	l.eng, err = l.setup.start(l.path)
	return err
}

// keep is the goroutine that syncs, and revives the engine.
func (l *living) keep(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		eng := l.eng // replaced only here
		select {
		case <-l.closing:
			return
		case <-tick.C:
			if l.dirty.Swap(false) {
				if err := eng.sync(); err != nil {
					eng.fail(err)
				}
			}
		case <-eng.failed:
			if !l.revive(eng, eng.died(), func() {}) {
				return
			}
		}
	}
}

// revive replaces a dead engine, calling waiting before each attempt; false if it is closing.
func (l *living) revive(dead *engine, cause error, waiting func()) bool {
	alive := l.setup.revive(l.path, dead, cause, l.closing, waiting)
	if alive == nil {
		return false
	}
	l.mu.Lock()
	l.eng = alive
	l.mu.Unlock()
	if l.closed.Load() { // close came before this engine was in place
		alive.fs.stopWaiting()
	}
	l.revived.Add(1)
	go dead.bury()
	l.health.set(ailEngine, nil)
	return true
}

// Healthy returns the reason why writes are refused; a refused one has not been made.
func (l *living) Healthy() error {
	if l.closed.Load() {
		return store.ErrClosed
	}
	return l.health.err()
}

// close closes the engine and frees the directory; earlier writes are then on the disk, if the disk allows it.
func (l *living) close(what string) error {
	l.once.Do(func() {
		l.closed.Store(true)
		l.mu.RLock()
		l.eng.fs.stopWaiting()
		l.mu.RUnlock()
		close(l.closing)
		end := make(chan error, 1)
		go func() {
			l.done.Wait()
			l.mu.Lock()
			eng := l.eng
			l.eng = nil
			l.mu.Unlock()
			if eng.died() != nil {
				eng.fs.fence()
			}
			end <- wrap(what, eng.close())
		}()
		select {
		case l.closeErr = <-end:
			if l.held != nil {
				l.closeErr = errors.Join(l.closeErr, l.held.Close())
			}
		case <-time.After(closeTimeout):
			// Something may still be writing: the directory stays held until the process ends.
			l.closeErr = fmt.Errorf("%s: the disk did not answer within %v", what, closeTimeout)
		}
	})
	return l.closeErr
}

// with runs f with the current engine, which stays until f returns. f must be short and must not call back.
func (l *living) with(f func(e *engine) error) (err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed.Load() || l.eng == nil {
		return store.ErrClosed
	}
	defer func() {
		if p := recover(); p != nil { // Pebble panics when its log is gone
			err = fmt.Errorf("engine: %v", p)
			l.eng.fail(err)
		}
	}()
	return f(l.eng)
}

// Checkpoint writes a consistent copy into dir, which must not exist, while writes go on. Tables are linked: dir must
// be in the same file system. The copy opens like the original.
func (l *living) Checkpoint(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return l.with(func(e *engine) error {
		return errors.Join(e.checkpoint(filepath.Join(dir, stateName)), syncDir(dir))
	})
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
