// Package stream carries events from the gateways, which see them, to the processors, which judge them.
//
// A gateway's Publisher publishes batches to partitions; a processor's Consumer reads the partitions that it holds.
// Between them is a Stream, checked by package streamtest.
//
// Invariants:
//  1. Events of an address and of its network are in one partition, in their gateway's order: sessions, groups and
//     quotas are counted in one place.
//  2. A partition is held by one consumer at a time. A successor takes over within seconds, and first reads the last
//     minutes again, to have the sessions.
//  3. A batch arrives at least once. Publisher and number identify it; a batch that an earlier holder processed is
//     marked, and counts in memory alone.
//  4. Offer never waits and never allocates. Late events are dropped and counted; without a processor a gateway judges
//     by itself.
//  5. Memory is bounded: buffers by Config.BufferBytes, the engine by Config.Keep and Config.KeepBytes.
package stream

import (
	"context"
	"errors"
	"time"

	"antirobot/request"
)

// Batch is published at once to one partition. The caller owns the data.
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
	Held int
	Lag  time.Duration // the largest distance of a partition's newest batch from the newest one read
	Err  error         // why the engine can't be used now; nil: it can
}

// Stream is an engine. Safe for concurrent use.
type Stream interface {
	// Partitions returns their number, the same on all nodes.
	Partitions() int
	// Publish adds batches to the ends of their partitions. After an error some may have been added: the caller repeats
	// all of them, in order. It returns when the engine has them, or when ctx ends.
	Publish(ctx context.Context, batches []Batch) error
	// Consume takes a fair share of the partitions and calls f with each batch, in order for each partition and
	// concurrently for several. When f returns, the batch is processed. It returns after ctx has ended and the
	// partitions are given back, and retries an engine that is away.
	Consume(ctx context.Context, f func(d Delivery)) error
	Status() Status
	Close() error
}

// ErrClosed is returned by every call after Close.
var ErrClosed = errors.New("stream: closed")

// Partition returns the partition of an address (a Subject's ID): by its /24 or /32, the largest networks that are
// counted.
func Partition(addr [16]byte, partitions int) int {
	n := 4
	if [12]byte(addr[:12]) == [12]byte{10: 0xff, 11: 0xff} {
		n = 15
	}
	return int(request.Hash(addr[:n]) % uint64(partitions)) //nolint:gosec // below partitions
}
