// Package store states the contracts for durable and shared state, and holds their in-memory backend.
//
// Rules for every backend, checked by package storetest:
//  1. Keys and values are copied by the backend; the caller may reuse its slices when a call returns.
//  2. A TTL of zero means no expiry. An expired key is absent for every call at once, not only after the next sweep.
//  3. Put, Swap, Delete, Spend, Take and Incr are durable when they return nil: they survive kill -9 of the process (but see Hasten).
//  4. A call ends when its context does; an error says nothing about whether the write happened, except where stated.
//  5. All methods are safe for concurrent use.
//  6. The keys of KV, Once and Quota are separate: Spend of a key does not affect Get of it.
//  7. A TTL is kept to the millisecond; a negative one returns ErrTTL and writes nothing. The empty key is valid.
//  8. A nil value is stored as an empty one; only the old value of Swap distinguishes nil (absent) from empty.
//  9. No lock is held while a callback runs: f may call the store.
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
	// ErrGap is returned by Follow when the requested position is no longer kept, or when the backend may have lost other
	// data: scan again, then follow from the new position.
	ErrGap = errors.New("store: feed position is gone")
	// ErrTTL is returned for a negative TTL: what expired before it was written must not be kept forever.
	ErrTTL = errors.New("store: negative ttl")
	// ErrPosition is returned by Follow for a position that this backend never gave out.
	ErrPosition = errors.New("store: not a feed position")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("store: closed")
)

// KV keeps values by key.
type KV interface {
	// Get appends the value of key to dst and returns the extended slice, or ErrNotFound.
	Get(ctx context.Context, dst, key []byte) ([]byte, error)
	// Put sets key to val for ttl (0: no expiry).
	Put(ctx context.Context, key, val []byte, ttl time.Duration) error
	// Swap sets key to val if its value is old; a nil old means that the key must be absent. It reports whether it did so.
	Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error)
	// Delete removes key; an absent key is not an error.
	Delete(ctx context.Context, key []byte) error
	// Scan calls f for every live key with the prefix, in key order if the backend has one. k and v are valid only during
	// the call; ttl is the time left (0: no expiry). An error of f ends the scan and is returned.
	Scan(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error
}

// Once lets a key be spent once.
type Once interface {
	// Spend reports whether this call was the first for key within its ttl. Of any number of parallel callers
	// exactly one is told true.
	Spend(ctx context.Context, key []byte, ttl time.Duration) (first bool, err error)
}

// Quota counts consumption. The TTL starts when the counter is created and is never extended.
type Quota interface {
	// Take adds up to want to the counter without passing limit, and returns what was granted: 0..want. A call that
	// grants nothing creates nothing.
	Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (granted int64, err error)
	// Incr adds n (which may be negative) to the counter and returns its new value; it saturates at the ends of int64 and
	// never falls below zero. Incr of 0 reads. A counter is created by the first call that raises it above zero, and stays,
	// with its TTL, when it falls back to zero.
	Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error)
}

// Feed carries changes to the other nodes.
type Feed interface {
	// Append adds msg to the topic.
	Append(ctx context.Context, topic string, msg []byte) error
	// Follow calls f for each message after position from, and waits for more until ctx ends (then it returns ctx.Err()).
	// From "" means only what is appended after the call; "0" means from the oldest message kept. msg is valid only during
	// the call. It returns ErrGap when messages after from have been dropped.
	Follow(ctx context.Context, topic, from string, f func(pos string, msg []byte) error) error
	// Position returns the current end of the topic: note it before a scan, and follow from it afterwards.
	Position(ctx context.Context, topic string) (string, error)
}

// Store is everything that a backend provides.
type Store interface {
	KV
	Once
	Quota
	Feed
	// Shared reports whether other nodes use the same state: if so, allowances are taken in leases.
	Shared() bool
	// Healthy returns nil if the last operation worked, or an error that says what is wrong.
	Healthy() error
	Close() error
}

// Hasten returns the same state by a Store whose Swap and Incr return when everybody sees what they wrote, without waiting for a
// disk: a crash loses the writes of the last second. All else, and closing it, is as without. Where nothing waits for a disk it is s.
func Hasten(s Store) Store {
	if h, ok := s.(interface{ Hasten() Store }); ok {
		return h.Hasten()
	}
	return s
}

// Skewed is a Store whose servers have their own clock.
type Skewed interface {
	// Skew returns how far that clock is ahead of this machine's; 0 as long as the two agree well enough.
	Skew() time.Duration
}

// Skew is s.Skew, or 0 if s is no Skewed.
func Skew(s KV) time.Duration {
	if k, ok := s.(Skewed); ok {
		return k.Skew()
	}
	return 0
}

// Time returns a time of this machine's clock by the clock of the store's servers. What gateways seal for each other goes by that.
func Time(s KV, at time.Time) time.Time { return at.Add(Skew(s)) }

// Mortal is a Store whose servers can lose their data.
type Mortal interface {
	// Life names the servers' current data: a different name means that they were emptied, an empty name that it is not
	// known yet. Masters grows with every server that took over from another or started from scratch: the last writes of
	// its predecessor may be lost.
	Life() (name string, masters uint64)
}

// Later is a Store that catches up on decisions made while it was unavailable.
type Later interface {
	// SpendLater spends a key as soon as the store accepts it. It does not wait.
	SpendLater(key []byte, ttl time.Duration)
}
