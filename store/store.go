// Package store states the contracts for durable and shared state, and holds their in-memory backend.
//
// Rules for every backend, checked by package storetest:
//  1. Keys and values are copied.
//  2. A TTL of zero means no expiry. An expired key is absent at once for every call.
//  3. Put, Swap, Delete, Spend, Take and Incr survive kill -9 once they return nil (but see Hasten).
//  4. A call ends with its context; an error leaves open whether the write happened, except where stated.
//  5. All methods are safe for concurrent use.
//  6. The keys of KV, Once and Quota are separate.
//  7. A TTL is kept to the millisecond; a negative one returns ErrTTL and writes nothing. The empty key is valid.
//  8. A nil value is stored as an empty one; only Swap's old value distinguishes nil (absent) from empty.
//  9. No lock is held during a callback: f may call the store.
package store

import (
	"context"
	"errors"
	"time"
)

// Errors that callers of a store must be able to tell apart.
var (
	// ErrNotFound is returned by Get for an absent or expired key.
	ErrNotFound = errors.New("store: not found")
	// ErrGap is returned by Follow when the position is no longer kept, or other data may be lost: scan again, and
	// follow from the new position.
	ErrGap = errors.New("store: feed position is gone")
	// ErrTTL is returned for a negative TTL, which would otherwise mean forever.
	ErrTTL = errors.New("store: negative ttl")
	// ErrPosition is returned by Follow for a position that this backend never returned.
	ErrPosition = errors.New("store: not a feed position")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("store: closed")
)

// KV keeps values by key.
type KV interface {
	// Get appends the value of key to dst, or returns ErrNotFound.
	Get(ctx context.Context, dst, key []byte) ([]byte, error)
	// Put sets key to val for ttl (0: no expiry).
	Put(ctx context.Context, key, val []byte, ttl time.Duration) error
	// Swap sets key to val if its value is old (nil: absent), and reports whether it did.
	Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error)
	// Delete removes key; an absent key is not an error.
	Delete(ctx context.Context, key []byte) error
	// Scan calls f for every live key with the prefix, in key order if the backend has one. k and v are valid during
	// the call; ttl is the time left (0: no expiry). An error of f is returned.
	Scan(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error
}

// Once lets a key be spent once.
type Once interface {
	// Spend reports whether this call was the first for key within its ttl: for exactly one of parallel callers.
	Spend(ctx context.Context, key []byte, ttl time.Duration) (first bool, err error)
}

// Quota counts consumption. A counter's TTL starts with it and is never extended.
type Quota interface {
	// Take adds up to want without passing limit, and returns the grant: 0..want. A call that grants nothing creates
	// nothing.
	Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (granted int64, err error)
	// Incr adds n and returns the new value, between 0 and MaxInt64. Incr of 0 reads. The first call above zero creates
	// the counter, which then keeps its TTL.
	Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error)
}

// Feed carries changes to the other nodes.
type Feed interface {
	// Append adds msg to the topic.
	Append(ctx context.Context, topic string, msg []byte) error
	// Follow calls f for each message after position from, and waits for more until ctx ends (then it returns
	// ctx.Err()). From "" means messages appended after the call; "0" the oldest kept. msg is valid during the call. It
	// returns ErrGap when messages after from were dropped.
	Follow(ctx context.Context, topic, from string, f func(pos string, msg []byte) error) error
	// Position returns the end of the topic: take it before a scan, and follow from it.
	Position(ctx context.Context, topic string) (string, error)
}

// Store is everything that a backend provides.
type Store interface {
	KV
	Once
	Quota
	Feed
	// Shared reports whether other gateways use the state: then allowances are taken in leases.
	Shared() bool
	// Healthy returns nil if the last operation worked, or the problem.
	Healthy() error
	Close() error
}

// Hasten returns a view of s whose Swap and Incr do not wait for a disk: a crash loses the writes of the last second. A
// backend without a disk returns s.
func Hasten(s Store) Store {
	if h, ok := s.(interface{ Hasten() Store }); ok {
		return h.Hasten()
	}
	return s
}

// Skewed is a Store whose servers have their own clock.
type Skewed interface {
	// Skew returns how far that clock is ahead of this machine's; 0 if they agree.
	Skew() time.Duration
}

// Skew is s.Skew, or 0 if s is no Skewed.
func Skew(s KV) time.Duration {
	if k, ok := s.(Skewed); ok {
		return k.Skew()
	}
	return 0
}

// Time converts a time to the clock of the store's servers, by which gateways seal for each other.
func Time(s KV, at time.Time) time.Time { return at.Add(Skew(s)) }

// Mortal is a Store whose servers can lose their data.
type Mortal interface {
	// Life names the servers' current data: a different name means that they were emptied, an empty one that it is
	// unknown. masters grows with every server that took over or started from scratch: its predecessor's last writes
	// may be lost.
	Life() (name string, masters uint64)
}

// Later is a Store that catches up on decisions from an outage.
type Later interface {
	// SpendLater spends a key once the store accepts it. It does not wait.
	SpendLater(key []byte, ttl time.Duration)
}

// Every calls f at intervals, first after one of them, until ctx ends.
func Every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// Pause waits, and reports whether ctx is still alive.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
