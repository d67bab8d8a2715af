package processor

import (
	"math/bits"
	"sync/atomic"

	"antirobot/verdict"
)

// queue is a bounded ring of events with many producers and one consumer. Each slot carries the number of the turn
// whose event it holds or waits for, so that neither side takes a lock (Vyukov's bounded queue).
type queue struct {
	places []place
	mask   uint64
	_      [40]byte
	head   atomic.Uint64 // next slot to fill
	_      [56]byte
	tail   atomic.Uint64 // next slot to empty; only the consumer moves it
	idle   atomic.Bool   // the consumer sleeps, or is about to
	closed atomic.Bool
	wake   chan struct{}
}

type place struct {
	turn  atomic.Uint64
	event verdict.Event
}

func newQueue(size int) *queue {
	n := uint64(1) << bits.Len64(uint64(max(size, 2)-1))
	q := &queue{places: make([]place, n), mask: n - 1, wake: make(chan struct{}, 1)}
	for i := range q.places {
		q.places[i].turn.Store(uint64(i))
	}
	return q
}

// offer copies e into the ring; false if it is full or closed.
func (q *queue) offer(e *verdict.Event) bool {
	if q.closed.Load() {
		return false
	}
	for {
		at := q.head.Load()
		pl := &q.places[at&q.mask]
		switch turn := pl.turn.Load(); {
		case turn == at:
			if !q.head.CompareAndSwap(at, at+1) {
				continue
			}
			pl.event = *e
			pl.turn.Store(at + 1)
			if q.idle.Load() && q.idle.CompareAndSwap(true, false) {
				select {
				case q.wake <- struct{}{}:
				default:
				}
			}
			return true
		case turn < at:
			return false
		}
	}
}

// take moves the oldest event to e; false if there is none.
func (q *queue) take(e *verdict.Event) bool {
	at := q.tail.Load()
	pl := &q.places[at&q.mask]
	if pl.turn.Load() != at+1 {
		return false
	}
	*e = pl.event
	pl.turn.Store(at + q.mask + 1)
	q.tail.Store(at + 1)
	return true
}

func (q *queue) waiting() int { return int(q.head.Load() - q.tail.Load()) }

// run calls f with each event until stop is closed and the queue is empty. The event is valid during the call.
func (q *queue) run(stop <-chan struct{}, f func(*verdict.Event)) {
	var e verdict.Event
	for {
		for q.take(&e) {
			f(&e)
		}
		q.idle.Store(true)
		if q.take(&e) { // it arrived between the last take and the flag
			q.idle.Store(false)
			f(&e)
			continue
		}
		select {
		case <-q.wake:
		case <-stop:
			for q.take(&e) {
				f(&e)
			}
			return
		}
	}
}
