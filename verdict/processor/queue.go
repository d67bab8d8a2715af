package processor

import (
	"math/bits"
	"sync/atomic"
	"time"

	"antirobot/verdict"
)

// queue is a bounded ring of events with many producers and one consumer. Each slot carries the number of the turn
// whose event it holds or waits for, so that neither side takes a lock (Vyukov's bounded queue). Slots that were never
// used are not touched, so they take no memory.
type queue struct {
	places []place
	mask   uint64
	_      [40]byte
	head   atomic.Uint64 // next slot to fill
	_      [56]byte
	tail   atomic.Uint64 // next slot to empty; only the consumer moves it
	idle   atomic.Bool   // the consumer sleeps until it is woken, or is about to
	closed atomic.Bool
	wake   chan struct{}
}

type place struct {
	turn  atomic.Uint64 // less the slot's own number, so that 0 waits for its first event
	event verdict.Event
}

// rest is how long the consumer rests after it has emptied the queue, before it looks again and then sleeps until it is
// woken: on a busy site that wakes it a few hundred times a second instead of once for each request, and events that are
// judged together find the processor's memory in the caches. A ban comes later by as much.
const rest = 5 * time.Millisecond

func newQueue(size int) *queue {
	n := uint64(1) << bits.Len64(uint64(max(size, 2)-1))
	return &queue{places: make([]place, n), mask: n - 1, wake: make(chan struct{}, 1)}
}

// offer copies e into the ring; false if it is full or closed.
func (q *queue) offer(e *verdict.Event) bool {
	if q.closed.Load() {
		return false
	}
	for {
		at := q.head.Load()
		pl, lap := &q.places[at&q.mask], at&^q.mask
		switch turn := pl.turn.Load(); {
		case turn == lap:
			if !q.head.CompareAndSwap(at, at+1) {
				continue
			}
			pl.event = *e
			pl.turn.Store(lap + 1)
			if q.idle.Load() && q.idle.CompareAndSwap(true, false) {
				select {
				case q.wake <- struct{}{}:
				default:
				}
			}
			return true
		case turn < lap:
			return false
		}
	}
}

// take calls f with the oldest event, which stays in its slot meanwhile; false if there is none.
func (q *queue) take(f func(*verdict.Event)) bool {
	at := q.tail.Load()
	pl, lap := &q.places[at&q.mask], at&^q.mask
	if pl.turn.Load() != lap+1 {
		return false
	}
	f(&pl.event)
	pl.turn.Store(lap + q.mask + 1)
	q.tail.Store(at + 1)
	return true
}

func (q *queue) waiting() int { return int(q.head.Load() - q.tail.Load()) }

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
