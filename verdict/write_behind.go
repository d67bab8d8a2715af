package verdict

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	behindStripes = 16
	behindLocks   = 64
	behindWriters = 16 // concurrent writes: a store with group commit combines them
	behindBackoff = 200 * time.Millisecond
)

// behind writes keys to the store in the background, after the requests that changed them: write is called for a key
// soon after Add, never twice at once for one key, and again if the key was added in the meantime or the write failed.
// What is written is what memory holds at that moment, so a key that changes a hundred times before its turn costs one
// write. Its memory is bounded by the number of live keys.
type behind[K comparable] struct {
	write   func(context.Context, K) error
	seed    maphash.Seed
	wake    chan struct{}
	locks   [behindLocks]sync.Mutex // by key, held during its write
	stripes [behindStripes]stripe[K]
	batch   []K          // of the current round
	waiting atomic.Int64 // keys added and not yet written
	failed  atomic.Uint64
	lastErr atomic.Pointer[error] // of the last write, nil if it worked
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

func newBehind[K comparable](write func(context.Context, K) error) *behind[K] {
	b := &behind[K]{write: write, seed: maphash.MakeSeed(), wake: make(chan struct{}, 1)}
	for i := range b.stripes {
		b.stripes[i].state = make(map[K]keyState)
	}
	return b
}

func (b *behind[K]) stripe(k K) *stripe[K] {
	return &b.stripes[maphash.Comparable(b.seed, k)%behindStripes]
}

// Add asks for k to be written. It does not wait.
func (b *behind[K]) Add(k K) {
	s := b.stripe(k)
	s.mu.Lock()
	switch s.state[k] {
	case 0:
		s.state[k] = keyQueued
		s.queue = append(s.queue, k)
		b.waiting.Add(1)
	case keyWriting:
		s.state[k] = keyAgain
	}
	s.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Now writes k before it returns. If that fails, the key is left for Run, and the error is returned.
func (b *behind[K]) Now(ctx context.Context, k K) error {
	err := b.one(ctx, k)
	if err != nil {
		b.Add(k)
	}
	return err
}

// one writes k under the lock of its key: of two writes, the one that reads memory last wins.
func (b *behind[K]) one(ctx context.Context, k K) error {
	l := &b.locks[maphash.Comparable(b.seed, k)%behindLocks]
	l.Lock()
	defer l.Unlock()
	err := b.write(ctx, k)
	if err != nil {
		b.failed.Add(1)
		b.lastErr.Store(&err)
	} else if b.lastErr.Load() != nil {
		b.lastErr.Store(nil)
	}
	return err
}

// Pending reports whether k waits to be written or is being written.
func (b *behind[K]) Pending(k K) bool {
	s := b.stripe(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state[k] != 0
}

// Err returns why the last write failed; nil if it succeeded.
func (b *behind[K]) Err() error {
	if e := b.lastErr.Load(); e != nil {
		return *e
	}
	return nil
}

// Run writes until ctx ends.
func (b *behind[K]) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		if !b.round(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(behindBackoff):
			}
			select {
			case b.wake <- struct{}{}:
			default:
			}
		}
	}
}

// Flush writes everything pending, until it is done, a whole round fails, or ctx ends. Run must have ended.
func (b *behind[K]) Flush(ctx context.Context) error {
	for b.waiting.Load() > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !b.round(ctx) {
			return b.Err()
		}
	}
	return nil
}

// round writes each pending key once; false if a write failed. Rounds never run concurrently.
func (b *behind[K]) round(ctx context.Context) bool {
	keys := b.batch[:0]
	for i := range b.stripes {
		s := &b.stripes[i]
		s.mu.Lock()
		for _, k := range s.queue {
			s.state[k] = keyWriting
		}
		keys = append(keys, s.queue...)
		s.queue = s.queue[:0]
		s.mu.Unlock()
	}
	b.batch = keys
	var next atomic.Int64
	var bad atomic.Bool
	work := func() {
		for {
			i := int(next.Add(1) - 1)
			if i >= len(keys) {
				return
			}
			err := b.one(ctx, keys[i])
			b.done(keys[i], err)
			if err != nil {
				bad.Store(true)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(behindWriters, len(keys)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return !bad.Load()
}

// done finishes a key after its write.
func (b *behind[K]) done(k K, err error) {
	s := b.stripe(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.state[k] == keyWriting {
		delete(s.state, k)
		b.waiting.Add(-1)
		return
	}
	s.state[k] = keyQueued
	s.queue = append(s.queue, k)
	// With keyAgain, this round may already have consumed the wake-up of that Add.
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *behind[K]) backlog() (waiting int64, failed uint64) {
	return b.waiting.Load(), b.failed.Load()
}
