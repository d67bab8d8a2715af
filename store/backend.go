package store

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Helpers for backends, so that all of them compute exactly the same results.

// ExpiryAt returns the expiry of a write at now in Unix milliseconds, rounded up; 0 means never.
func ExpiryAt(now time.Time, ttl time.Duration) int64 {
	if ttl == 0 {
		return 0
	}
	ms := int64((ttl + time.Millisecond - 1) / time.Millisecond)
	if ttl > math.MaxInt64-time.Millisecond {
		ms = int64(ttl / time.Millisecond)
	}
	at := now.UnixMilli()
	if ms > math.MaxInt64-at {
		return math.MaxInt64
	}
	return at + ms
}

// TTLLeft returns the time from at to expiry, both in Unix milliseconds.
func TTLLeft(expiry, at int64) time.Duration {
	if expiry-at > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(expiry-at) * time.Millisecond
}

// Grant returns the part of want that Take grants when old of limit is used.
func Grant(old, want, limit int64) int64 {
	if want <= 0 || limit <= old {
		return 0
	}
	return min(want, limit-old)
}

// SaturatingAdd is Incr's addition, between 0 and MaxInt64. old is not negative.
func SaturatingAdd(old, n int64) int64 {
	if n > math.MaxInt64-old {
		return math.MaxInt64
	}
	return max(old+n, 0)
}

// FormatPosition prints a feed message's sequence number. It differs from "0", the oldest message: the position before
// the first message must become ErrGap when that is dropped.
func FormatPosition(n uint64) string { return "@" + strconv.FormatUint(n, 10) }

// ParsePosition reads what FormatPosition printed, or returns ErrPosition.
func ParsePosition(pos string) (uint64, error) {
	if len(pos) < 2 || pos[0] != '@' {
		return 0, fmt.Errorf("%w: %q", ErrPosition, pos)
	}
	n, err := strconv.ParseUint(pos[1:], 10, 63)
	if err != nil || FormatPosition(n) != pos {
		return 0, fmt.Errorf("%w: %q", ErrPosition, pos)
	}
	return n, nil
}
