package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/store"
)

// living is an engine whose writes are synced every so often, and which is opened again after it failed: what Counters and
// Log have in common. start comes first; then it is safe for concurrent use.
type living struct {
	path   string
	setup  setup
	health *health

	mu  sync.RWMutex // guards eng against replacement and closing
	eng *engine

	dirty   atomic.Bool // something was written since the last sync
	revived atomic.Int64

	closing  chan struct{}
	closed   atomic.Bool
	once     sync.Once
	closeErr error
	done     sync.WaitGroup
}

// start opens the engine.
func (l *living) start(every time.Duration) (err error) {
	if l.eng, err = l.setup.start(l.path); err != nil {
		return err
	}
	l.closing = make(chan struct{})
	l.done.Go(func() { l.keep(every) })
	return nil
}

// keep is the goroutine that syncs, and reopens the engine after it failed.
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
			alive := l.setup.revive(l.path, eng, eng.died(), l.closing, func() {})
			if alive == nil {
				return
			}
			l.mu.Lock()
			l.eng = alive
			l.mu.Unlock()
			if l.closed.Load() {
				alive.fs.stopWaiting()
			}
			l.revived.Add(1)
			go eng.bury()
			l.health.set(ailEngine, nil)
		}
	}
}

// Healthy returns nil, or why writes are refused now: a refused one has not been made.
func (l *living) Healthy() error {
	if l.closed.Load() {
		return store.ErrClosed
	}
	return l.health.err()
}

// close closes the engine, and then held, if that is given; everything written before is then on the disk.
func (l *living) close(what string, held io.Closer) error {
	l.once.Do(func() {
		l.closed.Store(true)
		l.mu.RLock()
		l.eng.fs.stopWaiting()
		l.mu.RUnlock()
		close(l.closing)
		l.done.Wait()
		l.mu.Lock()
		eng := l.eng
		l.eng = nil
		l.mu.Unlock()
		if eng.died() != nil {
			eng.fs.fence()
		}
		l.closeErr = wrap(what, eng.close())
		if held != nil {
			l.closeErr = errors.Join(l.closeErr, held.Close())
		}
	})
	return l.closeErr
}

// with runs f with the current engine, which is neither replaced nor closed in the meantime.
func (l *living) with(f func(e *engine) error) (err error) {
	if l.closed.Load() {
		return store.ErrClosed
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.eng == nil {
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
