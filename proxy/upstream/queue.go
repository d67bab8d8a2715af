package upstream

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// queue holds requests that wait for a connection, first come, first served. Only the first tries; a signal during its
// try makes it try again, so that none is lost.
type queue struct {
	waiting atomic.Int64
	mu      sync.Mutex
	line    list.List // of chan struct{}, buffered: a signal
}

// Waiting returns how many requests wait for a connection.
func (g *Group) Waiting() int64 { return g.queue.waiting.Load() }

func (g *Group) wakeWaiter() {
	if g.queue.waiting.Load() > 0 {
		g.queue.mu.Lock()
		g.queue.wakeFirst()
		g.queue.mu.Unlock()
	}
}

// wakeFirst requires mu.
func (q *queue) wakeFirst() {
	if e := q.line.Front(); e != nil {
		wake(e)
	}
}

func wake(e *list.Element) {
	select {
	case e.Value.(chan struct{}) <- struct{}{}:
	default: // it tries anyway
	}
}

func (q *queue) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.line.Front(); e != nil; e = e.Next() {
		wake(e)
	}
}

// join enters the line; the first tries at once.
func (q *queue) join() (*list.Element, <-chan struct{}) {
	look := make(chan struct{}, 1)
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.line.PushBack(look)
	if q.line.Front() == e {
		wake(e)
	}
	return e, look
}

func (q *queue) leave(e *list.Element) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.line.Remove(e)
	q.wakeFirst()
}

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

	e, look := q.join()
	defer q.leave(e)
	for {
		select {
		case <-look:
			if c, err := g.try(ctx, fresh); !errors.Is(err, errFull) {
				return c, err
			}
		case <-timeout.C:
			g.m.busy.Inc()
			return nil, fmt.Errorf("%w: no connection within %v", ErrBusy, g.cfg.MaxWait)
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for upstream: %w", ctx.Err())
		}
	}
}
