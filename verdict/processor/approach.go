package processor

import (
	"sync/atomic"
	"unsafe"

	"antirobot/identity"
	"antirobot/verdict"
)

// An event touches a dozen records of its subject, its address and its network, in tables that are much larger than a processor's caches. Looked up
// one after another, each under its lock, they are waited for one after another: first for the place in the index, then for the record. So before an
// event is judged all of them are approached: the processor is told to fetch the places, and then the records, and waits for them at the same time.
// Nothing is read that the judgement depends on, so no lock is taken.

// cached is how many records a table has that stay in the caches by themselves.
const cached = 1 << 14

// layout is where a shard's index and its chunks are. It is immutable; the index's entries are not.
type layout[K comparable, R any] struct {
	index  []uint32
	chunks [][]slot[K, R]
}

// show tells approach where everything is. The caller holds the lock.
func (sh *tableShard[K, R]) show() {
	sh.seen.Store(&layout[K, R]{index: sh.index, chunks: sh.chunks})
}

// approached is a record that is being approached.
type approached[K comparable, R any] struct {
	of   *layout[K, R] // nil: none is
	hash uint64
	sh   *tableShard[K, R]
}

// approach fetches the place of a key in the index of a large table.
func (t *table[K, R]) approach(k K) (x approached[K, R]) {
	if t.live.Load() < cached {
		return x
	}
	x.hash = t.hash(k)
	x.sh = &t.shards[x.hash%tableShards]
	if x.of = x.sh.seen.Load(); x.of == nil || len(x.of.index) == 0 {
		return approached[K, R]{}
	}
	prefetch(unsafe.Pointer(&x.of.index[x.hash>>6&uint64(len(x.of.index)-1)]), 1)
	return x
}

// fetch fetches the record, as far as the index says where it is: if another one has the same hash, it is that.
func (x *approached[K, R]) fetch() {
	if x.of == nil {
		return
	}
	number, mask, like := x.sh.number, uint64(len(x.of.index)-1), x.sh.like(x.hash)
	for at, away := x.hash>>6&mask, uint32(0); ; at, away = (at+1)&mask, min(away+1, far) {
		i := atomic.LoadUint32(&x.of.index[at])
		if i == 0 {
			return
		}
		if i&^number != like+away*(number+1) {
			continue
		}
		if n := i&number - 1; int(n/tableChunk) < len(x.of.chunks) {
			s := &x.of.chunks[n/tableChunk][n%tableChunk]
			prefetch(unsafe.Pointer(s), unsafe.Sizeof(*s))
		}
		return
	}
}

// fetchHand fetches what is looked at when other records have to make room: the place in the index of the record that is the first to go, which was
// fetched before the last one went, and the record after it. The caller holds the lock.
func (t *table[K, R]) fetchHand(sh *tableShard[K, R]) {
	next := sh.hand + 1
	if next == sh.used {
		next = 0
	}
	s := sh.at(next)
	prefetch(unsafe.Pointer(s), unsafe.Sizeof(*s))
	prefetch(unsafe.Pointer(&sh.index[t.hash(sh.at(sh.hand).key)>>6&uint64(len(sh.index)-1)]), 1)
}

// approach fetches what the judgement of an event will look at.
func (p *Processor) approach(e *verdict.Event, r *rates) {
	if p.sessions.live.Load() < cached {
		return
	}
	sub, addr := e.Subjects[0], e.Subjects[e.N-1]
	home := identity.HouseholdOf(addr.ID, r.Group)
	session, trail := p.sessions.approach(sub), p.trails.approach(sub)
	budget := p.budgets.approach(home)
	home.Group = voiceGroup
	voice := p.voices.approach(home)
	network := p.groups.approach(groupKey{role: roleNetwork, id: identity.NetworkOf(addr.ID)})
	pace := p.paces.approach(paceKey{role: roleSubject, kind: sub.Kind, service: e.Service, id: sub.ID})
	budget.fetch()
	if e.N > 1 {
		crowd := p.groups.approach(groupKey{role: roleCrowd, id: addr.ID})
		crowdPace := p.paces.approach(paceKey{role: roleCrowd, service: e.Service, id: addr.ID})
		session.fetch()
		crowd.fetch()
		crowdPace.fetch()
	} else {
		session.fetch()
	}
	voice.fetch()
	network.fetch()
	trail.fetch()
	pace.fetch()
}
