package proxy

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/verdict"
)

// A request is judged by earlier ones, which are known once their answers have begun and the processor has judged them.
// A client that requests a whole shop at once would have it before the first page counts. So the unjudged requests in
// flight of a visitor, and of a network of unknown visitors, are limited. Further ones wait for a slot, and are decided
// again. Subresources and script calls need no slot, and a page frees its own milliseconds after its answer begins. A
// slow service or a slow upload may hold slots, so waiting requests also proceed at forty a second.

const (
	inFlightOfVisitor = 40                    // judged robots are banned after about as many pages
	inFlightOfNetwork = 8 * inFlightOfVisitor // a /24 or /48 reads as much as eight households
	slotWait          = 5 * time.Second       // a slower service is not protected
	slotDrip          = time.Second / inFlightOfVisitor
	inFlightPlaces    = 4096
)

// InFlight counts the unjudged requests in flight of each visitor. Visitors that collide share their slots; the hash is
// seeded. Safe for concurrent use.
type InFlight struct {
	seed                 maphash.Seed
	visitors, networks   [inFlightPlaces]inFlightCount
	apart                bool // a slot ends with the request: another process judges
	ofVisitor, ofNetwork int32
}

// inFlightCount is one counter. Only waiting requests take its lock.
type inFlightCount struct {
	n       atomic.Int32 // slots in use, and requests that proceeded without
	queued  atomic.Int32
	mu      sync.Mutex
	waiting []chan struct{} // in order of arrival
	drip    time.Time       // when the last of those proceeds
}

// NewInFlight returns InFlight whose slots end when Judged is called; with others, when the request ends.
func NewInFlight(others bool) *InFlight {
	return &InFlight{
		seed: maphash.MakeSeed(), apart: others, ofVisitor: inFlightOfVisitor,
		ofNetwork: inFlightOfNetwork,
	}
}

// Judged ends the slot of an event's request.
func (t *InFlight) Judged(e *verdict.Event) { t.end(e.Turn) }

func (t *InFlight) end(slot [2]uint16) {
	if slot[0] > 0 {
		t.visitors[slot[0]-1].leave(t.ofVisitor)
	}
	if slot[1] > 0 {
		t.networks[slot[1]-1].leave(t.ofNetwork)
	}
}

// take takes the slots of a visitor; false: it has to wait.
func (t *InFlight) take(slot *[2]uint16, who identity.Subject, addr netip.Addr) (ok bool) {
	place := maphash.Bytes(t.seed, who.ID[:]) % inFlightPlaces
	if !t.visitors[place].enter(t.ofVisitor) {
		return false
	}
	slot[0] = uint16(place + 1)
	if who.Kind != identity.KindIP {
		return true
	}
	place = t.network(addr)
	if !t.networks[place].enter(t.ofNetwork) {
		return false
	}
	slot[1] = uint16(place + 1)
	return true
}

// wait waits for slots that take did not get, and then holds them in any case.
func (t *InFlight) wait(slot *[2]uint16, who identity.Subject, addr netip.Addr) {
	until := time.Now().Add(slotWait)
	if slot[0] == 0 {
		place := maphash.Bytes(t.seed, who.ID[:]) % inFlightPlaces
		t.visitors[place].wait(t.ofVisitor, until)
		slot[0] = uint16(place + 1)
	}
	if slot[1] == 0 && who.Kind == identity.KindIP {
		place := t.network(addr)
		t.networks[place].wait(t.ofNetwork, until)
		slot[1] = uint16(place + 1)
	}
}

func (t *InFlight) network(addr netip.Addr) uint64 {
	key := identity.NetKey(identity.NetOf(addr))
	return maphash.Comparable(t.seed, key) % inFlightPlaces
}

// busy reports whether a visitor uses more slots than a browser needs.
func (t *InFlight) busy(slot [2]uint16) bool {
	return slot[0] > 0 && t.visitors[slot[0]-1].n.Load() > fewInFlight
}

func (p *inFlightCount) enter(most int32) bool {
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
func (p *inFlightCount) wait(most int32, until time.Time) {
	p.mu.Lock()
	now, slot := time.Now(), make(chan struct{})
	if len(p.waiting) == 0 || p.drip.Before(now) {
		p.drip = now
	}
	p.drip = p.drip.Add(slotDrip)
	timer := time.NewTimer(min(p.drip.Sub(now), until.Sub(now)))
	defer timer.Stop()
	p.waiting = append(p.waiting, slot)
	p.queued.Add(1)
	p.next(most)
	p.mu.Unlock()
	select {
	case <-slot:
		return
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, slot); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.queued.Add(-1)
		p.n.Add(1)
	}
}

func (p *inFlightCount) leave(most int32) {
	p.n.Add(-1)
	if p.queued.Load() == 0 { // a waiter tries to enter after it increments queued, so one of the two sees the other
		return
	}
	p.mu.Lock()
	p.next(most)
	p.mu.Unlock()
}

// next admits waiting requests while there are slots. The caller holds the lock.
func (p *inFlightCount) next(most int32) {
	for len(p.waiting) > 0 && p.enter(most) {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.queued.Add(-1)
	}
}

