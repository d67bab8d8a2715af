package upstream

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// queue is the requests that wait for a connection, first come first served. Rules that keep a turn from being lost:
// the first in line has looked for itself after it joined; every change wakes the first in line; who was woken and
// found a connection, or no longer needs one, wakes the next.
type queue struct {
	waiting atomic.Int64
	changes atomic.Uint64 // how often a connection was given back or ended
	mu      sync.Mutex
	line    list.List // of chan struct{}
}

// wakeWaiter follows every change that could let a waiter go on.
func (g *Group) wakeWaiter() {
	if g.cfg.MaxConns == 0 {
		return
	}
	g.queue.changes.Add(1)
	if g.queue.waiting.Load() > 0 {
		g.queue.wake()
	}
}

func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.line.Front(); e != nil {
		q.line.Remove(e)
		close(e.Value.(chan struct{}))
	}
}

func (q *queue) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.line.Front(); e != nil; e = q.line.Front() {
		q.line.Remove(e)
		close(e.Value.(chan struct{}))
	}
}

// join enters the line, at its head for one that had its turn and found nothing. The first to come has its turn at once.
func (q *queue) join(again bool) (*list.Element, chan struct{}) {
	ch := make(chan struct{})
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case again:
		return q.line.PushFront(ch), ch
	case q.line.Len() == 0:
		close(ch)
		return nil, ch
	}
	return q.line.PushBack(ch), ch
}

// leave reports whether the turn had already come.
func (q *queue) leave(e *list.Element, turn chan struct{}) (woken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-turn:
		return true
	default:
		q.line.Remove(e)
		return false
	}
}

// wait queues until a connection is to be had, at most MaxWait.
func (g *Group) wait(ctx context.Context, fresh bool) (*Conn, error) {
	q := &g.queue
	if q.waiting.Add(1) > int64(g.cfg.MaxWaiters) {
		q.waiting.Add(-1)
		g.m.busy.Inc()
		return nil, fmt.Errorf("%w: %d requests wait already", ErrBusy, g.cfg.MaxWaiters)
	}
	defer q.waiting.Add(-1)
	timeout := time.NewTimer(g.cfg.MaxWait)
	defer timeout.Stop()

	e, turn := q.join(false)
	for {
		var err error
		select {
		case <-turn:
			seen := q.changes.Load()
			c, err := g.try(ctx, fresh)
			if err != errFull {
				q.wake()
				return c, err
			}
			e, turn = q.join(true)
			if q.changes.Load() != seen {
				q.wake() // it came between the look and the line
			}
			continue
		case <-timeout.C:
			g.m.busy.Inc()
			err = fmt.Errorf("%w: no connection within %v", ErrBusy, g.cfg.MaxWait)
		case <-ctx.Done():
			err = fmt.Errorf("wait for upstream: %w", ctx.Err())
		}
		if q.leave(e, turn) {
			q.wake()
		}
		return nil, err
	}
}
