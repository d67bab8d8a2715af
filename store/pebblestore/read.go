package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"antirobot/store"

	"github.com/cockroachdb/pebble/v2"
)

// Get implements store.KV.
func (s *Store) Get(ctx context.Context, dst, key []byte) ([]byte, error) {
	if err := s.ready(ctx, 0); err != nil {
		return dst, err
	}
	err := s.with(func(e *engine) error {
		val, closer, err := e.db.Get(spaceKey(spaceKV, key))
		if errors.Is(err, pebble.ErrNotFound) {
			return store.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("read store: %w", err)
		}
		defer closer.Close()
		expiry, payload, err := split(val)
		if err != nil {
			return err
		}
		if expired(expiry, s.now().UnixMilli()) {
			return store.ErrNotFound
		}
		dst = append(dst, payload...)
		return nil
	})
	return dst, err
}

const (
	chunkEntries = 256
	chunkBytes   = 1 << 20
)

type entry struct {
	key, val []byte // val with its header
}

// chunk reads as many entries with lower ≤ key < upper as fit, and reports whether more may follow.
func (s *Store) chunk(lower, upper []byte) (list []entry, more bool, err error) {
	err = s.with(func(e *engine) error {
		it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			return fmt.Errorf("read store: %w", err)
		}
		size := 0
		for ok := it.First(); ok; ok = it.Next() {
			if len(list) == chunkEntries || size > chunkBytes {
				more = true
				break
			}
			val, err := it.ValueAndErr()
			if err != nil {
				return errors.Join(fmt.Errorf("read store: %w", err), it.Close())
			}
			list = append(list, entry{bytes.Clone(it.Key()), bytes.Clone(val)})
			size += len(it.Key()) + len(val)
		}
		return wrap("read store", it.Close())
	})
	return list, more, err
}

// Scan implements store.KV, in key order. It sees writes to keys that it has not reached.
func (s *Store) Scan(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	return s.scan(ctx, prefix, func(at int64) int64 { return at }, f)
}

// ScanKept implements store.Keeper.
func (s *Store) ScanKept(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	return s.scan(ctx, prefix, s.before, f)
}

// scan shows all entries that have not expired at ended(now).
func (s *Store) scan(
	ctx context.Context, prefix []byte, ended func(at int64) int64, f func(k, v []byte, ttl time.Duration) error,
) error {
	if err := s.ready(ctx, 0); err != nil {
		return err
	}
	lower := spaceKey(spaceKV, prefix)
	upper := after(lower)
	for {
		list, more, err := s.chunk(lower, upper)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := s.ready(ctx, 0); err != nil {
				return err
			}
			expiry, payload, err := split(e.val)
			if err != nil {
				return err
			}
			at := s.now().UnixMilli()
			if expired(expiry, ended(at)) {
				continue
			}
			var left time.Duration
			if expiry != 0 {
				left = store.TTLLeft(expiry, at)
				if left == 0 {
					left = -1 // 0 means no expiry
				}
			}
			if err := f(e.key[1:], payload, left); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		lower = append(list[len(list)-1].key, 0)
	}
}

const (
	sweepEvery = time.Minute
	// sweepPause separates two chunks: a sweep never uses much of the disk.
	sweepPause = 50 * time.Millisecond
)

func (s *Store) sweep() {
	var from []byte
	for {
		pause := sweepPause
		if from == nil {
			pause = sweepEvery
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.closing:
			timer.Stop()
			return
		}
		next, err := s.sweepChunk(context.Background(), from)
		if err != nil {
			if _, ill := s.health.state(); ill == nil && !s.closed.Load() {
				s.log.Warn().Err(err).Msg("store: sweep")
			}
			next = nil // start over after the long pause
		}
		from = next
	}
}

// sweepChunk removes expired keys after from, and returns the next start; nil: at the end.
func (s *Store) sweepChunk(ctx context.Context, from []byte) ([]byte, error) {
	if from == nil {
		from = []byte{spaceKV} // feeds, before it, have no expiry
	}
	list, more, err := s.chunk(from, nil)
	if err != nil {
		return nil, err
	}
	at := s.before(s.now().UnixMilli())
	var dead [][]byte
	for _, e := range list {
		expiry, _, err := split(e.val)
		if err == nil && expired(expiry, at) {
			dead = append(dead, e.key)
		}
	}
	if len(dead) > 0 { // the committer checks again: a key may have been rewritten
		res, err := s.do(ctx, &request{verb: doExpire, keys: dead, before: at})
		if err != nil {
			return nil, err
		}
		s.swept.Add(res.n)
	}
	if !more {
		return nil, nil
	}
	return append(list[len(list)-1].key, 0), nil
}
