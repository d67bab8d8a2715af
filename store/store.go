// Package store states the contracts for durable and shared state, and holds their in-memory backend.
//
// Rules for every backend, checked by package storetest:
//  1. Keys and values are copied by the backend; the caller may reuse its slices when a call returns.
//  2. A TTL of zero means for ever. An expired key is absent for every call, at once and not at the next sweep.
//  3. Put, Swap, Delete, Spend, Take and Incr are durable when they return nil: they survive kill -9 of the process.
//  4. A call ends when its context does; an error says nothing about whether the write happened, except where stated.
//  5. All methods are safe for concurrent use.
//  6. The keys of KV, Once and Quota are apart: Spend of a key says nothing about Get of it.
//  7. A TTL is kept to the millisecond; a negative one is ErrTTL and nothing is written. An empty key is a key.
//  8. A nil value is stored as an empty one; only the old value of Swap tells nil (absent) from empty.
//  9. No lock is held while a callback runs: f may call the store.
package store

import (
	"context"
	"errors"
	"time"
)

// Errors that the callers of a store tell apart.
var (
	// ErrNotFound is returned by Get for an absent or expired key.
	ErrNotFound = errors.New("store: not found")
	// ErrGap is returned by Follow when the position asked for is no longer kept, or when the backend may have lost
	// something else: scan again, then follow anew.
	ErrGap = errors.New("store: feed position is gone")
	// ErrTTL is returned for a negative TTL: what has ended before it began must not become "for ever".
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
	// Put sets key to val for ttl (0: for ever).
	Put(ctx context.Context, key, val []byte, ttl time.Duration) error
	// Swap sets key to val if its value is old; a nil old means that the key is absent. It reports whether it did.
	Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error)
	// Delete removes key; an absent key is not an error.
	Delete(ctx context.Context, key []byte) error
	// Scan calls f for every live key with the prefix, in key order where the backend has one. k and v are valid
	// during the call only; ttl is what is left (0: for ever). An error of f ends the scan and is returned.
	Scan(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error
}

// Once lets a key be spent once.
type Once interface {
	// Spend reports whether this call was the first for key within its ttl. Of any number of parallel callers
	// exactly one is told true.
	Spend(ctx context.Context, key []byte, ttl time.Duration) (first bool, err error)
}

// Quota counts what may be used up. The TTL starts when the counter is created and is never extended.
type Quota interface {
	// Take adds up to want to the counter without passing limit, and returns what was granted: 0..want. A call that
	// grants nothing creates nothing.
	Take(ctx context.Context, key []byte, want, limit int64, ttl time.Duration) (granted int64, err error)
	// Incr adds n (which may be negative) to the counter and returns its new value; it saturates at the ends of
	// int64 and never falls below zero. Incr of 0 reads. A counter is created by the first call that makes it greater
	// than zero, and stays, with its TTL, when it falls back to zero.
	Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error)
}

// Feed carries changes to the other nodes.
type Feed interface {
	// Append adds msg to the topic.
	Append(ctx context.Context, topic string, msg []byte) error
	// Follow calls f for each message after position from, and waits for more until ctx ends (then it returns
	// ctx.Err()). From "" means only what is appended after the call; "0" from the oldest kept. msg is valid
	// during the call only. It returns ErrGap when messages after from have been dropped.
	Follow(ctx context.Context, topic, from string, f func(pos string, msg []byte) error) error
	// Position returns the present end of the topic, to be noted before a scan and followed after it.
	Position(ctx context.Context, topic string) (string, error)
}

// Store is what a backend provides as a whole.
type Store interface {
	KV
	Once
	Quota
	Feed
	// Shared reports whether other nodes use the same state: allowances are then taken in leases.
	Shared() bool
	// Healthy returns nil when the last operation worked, or the error that says what is wrong.
	Healthy() error
	Close() error
}

// Skewed is a Store whose servers have a clock of their own.
type Skewed interface {
	// Skew returns how far that clock is ahead of this machine's; 0 as long as both agree well enough.
	Skew() time.Duration
}

// Mortal is a Store whose servers can lose what they had.
type Mortal interface {
	// Life names what the servers hold; another name than before says that they were emptied, and an empty one that it is
	// not known yet. Masters grows with every server that took over from another or began anew: the last writes of its
	// predecessor may be gone.
	Life() (name string, masters uint64)
}

// Later is a Store that makes up for what was decided without it.
type Later interface {
	// SpendLater spends a key as soon as the store takes it. It does not wait.
	SpendLater(key []byte, ttl time.Duration)
}
