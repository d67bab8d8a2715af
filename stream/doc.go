// Package stream carries events from the gateways, which see them, to the processors, which judge them.
//
// A gateway's Publisher encodes each event, collects those of a moment, and publishes them as a batch of their partition. A
// processor's Consumer reads the partitions that it holds. Between them is a Stream: an engine that exists, behind a small
// contract that package streamtest checks.
//
// Invariants:
//  1. All events of an address and of its network are in one partition, in the order in which their gateway saw them:
//     sessions, groups and budgets are counted in one place. See Partition.
//  2. A partition is held by one consumer at a time. When its holder ends, another takes it within a few seconds, and first
//     reads once more what the last minutes brought: so it has the sessions.
//  3. A batch arrives at least once. Each has the name of its publisher and a number, by which the consumer knows what it
//     has had; what an earlier holder has processed comes marked as such, and is then counted in memory alone.
//  4. Offer never waits and never allocates. What can't be published in time is dropped and counted; a gateway whose events
//     nobody judges does it by itself.
//  5. All memory is bounded: buffers by Config.BufferBytes, the engine by Config.Keep and Config.KeepBytes.
package stream

import (
	"context"
	"errors"
	"time"

	"antirobot/request"
)

// Batch is what is published at once to one partition. The data belongs to the caller.
type Batch struct {
	Partition int
	Data      []byte
}

// Delivery is a batch as it arrives. Data is valid during the call.
type Delivery struct {
	Partition int
	Data      []byte
	Again     bool // an earlier holder of the partition has processed it, too
}

// Status is what a consumer knows of its share.
type Status struct {
	Held int           // partitions
	Lag  time.Duration // between the newest batch that is published and the newest one that was read; of all partitions the largest
	Err  error         // why the engine can't be used now; nil: it can
}

// Stream is an engine. Safe for concurrent use.
type Stream interface {
	// Partitions returns how many there are: the same number for everybody.
	Partitions() int
	// Publish adds batches to the ends of their partitions. After an error some may have been added: the caller repeats all
	// of them, in order. It returns when the engine has them, or when ctx ends.
	Publish(ctx context.Context, batches []Batch) error
	// Consume takes a fair share of the partitions and calls f with each batch, in order for each partition and concurrently
	// for several. When f returns, the batch counts as processed. It returns when ctx has ended, after it has given the
	// partitions back. An engine that is away is tried again.
	Consume(ctx context.Context, f func(d Delivery)) error
	// Status returns the state of the Consume that is running.
	Status() Status
	// Close ends the connection to the engine.
	Close() error
}

// ErrClosed is returned by every call after Close.
var ErrClosed = errors.New("stream: closed")

// Partition returns the partition of an address (the ID of its Subject): by its /24, or the /32 of IPv6. These are the
// largest networks of which anything is counted, so whatever is counted for an address is counted in one partition.
func Partition(addr [16]byte, partitions int) int {
	n := 4
	if [12]byte(addr[:12]) == [12]byte{10: 0xff, 11: 0xff} {
		n = 15
	}
	return int(request.Hash(addr[:n]) % uint64(partitions)) //nolint:gosec // below partitions
}
