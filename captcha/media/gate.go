package media

import (
	"slices"
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

// line holds the waiters for a medium, in the order in which they came. Each network has one waiter in a round, and
// rounds are served in order.
type line struct {
	waiters []*waiter
	round   int       // of the last one that was served
	until   time.Time // the line is crowded until then
}

type waiter struct {
	net    uint64
	round  int
	placed chan bool // receives true with a place, false if dropped to make room
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
	w := l.join(net, g.queue)
	g.mu.Unlock()
	if w == nil {
		return false
	}
	t := time.NewTimer(g.wait)
	defer t.Stop()
	select {
	case placed := <-w.placed:
		return placed
	case <-t.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.drop(w) { // placed or dropped at the same moment
		return <-w.placed
	}
	return false
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

// join adds a waiter, or returns nil if the line is full and no network has more waiters than this one.
func (l *line) join(net uint64, most int) *waiter {
	if len(l.waiters) >= most/crowdedAt {
		l.until = time.Now().Add(crowdedFor)
	}
	w := &waiter{net: net, round: l.round, placed: make(chan bool, 1)}
	waiting := map[uint64]int{net: 1}
	for _, o := range l.waiters {
		waiting[o.net]++
		if o.net == net {
			w.round = max(w.round, o.round+1)
		}
	}
	if len(l.waiters) >= most {
		out := w
		for _, o := range l.waiters {
			if waiting[o.net] > waiting[out.net] || out != w && o.net == out.net {
				out = o
			}
		}
		if out == w {
			return nil
		}
		l.drop(out)
		out.placed <- false
	}
	l.waiters = append(l.waiters, w)
	return w
}

// drop removes a waiter, and reports whether it was still waiting.
func (l *line) drop(w *waiter) bool {
	i := slices.Index(l.waiters, w)
	if i < 0 {
		return false
	}
	l.waiters = slices.Delete(l.waiters, i, i+1)
	return true
}

// leave returns a place, which goes to the next medium and network in turn.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range g.lines {
		g.last = (g.last + 1) % Count
		if l := &g.lines[g.last]; len(l.waiters) > 0 {
			next := slices.MinFunc(l.waiters, func(a, b *waiter) int { return a.round - b.round })
			l.round = next.round
			l.drop(next)
			next.placed <- true
			return
		}
	}
	g.free++
}
