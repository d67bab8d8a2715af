// Package behind writes memory to the store after the requests that changed it.
package behind

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	stripeCount = 16
	lockCount   = 64
	writers     = 16 // concurrent writes: a store with group commit combines them
	backoff     = 200 * time.Millisecond
)

// Writer writes keys in the background: write is called for a key soon after Add, never twice at once for one key, and
// again if the key was added meanwhile or the write failed. A write takes the state of its moment, so a hundred changes
// may cost one. Memory is bounded by the number of live keys.
type Writer[K comparable] struct {
	write   func(context.Context, K) error
	seed    maphash.Seed
	wake    chan struct{}
	locks   [lockCount]sync.Mutex
	stripes [stripeCount]stripe[K]
	batch   []K
	waiting atomic.Int64
	failed  atomic.Uint64
	lastErr atomic.Pointer[error]
}

type stripe[K comparable] struct {
	mu    sync.Mutex
	state map[K]keyState
	queue []K
	_     [24]byte
}

type keyState uint8

const (
	keyQueued keyState = iota + 1
	keyWriting
	keyAgain // added while it was being written
)

// New makes a writer that calls write.
func New[K comparable](write func(context.Context, K) error) *Writer[K] {
	w := &Writer[K]{write: write, seed: maphash.MakeSeed(), wake: make(chan struct{}, 1)}
	for i := range w.stripes {
		w.stripes[i].state = make(map[K]keyState)
	}
	return w
}

func (w *Writer[K]) stripe(k K) *stripe[K] {
	return &w.stripes[maphash.Comparable(w.seed, k)%stripeCount]
}

// Add asks for k to be written. It does not wait.
func (w *Writer[K]) Add(k K) {
	s := w.stripe(k)
	s.mu.Lock()
	switch s.state[k] {
	case 0:
		s.state[k] = keyQueued
		s.queue = append(s.queue, k)
		w.waiting.Add(1)
	case keyWriting:
		s.state[k] = keyAgain
	}
	s.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Now writes k before it returns. After an error the key is left for Run.
func (w *Writer[K]) Now(ctx context.Context, k K) error {
	err := w.one(ctx, k)
	if err != nil {
		w.Add(k)
	}
	return err
}

// one writes k under its lock: of two writes, the later reading of memory wins.
func (w *Writer[K]) one(ctx context.Context, k K) error {
	l := &w.locks[maphash.Comparable(w.seed, k)%lockCount]
	l.Lock()
	defer l.Unlock()
	err := w.write(ctx, k)
	if err != nil {
		w.failed.Add(1)
		w.lastErr.Store(&err)
	} else if w.lastErr.Load() != nil {
		w.lastErr.Store(nil)
	}
	return err
}

// Pending reports whether k waits to be written or is being written.
func (w *Writer[K]) Pending(k K) bool {
	s := w.stripe(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state[k] != 0
}

// Err returns why the last write failed; nil if it succeeded.
func (w *Writer[K]) Err() error {
	if e := w.lastErr.Load(); e != nil {
		return *e
	}
	return nil
}

// Run writes until ctx ends.
func (w *Writer[K]) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		if !w.round(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(backoff):
			}
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	}
}

// Flush writes all pending keys, until a whole round fails or ctx ends. Run must have ended.
func (w *Writer[K]) Flush(ctx context.Context) error {
	for w.waiting.Load() > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !w.round(ctx) {
			return w.Err()
		}
	}
	return nil
}

// round writes each pending key once; false if one failed. Rounds never overlap.
func (w *Writer[K]) round(ctx context.Context) bool {
	keys := w.batch[:0]
	for i := range w.stripes {
		s := &w.stripes[i]
		s.mu.Lock()
		for _, k := range s.queue {
			s.state[k] = keyWriting
		}
		keys = append(keys, s.queue...)
		s.queue = s.queue[:0]
		s.mu.Unlock()
	}
	w.batch = keys
	var next atomic.Int64
	var bad atomic.Bool
	work := func() {
		for {
			i := int(next.Add(1) - 1)
			if i >= len(keys) {
				return
			}
			err := w.one(ctx, keys[i])
			w.done(keys[i], err)
			if err != nil {
				bad.Store(true)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(writers, len(keys)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return !bad.Load()
}

func (w *Writer[K]) done(k K, err error) {
	s := w.stripe(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.state[k] == keyWriting {
		delete(s.state, k)
		w.waiting.Add(-1)
		return
	}
	s.state[k] = keyQueued
	s.queue = append(s.queue, k)
	// With keyAgain, this round may already have consumed the wake-up of that Add.
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Backlog returns the number of waiting keys and of failed writes.
func (w *Writer[K]) Backlog() (waiting int64, failed uint64) {
	return w.waiting.Load(), w.failed.Load()
}

const restoreWriters = 16

// Restore calls write with each key, and returns how many it wrote. It stops at the first error: the next scan finds
// the rest.
func Restore[K any](
	ctx context.Context, keys []K, write func(context.Context, K) (bool, error),
) (wrote int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, n atomic.Int64
	var wg sync.WaitGroup
	for range min(restoreWriters, len(keys)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(keys)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				did, err := write(ctx, keys[i])
				if err != nil {
					cancel(err)
					return
				}
				if did {
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return n.Load(), context.Cause(ctx)
}
