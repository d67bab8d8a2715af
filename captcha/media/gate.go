package media

import (
	"sync"
	"time"
)

// gate bounds how many media are rendered at once and how many requests wait. Pictures and sounds take turns, and so
// do networks in either line. A full line drops the newest waiter of the network with the most waiters, so a network's
// flood delays others only by as many renderings as there are waiting networks. Safe for concurrent use.
type gate struct {
	mu    sync.Mutex
	free  int
	lines [Count]line
	last  Medium // whose turn it was

	queue int // waiters in a line
	wait  time.Duration
}

// line is the waiters for a medium.
type line struct {
	waiting int
	rows    map[uint64]*row // by network; only networks with waiters
	turns   []*row          // the order in which rows are served, each row once
	until   time.Time       // it is crowded until then
}

// row is the waiters of one network, in the order in which they are served.
type row struct {
	net     uint64
	waiters []chan bool // receives true with a place, false if dropped to make room
}

func newGate(places, queue int, wait time.Duration) *gate {
	g := &gate{free: places, queue: queue, wait: wait}
	for m := range g.lines {
		g.lines[m].rows = map[uint64]*row{}
	}
	return g
}

// enter takes a place for a network, and reports whether there was one in time; leave returns it.
func (g *gate) enter(m Medium, net uint64) bool {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return true
	}
	l := &g.lines[m]
	turn, ok := l.join(net, g.queue)
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
		l.drop(l.rows[net], turn)
		return false
	}
}

// A line is crowded once an eighth of its room is taken, and for a while after: requests with older keys are still to
// come.
const (
	crowdedAt  = 8
	crowdedFor = 3 * time.Second
)

// crowded reports whether a new request for a medium may wait in vain.
func (g *gate) crowded(m Medium) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.lines[m].until)
}

// join adds a waiter to its network's row, if there is room or another row can make room.
func (l *line) join(net uint64, most int) (turn chan bool, ok bool) {
	r := l.rows[net]
	if l.waiting >= most/crowdedAt {
		l.until = time.Now().Add(crowdedFor)
	}
	if l.waiting >= most {
		longest := r
		for _, other := range l.turns {
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
		l.drop(longest, last)
		last <- false
	}
	if r == nil {
		r = &row{net: net}
		l.rows[net] = r
		l.turns = append(l.turns, r)
	}
	turn = make(chan bool, 1)
	r.waiters = append(r.waiters, turn)
	l.waiting++
	return turn, true
}

func (l *line) drop(r *row, turn chan bool) {
	for i, w := range r.waiters {
		if w != turn {
			continue
		}
		r.waiters = append(r.waiters[:i], r.waiters[i+1:]...)
		l.waiting--
		break
	}
	if len(r.waiters) > 0 {
		return
	}
	delete(l.rows, r.net)
	for i := range l.turns {
		if l.turns[i] == r {
			l.turns = append(l.turns[:i], l.turns[i+1:]...)
			return
		}
	}
}

// leave returns a place, which goes to the next medium and network in turn.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range g.lines {
		g.last = (g.last + 1) % Count
		if l := &g.lines[g.last]; l.waiting > 0 {
			l.serve()
			return
		}
	}
	g.free++
}

// serve gives a place to the next row's first waiter.
func (l *line) serve() {
	r := l.turns[0]
	copy(l.turns, l.turns[1:])
	l.turns[len(l.turns)-1] = r
	turn := r.waiters[0]
	l.drop(r, turn)
	turn <- true
}
