package stream

import (
	"context"
	"time"
)

// Log is an engine that keeps batches in order: NewGroup makes a Stream of it. Positions are opaque. Safe for
// concurrent use.
type Log interface {
	// Append adds a batch to each of the partitions; see Stream.Publish.
	Append(ctx context.Context, partitions []int, data [][]byte) error
	// Read calls f with some batches after a position, from the oldest if it is empty, or returns after wait. data is
	// valid during the call.
	Read(ctx context.Context, partition int, after string, wait time.Duration, f func(pos string, data []byte)) error
	// Back returns a position that is some time before another one.
	Back(pos string, by time.Duration) string
	// Ahead returns how much later a is than b; the empty position is before all others.
	Ahead(a, b string) time.Duration
	// End returns the position of the newest batch; empty without one.
	End(ctx context.Context, partition int) (string, error)
	// Trim drops the batches before a position.
	Trim(ctx context.Context, partition int, before string) error
	Close() error
}
