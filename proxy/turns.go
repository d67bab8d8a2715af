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

// A request is judged by what came before it, and that is known when earlier answers have begun and the slow half has judged them. Who
// asks for a whole shop at once would have it before the first page counts. So a visitor, and a network of newcomers, has a number of
// requests under way that are not judged yet. Further ones wait for their turn, and are decided again then. Nobody notices who is
// answered in time: what is known to be a part of pages, or a call of a script, takes no turn, and a page gives its own back some
// milliseconds after its answer has begun. Turns may be held, by a service that is slow or by who sends a body slowly: so some of those
// who wait go on all the same, forty a second.

const (
	turnsOfVisitor = 40                 // judged robots are banned after about as many pages
	turnsOfNetwork = 8 * turnsOfVisitor // a /24 or /48 reads as much as eight households
	turnWait       = 5 * time.Second    // nobody waits longer: a service that takes longer is read as fast as it is asked
	turnDrip       = time.Second / turnsOfVisitor
	turnPlaces     = 4096
)

// Turns counts the requests under way of each visitor that nobody has judged yet. Visitors that share a place share its turns; nobody
// can choose one. Safe for concurrent use.
type Turns struct {
	seed                 maphash.Seed
	visitors, networks   [turnPlaces]turnPlace
	apart                bool // others judge: a turn ends with the request
	ofVisitor, ofNetwork int32
}

// turnPlace is the turns of those who share it. Only those who wait take its lock.
type turnPlace struct {
	n       atomic.Int32 // who has a turn, and who went on without
	queued  atomic.Int32
	mu      sync.Mutex
	waiting []chan struct{} // in the order in which they came
	drip    time.Time       // when the last of those will have waited long enough
}

// NewTurns returns turns that end when Judged is called for the event of the request; if others judge, when the request ends.
func NewTurns(others bool) *Turns {
	return &Turns{seed: maphash.MakeSeed(), apart: others, ofVisitor: turnsOfVisitor, ofNetwork: turnsOfNetwork}
}

// Judged ends the turn of an event's request.
func (t *Turns) Judged(e *verdict.Event) { t.end(e.Turn) }

// end ends a turn: the places of the visitor and of the network, from 1.
func (t *Turns) end(turn [2]uint16) {
	if turn[0] > 0 {
		t.visitors[turn[0]-1].leave(t.ofVisitor)
	}
	if turn[1] > 0 {
		t.networks[turn[1]-1].leave(t.ofNetwork)
	}
}

// take takes a turn for a visitor; ok is false if it has to be waited for.
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

// wait waits for what take did not get. Afterwards the turn is taken in any case.
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

// network returns the place of an address's /24, or /48 of IPv6.
func (t *Turns) network(addr netip.Addr) uint64 {
	key := identity.NetKey(identity.NetOf(addr))
	return maphash.Comparable(t.seed, key) % turnPlaces
}

// busy reports whether a visitor has more turns than a browser needs.
func (t *Turns) busy(turn [2]uint16) bool {
	return turn[0] > 0 && t.visitors[turn[0]-1].n.Load() > fewUnderWay
}

// enter takes a turn if there is one.
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

// wait takes a turn as soon as there is one, or goes on without, at that time at the latest.
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

// leave gives a turn back.
func (p *turnPlace) leave(most int32) {
	p.n.Add(-1)
	if p.queued.Load() == 0 { // who queues looks for a turn afterwards, so one of the two sees the other
		return
	}
	p.mu.Lock()
	p.next(most)
	p.mu.Unlock()
}

// next gives the turns that there are to those who wait. It is called with the lock.
func (p *turnPlace) next(most int32) {
	for len(p.waiting) > 0 && p.enter(most) {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.queued.Add(-1)
	}
}

// await gives a request that would go on its turn. If it had to wait, it is decided again.
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
	if spared := j.core.deps.Spared; spared != nil && spared(j.id.Addr) || j.core.deps.Decider.NoDocument(j.view, j.svc.Verdict) {
		j.endTurn()
		return
	}
	if !ok {
		j.core.metrics.waited.Inc()
		t.wait(&j.turn, who, j.id.Addr)
		j.Decide()
	}
}

// endTurn ends the turn of a request that nobody judges, or that need not be waited for.
func (c *Case) endTurn() {
	if c.turn != ([2]uint16{}) {
		c.core.deps.Turns.end(c.turn)
		c.turn = [2]uint16{}
	}
}
