package processor

import (
	"sync"
	"sync/atomic"
	"time"

	"antirobot/verdict"
)

// queue is a bounded list of batches of events with many producers and one consumer. Producers fill the last batch without a lock;
// one takes the lock for each batch that is begun, and the consumer for each that it has emptied. The batch that was emptied last
// is filled next, so that a queue which is emptied in time stays in the processor's caches. Batches are made when there is none left to
// fill: those that were never needed take no memory, and the garbage collector does not look through them.
type queue struct {
	_      [64]byte
	last   atomic.Pointer[batch] // being filled
	idle   atomic.Bool           // the consumer sleeps until it is woken, or is about to
	closed atomic.Bool
	wake   chan struct{}

	mu     sync.Mutex
	free   []*batch // the one that was emptied last comes last
	unmade int      // batches that may still be made

	_      [64]byte
	first  *batch        // being emptied, by the consumer alone
	at     int           // the next of its places
	judged atomic.Uint64 // events taken
}

// batch is some events in the order of their places. Places are claimed by counting, and hold an event once they are full.
type batch struct {
	next    atomic.Pointer[batch]
	number  uint64 // how many were begun before it
	claimed atomic.Uint32
	places  [batchEvents]place
}

const batchEvents = 64

type place struct {
	full  atomic.Bool
	event verdict.Event
}

// rest is how long the consumer rests after it has emptied the queue, before it looks again and then sleeps until it is
// woken: on a busy site that wakes it a few hundred times a second instead of once for each request, and events that are
// judged together find the processor's memory in the caches. A ban comes later by as much.
const rest = 5 * time.Millisecond

func newQueue(size int) *queue {
	q := &queue{wake: make(chan struct{}, 1), first: new(batch)} // of one that is being emptied, up to a batch less is free
	q.unmade = max(size/batchEvents, 2) - 1
	q.last.Store(q.first)
	return q
}

// offer copies e into the queue; false if it is full or closed.
func (q *queue) offer(e *verdict.Event) bool {
	for !q.closed.Load() {
		b := q.last.Load()
		if b.claimed.Load() < batchEvents {
			if i := b.claimed.Add(1) - 1; i < batchEvents {
				pl := &b.places[i]
				pl.event = *e
				pl.full.Store(true)
				if q.idle.Load() && q.idle.CompareAndSwap(true, false) {
					select {
					case q.wake <- struct{}{}:
					default:
					}
				}
				return true
			}
		}
		if !q.begin(b) {
			return false
		}
	}
	return false
}

// begin puts another batch behind one that is full; false if there is none.
func (q *queue) begin(full *batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last.Load() != full || full.claimed.Load() < batchEvents {
		return true // somebody else has, perhaps so long ago that this batch was emptied, and is the last one again
	}
	var b *batch
	switch {
	case len(q.free) > 0:
		b = q.free[len(q.free)-1]
		q.free = q.free[:len(q.free)-1]
		b.next.Store(nil)
	case q.unmade > 0:
		b = new(batch)
		q.unmade--
	default:
		return false
	}
	b.number = full.number + 1
	b.claimed.Store(0) // whoever still held it from its last time may fill it from now on
	full.next.Store(b)
	q.last.Store(b)
	return true
}

// take calls f with the oldest event, which stays in its place meanwhile; false if there is none.
func (q *queue) take(f func(*verdict.Event)) bool {
	if q.at == batchEvents {
		next := q.first.next.Load()
		if next == nil {
			return false
		}
		q.mu.Lock()
		q.free = append(q.free, q.first)
		q.mu.Unlock()
		q.first, q.at = next, 0
	}
	pl := &q.first.places[q.at]
	if !pl.full.Load() {
		return false
	}
	f(&pl.event)
	pl.full.Store(false)
	q.at++
	q.judged.Add(1)
	return true
}

func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.last.Load()
	offered := b.number*batchEvents + uint64(min(b.claimed.Load(), batchEvents))
	return int(offered - min(offered, q.judged.Load())) //nolint:gosec // fewer than the queue has places
}

// run calls f with each event until stop is closed and the queue is empty. The event is valid during the call.
func (q *queue) run(stop <-chan struct{}, f func(*verdict.Event)) {
	for {
		some := false
		for q.take(f) {
			some = true
		}
		if some {
			time.Sleep(rest)
			continue
		}
		q.idle.Store(true)
		if q.take(f) { // it arrived between the last take and the flag
			q.idle.Store(false)
			continue
		}
		select {
		case <-q.wake:
		case <-stop:
			for q.take(f) {
			}
			return
		}
	}
}
