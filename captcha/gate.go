package captcha

import (
	"sync"
	"time"
)

// gate bounds how many pictures and sounds are made at once and how many wait for that. Networks take turns, and when
// the queue is full the newest of the network with the most in it goes: a flood from one network delays the others by
// as many renderings as there are networks waiting, however many it asks for. Safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting int
	rows    map[uint64]*row // by network; only those in which somebody waits
	turns   []*row          // the order in which rows are served, each once

	queue int
	wait  time.Duration
}

// row is who waits of one network, the first to be served first.
type row struct {
	net     uint64
	waiters []chan bool // told true with a place, false when it had to make room
}

func newGate(places, queue int, wait time.Duration) *gate {
	return &gate{free: places, rows: map[uint64]*row{}, queue: queue, wait: wait}
}

// enter takes a place for a network, waiting for one within the limits; leave gives it back.
func (g *gate) enter(net uint64) bool {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return true
	}
	turn, ok := g.line(net)
	g.mu.Unlock()
	if !ok {
		return false
	}
	t := time.NewTimer(g.wait)
	defer t.Stop()
	select {
	case placed := <-turn:
		return placed
	case <-t.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case placed := <-turn: // in the same moment
		return placed
	default:
		g.drop(g.rows[net], turn)
		return false
	}
}

// line puts a waiter at the end of its network's row, if there is room or another row can make some.
func (g *gate) line(net uint64) (turn chan bool, ok bool) {
	r := g.rows[net]
	if g.waiting >= g.queue {
		longest := r
		for _, other := range g.turns {
			if longest == nil || len(other.waiters) > len(longest.waiters) {
				longest = other
			}
		}
		own := 0
		if r != nil {
			own = len(r.waiters)
		}
		if longest == nil || len(longest.waiters) <= own+1 {
			return nil, false
		}
		last := longest.waiters[len(longest.waiters)-1]
		g.drop(longest, last)
		last <- false
	}
	if r == nil {
		r = &row{net: net}
		g.rows[net] = r
		g.turns = append(g.turns, r)
	}
	turn = make(chan bool, 1)
	r.waiters = append(r.waiters, turn)
	g.waiting++
	return turn, true
}

// drop takes a waiter out of its row.
func (g *gate) drop(r *row, turn chan bool) {
	for i, w := range r.waiters {
		if w != turn {
			continue
		}
		r.waiters = append(r.waiters[:i], r.waiters[i+1:]...)
		g.waiting--
		break
	}
	if len(r.waiters) > 0 {
		return
	}
	delete(g.rows, r.net)
	for i := range g.turns {
		if g.turns[i] == r {
			g.turns = append(g.turns[:i], g.turns[i+1:]...)
			return
		}
	}
}

// leave gives a place back, to the network whose turn it is.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == 0 {
		g.free++
		return
	}
	r := g.turns[0]
	copy(g.turns, g.turns[1:])
	g.turns[len(g.turns)-1] = r
	turn := r.waiters[0]
	g.drop(r, turn)
	turn <- true
}
