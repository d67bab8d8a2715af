package stream

import (
	"context"
	"time"
)

// Log is an engine that keeps batches in order and leaves it to others who reads which partition: NewGroup makes a Stream of
// it. Positions are the engine's own words. Safe for concurrent use.
type Log interface {
	// Append adds a batch to each of the partitions; see Stream.Publish.
	Append(ctx context.Context, partitions []int, data [][]byte) error
	// Read calls f with the batches after a position, the oldest that are kept first if it is empty, and returns when it has
	// called it for some of them, or when none have come for wait. data is valid during the call.
	Read(ctx context.Context, partition int, after string, wait time.Duration, f func(pos string, data []byte)) error
	// Back returns a position that is some time before another one.
	Back(pos string, by time.Duration) string
	// Ahead returns how much later a is than b; the empty position is any time before all others, always the same.
	Ahead(a, b string) time.Duration
	// End returns the position of the newest batch of a partition; empty if there is none.
	End(ctx context.Context, partition int) (string, error)
	// Trim drops what is before a position.
	Trim(ctx context.Context, partition int, before string) error
	Close() error
}
