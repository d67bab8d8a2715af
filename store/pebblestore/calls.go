package pebblestore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"antirobot/store"
)

// The writing calls of the contracts: each copies its arguments into a request.

// Put implements store.KV.
func (s *Store) Put(ctx context.Context, key, val []byte, ttl time.Duration) error {
	if err := s.ready(ctx, ttl); err != nil {
		return err
	}
	_, err := s.do(ctx, &request{
		verb: doPut, key: spaceKey(spaceKV, key), val: bytes.Clone(val), expiry: store.ExpiryAt(s.now(), ttl),
	})
	return err
}

// Swap implements store.KV.
func (s *Store) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	return s.swap(ctx, key, old, val, ttl, false)
}

func (s *Store) swap(ctx context.Context, key, old, val []byte, ttl time.Duration, hasty bool) (bool, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return false, err
	}
	res, err := s.do(ctx, &request{
		verb: doSwap, key: spaceKey(spaceKV, key), old: bytes.Clone(old), val: bytes.Clone(val),
		expiry: store.ExpiryAt(s.now(), ttl), hasty: hasty,
	})
	return res.ok, err
}

// Delete implements store.KV.
func (s *Store) Delete(ctx context.Context, key []byte) error {
	if err := s.ready(ctx, 0); err != nil {
		return err
	}
	_, err := s.do(ctx, &request{verb: doDelete, key: spaceKey(spaceKV, key)})
	return err
}

// Spend implements store.Once.
func (s *Store) Spend(ctx context.Context, key []byte, ttl time.Duration) (bool, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return false, err
	}
	res, err := s.do(ctx, &request{verb: doSpend, key: spaceKey(spaceOnce, key), expiry: store.ExpiryAt(s.now(), ttl)})
	return res.ok, err
}

// Take implements store.Quota.
func (s *Store) Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (int64, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return 0, err
	}
	res, err := s.do(ctx, &request{
		verb: doTake, key: spaceKey(spaceQuota, key), n: want, limit: limit, expiry: store.ExpiryAt(s.now(), ttl),
	})
	return res.n, err
}

// Incr implements store.Quota.
func (s *Store) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error) {
	return s.incr(ctx, key, n, ttl, false)
}

func (s *Store) incr(ctx context.Context, key []byte, n int64, ttl time.Duration, hasty bool) (int64, error) {
	if err := s.ready(ctx, ttl); err != nil {
		return 0, err
	}
	res, err := s.do(ctx, &request{
		verb: doIncr, key: spaceKey(spaceQuota, key), n: n, expiry: store.ExpiryAt(s.now(), ttl), hasty: hasty,
	})
	return res.n, err
}

// Append implements store.Feed. A topic's name has at most 65535 bytes.
func (s *Store) Append(ctx context.Context, topic string, msg []byte) error {
	if err := s.ready(ctx, 0); err != nil {
		return err
	}
	if len(topic) > maxTopic {
		return fmt.Errorf("append to feed: a topic of %d bytes", len(topic))
	}
	_, err := s.do(ctx, &request{verb: doAppend, key: []byte(topic), val: bytes.Clone(msg)})
	return err
}