// await gives a request that would pass a slot. If it had to wait, it is decided again.
func (j *journey) await() {
	t, d := j.core.deps.InFlight, &j.decision
	if t == nil || d.Mode != verdict.Enforce || d.Paid || j.partner != nil || !d.Judged() || j.Stopped() {
		return
	}
	who := j.id.Winner()
	ok := t.take(&j.slots, who, j.id.Addr)
	if ok && !t.busy(j.slots) {
		return
	}
	if exempt := j.core.deps.Exempt; exempt != nil && exempt(j.id.Addr) ||
		j.core.deps.Decider.NoDocument(j.view, j.svc.Verdict) {
		j.freeSlots()
		return
	}
	if !ok {
		j.core.metrics.waited.Inc()
		t.wait(&j.slots, who, j.id.Addr)
		j.Decide()
	}
}

func (c *Case) freeSlots() {
	if c.slots != ([2]uint16{}) {
		c.core.deps.InFlight.end(c.slots)
		c.slots = [2]uint16{}
	}
}

// An event is offered when its answer has ended, which clients can delay by flow control or slow reading: any number of
// pages would be read before the first counts. So once a network has several pages in flight, further events are
// offered when answers begin.

const (
	fewInFlight         = 8 // of a network; browsers have one or two
	pagesInFlightPlaces = 4096
)

// pagesInFlight counts the pages in flight of each network. Networks that collide only report sooner. Safe for
// concurrent use; the zero value is ready.
type pagesInFlight struct {
	places [pagesInFlightPlaces]struct {
		n atomic.Int32
		_ [60]byte // a cache line each
	}
}

// of returns the count of a /24, or /32 of IPv6.
func (u *pagesInFlight) of(addr netip.Addr) *atomic.Int32 {
	a := addr.As16()
	network := a[:4]
	if addr.Unmap().Is4() {
		network = a[12:15]
	}
	return &u.places[request.Hash(network)%pagesInFlightPlaces].n
}

// begun counts a page whose answer begins, and offers the event if others of its network are in flight.
func (j *journey) begun(r h1.Result) {
	j.servedPage(r)
	j.core.pages.note(j.svc.Name, j.view, r.Status, r.ContentType)
	if !j.relay.resent && j.partner == nil {
		j.core.deps.Resolver.Answered(j.view, j.svc.Identity, r.Status, j.svc.drop)
	}
	if verdict.IsPart(r.ContentType) || r.Upgraded {
		j.freeSlots()
		return
	}
	j.under = j.core.pagesInFlight.of(j.id.Addr)
	if j.under.Add(1) <= fewInFlight && !(j.core.deps.InFlight != nil && j.core.deps.InFlight.busy(j.slots)) {
		return
	}
	j.status, j.result = r.Status, r
	j.result.BytesOut = max(r.Length, 0)
	j.reporter.tell(time.Since(j.view.At))
	j.early = true
}

func (j *journey) ended(took time.Duration) {
	j.arrived()
	if !j.early {
		j.reporter.tell(took)
	}
}

func (j *journey) arrived() {
	if j.under != nil {
		j.under.Add(-1)
		j.under = nil
	}
}

// Programs that identify themselves (webhooks, package managers, tools) are judged by what they read, not by their
// pace: a webhook sender with a backlog is no robot. The rates below are far above the needs of tools, and no load for
// most services. Operators who want others set `throttle` in a rule, limit at the balancer, or allow-list the client.
const (
	programRate     = 200 // requests a second of one client
	programBurst    = 30 * programRate
	programNetwork  = 4       // times as many of a /24 or /48
	programsTracked = 1 << 14 // clients, and networks
)

// Preflights of a stopped client reach the service, at the rate of open pages.
const (
	preflightEvery = time.Second / 2
	preflightBurst = 120
)

// programs limits programs, and preflights of stopped clients. Safe for concurrent use.
type programs struct{ clients, networks, preflights *bounded.Rate }

func newPrograms() programs {
	pace := func(times int) *bounded.Rate {
		return bounded.NewRate(time.Second/time.Duration(times*programRate), times*programBurst, programsTracked)
	}
	return programs{
		clients: pace(1), networks: pace(programNetwork),
		preflights: bounded.NewRate(preflightEvery, preflightBurst, programsTracked),
	}
}

// limit stops a request that would pass if the program asks, or the visitor writes, too often. With watch nothing is
// counted.
func (p *programs) limit(c *Case, watch bool) {
	d := &c.decision
	if d.Verdict != verdict.Human || !d.Judged() || d.Waived == verdict.WaivedWellKnown || c.id.N == 0 || c.id.Partner {
		return
	}
	program := d.Program(c.view, &c.id)
	if !program && !verdict.Writes(c.view.Method) {
		return
	}
	if exempt := c.core.deps.Exempt; exempt != nil && exempt(c.id.Addr) {
		return
	}
	at := c.view.At
	var who [17]byte // a browser and a program of an address count separately
	copy(who[1:], c.id.Subjects[0].ID[:])
	if program {
		who[0] = 1
	}
	client, network := p.clients.Key(who[:]), p.networks.AddrKey(identity.NetOf(c.id.Addr).Addr(), 0)
	take := taking(watch)
	wait := take(p.clients, client, at)
	if wait == 0 { // the network does not pay for refused requests
		wait = take(p.networks, network, at)
	}
	if wait > 0 {
		d.Limit(wait)
	}
}

func taking(watch bool) func(*bounded.Rate, uint64, time.Time) time.Duration {
	if watch {
		return (*bounded.Rate).Peek
	}
	return (*bounded.Rate).Take
}

func (p *programs) limitPreflight(c *Case, watch bool) {
	if c.decision.Stops() && c.decision.Verdict != verdict.Blocked && c.kind() == kindPreflight {
		c.flood = taking(watch)(p.preflights, p.preflights.AddrKey(c.id.Addr, 0), c.view.At) > 0
	}
}
