package sources

import (
	"context"
	"errors"
	"time"

	"antirobot/rules"
)

// Storage keeps values and counters that expire. An expiry of 0 is for ever. Safe for concurrent use.
type Storage interface {
	// Get returns a copy of the value of key, or false.
	Get(ctx context.Context, key []byte) ([]byte, bool, error)
	Set(ctx context.Context, key, value []byte, expire time.Duration) error
	// Add sets key only if it is absent, and reports whether it did.
	Add(ctx context.Context, key, value []byte, expire time.Duration) (bool, error)
	// Append appends to the value of key, up to maxStored bytes, and keeps its expiry; it reports false for an absent key.
	Append(ctx context.Context, key, value []byte) (bool, error)
	// Incr adds n to the number in key and returns it; it is never less than zero. An absent key begins with 0 and lives for expire from now on; the
	// expiry of a present one is kept.
	Incr(ctx context.Context, key []byte, n int64, expire time.Duration) (int64, error)
	Delete(ctx context.Context, key []byte) error
	// Draw takes a token from the bucket of key, and returns how long to wait for one if it is empty. Without take it says
	// how long a caller would have to wait, and takes none.
	Draw(ctx context.Context, key []byte, b rules.Bucket, take bool) (wait time.Duration, err error)
}

// maxStored is the greatest length of a value in bytes.
const maxStored = 1 << 20

var (
	errNotNumber = errors.New("the value is not a number")
	errTooLong   = errors.New("the value is too long")
)

// drawn computes a bucket from the time at which it would be full again, which is all that it needs (a generic cell rate
// algorithm): the new time, and how long to wait if there is no token. All times are unix nanoseconds.
func drawn(full, at int64, b rules.Bucket) (next int64, wait time.Duration) {
	next = max(full, at) + int64(b.Every)
	return next, time.Duration(max(0, next-at-b.Burst*int64(b.Every)))
}
