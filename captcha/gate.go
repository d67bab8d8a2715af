package captcha

import (
	"sync"
	"time"
)

// gate bounds how many pictures and sounds are rendered at once and how many requests wait for that. Networks take turns.
// When the queue is full, the newest waiter of the network with the most waiters is dropped: however much one network asks
// for, a flood from it delays the others only by as many renderings as there are waiting networks. Safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting int
	rows    map[uint64]*row // by network; only networks with waiters
	turns   []*row          // the order in which rows are served, each row once

	queue int
	wait  time.Duration
}

// row is the waiters of one network, in the order in which they are served.
type row struct {
	net     uint64
	waiters []chan bool // receives true with a place, false if dropped to make room
}

func newGate(places, queue int, wait time.Duration) *gate {
	return &gate{free: places, rows: map[uint64]*row{}, queue: queue, wait: wait}
}

// enter takes a place for a network, waiting for one within the limits; leave returns it.
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
	case placed := <-turn: // at the same moment
		return placed
	default:
		g.drop(g.rows[net], turn)
		return false
	}
}

// line adds a waiter at the end of its network's row, if there is room or another row can make some.
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

// drop removes a waiter from its row.
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

// leave returns a place, to the network whose turn it is.
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
