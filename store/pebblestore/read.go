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

// view runs f with the current engine, which is neither replaced nor closed meanwhile. f must be short and make no calls
// back.
func (s *Store) view(f func(db *pebble.DB) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.eng == nil {
		return store.ErrClosed
	}
	err := f(s.eng.db)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.stats.errors.Add(1)
	}
	return err
}

// Get implements store.KV.
func (s *Store) Get(ctx context.Context, dst, key []byte) ([]byte, error) {
	if err := s.ready(ctx, 0); err != nil {
		return dst, err
	}
	err := s.view(func(db *pebble.DB) error {
		val, closer, err := db.Get(spaceKey(spaceKV, key))
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

// Bounds of what Scan and Follow read before they call back.
const (
	chunkEntries = 256
	chunkBytes   = 1 << 20
)

type entry struct {
	key, val []byte // val with its header
}

// chunk reads as many entries with lower ≤ key < upper as fit, and reports whether there may be more.
func (s *Store) chunk(lower, upper []byte) (list []entry, more bool, err error) {
	err = s.view(func(db *pebble.DB) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
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

// Scan implements store.KV, in key order. It sees concurrent writes to keys that it has not reached yet.
func (s *Store) Scan(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	return s.scan(ctx, prefix, func(at int64) int64 { return at }, f)
}

// ScanKept implements store.Keeper.
func (s *Store) ScanKept(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	return s.scan(ctx, prefix, s.horizon, f)
}

// scan shows everything that has not expired at ended(now).
func (s *Store) scan(ctx context.Context, prefix []byte, ended func(at int64) int64, f func(k, v []byte, ttl time.Duration) error) error {
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
