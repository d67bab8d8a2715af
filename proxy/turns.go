package proxy

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
)

// A request is judged by earlier ones, which are known once their answers have begun and the processor has judged them.
// A client that requests a whole shop at once would have it before the first page counts. So the unjudged requests in
// flight of a visitor, and of a network of unknown visitors, are limited. Further ones wait for a slot, and are decided
// again. Subresources and script calls need no slot, and a page frees its own milliseconds after its answer begins. A
// slow service or a slow upload may hold slots, so waiting requests also proceed at forty a second.

const (
	turnsOfVisitor = 40                 // judged robots are banned after about as many pages
	turnsOfNetwork = 8 * turnsOfVisitor // a /24 or /48 reads as much as eight households
	turnWait       = 5 * time.Second    // a slower service is not protected
	turnDrip       = time.Second / turnsOfVisitor
	turnPlaces     = 4096
)

// Turns counts the unjudged requests in flight of each visitor. Visitors that collide share their slots; the hash is
// seeded. Safe for concurrent use.
type Turns struct {
	seed                 maphash.Seed
	visitors, networks   [turnPlaces]turnPlace
	apart                bool // a slot ends with the request: another process judges
	ofVisitor, ofNetwork int32
}

// turnPlace is one counter. Only waiting requests take its lock.
type turnPlace struct {
	n       atomic.Int32 // slots in use, and requests that proceeded without
	queued  atomic.Int32
	mu      sync.Mutex
	waiting []chan struct{} // in order of arrival
	drip    time.Time       // when the last of those proceeds
}

// NewTurns returns Turns whose slots end when Judged is called; with others, when the request ends.
func NewTurns(others bool) *Turns {
	return &Turns{seed: maphash.MakeSeed(), apart: others, ofVisitor: turnsOfVisitor, ofNetwork: turnsOfNetwork}
}

// Judged ends the slot of an event's request.
func (t *Turns) Judged(e *verdict.Event) { t.end(e.Turn) }

func (t *Turns) end(turn [2]uint16) {
	if turn[0] > 0 {
		t.visitors[turn[0]-1].leave(t.ofVisitor)
	}
	if turn[1] > 0 {
		t.networks[turn[1]-1].leave(t.ofNetwork)
	}
}

// take takes the slots of a visitor; false: it has to wait.
func (t *Turns) take(turn *[2]uint16, who identity.Subject, addr netip.Addr) (ok bool) {
	place := maphash.Bytes(t.seed, who.ID[:]) % turnPlaces
	if !t.visitors[place].enter(t.ofVisitor) {
		return false
	}
	turn[0] = uint16(place + 1)
	if who.Kind != identity.KindIP {
		return true
	}
	place = t.network(addr)
	if !t.networks[place].enter(t.ofNetwork) {
		return false
	}
	turn[1] = uint16(place + 1)
	return true
}

// wait waits for slots that take did not get, and then holds them in any case.
func (t *Turns) wait(turn *[2]uint16, who identity.Subject, addr netip.Addr) {
	until := time.Now().Add(turnWait)
	if turn[0] == 0 {
		place := maphash.Bytes(t.seed, who.ID[:]) % turnPlaces
		t.visitors[place].wait(t.ofVisitor, until)
		turn[0] = uint16(place + 1)
	}
	if turn[1] == 0 && who.Kind == identity.KindIP {
		place := t.network(addr)
		t.networks[place].wait(t.ofNetwork, until)
		turn[1] = uint16(place + 1)
	}
}

func (t *Turns) network(addr netip.Addr) uint64 {
	key := identity.NetKey(identity.NetOf(addr))
	return maphash.Comparable(t.seed, key) % turnPlaces
}

// busy reports whether a visitor uses more slots than a browser needs.
func (t *Turns) busy(turn [2]uint16) bool {
	return turn[0] > 0 && t.visitors[turn[0]-1].n.Load() > fewUnderWay
}

func (p *turnPlace) enter(most int32) bool {
	for {
		n := p.n.Load()
		if n >= most {
			return false
		}
		if p.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// wait waits for a slot, or proceeds without when the time is up.
func (p *turnPlace) wait(most int32, until time.Time) {
	p.mu.Lock()
	now, turn := time.Now(), make(chan struct{})
	if len(p.waiting) == 0 || p.drip.Before(now) {
		p.drip = now
	}
	p.drip = p.drip.Add(turnDrip)
	timer := time.NewTimer(min(p.drip.Sub(now), until.Sub(now)))
	defer timer.Stop()
	p.waiting = append(p.waiting, turn)
	p.queued.Add(1)
	p.next(most)
	p.mu.Unlock()
	select {
	case <-turn:
		return
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, turn); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.queued.Add(-1)
		p.n.Add(1)
	}
}

func (p *turnPlace) leave(most int32) {
	p.n.Add(-1)
	if p.queued.Load() == 0 { // a waiter tries to enter after it increments queued, so one of the two sees the other
		return
	}
	p.mu.Lock()
	p.next(most)
	p.mu.Unlock()
}

// next admits waiting requests while there are slots. The caller holds the lock.
func (p *turnPlace) next(most int32) {
	for len(p.waiting) > 0 && p.enter(most) {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.queued.Add(-1)
	}
}

// await gives a request that would pass a slot. If it had to wait, it is decided again.
func (j *journey) await() {
	t, d := j.core.deps.Turns, &j.decision
	if t == nil || d.Mode != verdict.Enforce || d.Paid || j.partner != nil || !d.Judged() || j.Stopped() {
		return
	}
	who := j.id.Winner()
	ok := t.take(&j.turn, who, j.id.Addr)
	if ok && !t.busy(j.turn) {
		return
	}
	if spared := j.core.deps.Spared; spared != nil && spared(j.id.Addr) ||
		j.core.deps.Decider.NoDocument(j.view, j.svc.Verdict) {
		j.endTurn()
		return
	}
	if !ok {
		j.core.metrics.waited.Inc()
		t.wait(&j.turn, who, j.id.Addr)
		j.Decide()
	}
}

func (c *Case) endTurn() {
	if c.turn != ([2]uint16{}) {
		c.core.deps.Turns.end(c.turn)
		c.turn = [2]uint16{}
	}
}
