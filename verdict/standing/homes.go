package standing

import (
	"sync"
	"time"

	"antirobot/identity"
)

// homeShard is a part of the table of addresses that subjects are counted for.
type homeShard struct {
	mu sync.RWMutex
	m  map[[16]byte]homeCount
	_  [32]byte
}

// homeCount is how many subjects an address has: candidates, established ones, and others that are trusted. Those candidates are fresh
// that were first seen on the given day. Lost are those whose standing a ban has taken away; half of them are forgotten each day. Proven
// are those of the established who have read for longer.
type homeCount struct{ candidates, established, trusted, fresh, day, lost, lostDay, proven uint16 }

// lostOn returns how many are lost as of a day.
func (n *homeCount) lostOn(day uint16) int {
	if day <= n.lostDay {
		return int(n.lost)
	}
	return int(n.lost >> min(day-n.lostDay, 15))
}

// proves reports whether one page of an earlier day says on a day that somebody of the address is a person: unless too many wait there, with
// those who waited until they were banned, or more have turned out to be robots.
func (n *homeCount) proves(day uint16, perAddress int) bool {
	return int(n.candidates)+n.lostOn(day) <= perAddress && !n.robots(day)
}

// robots reports whether most of those who were seen at the address, lately or for long, have turned out to be robots.
func (n *homeCount) robots(day uint16) bool {
	return n.lostOn(day) > int(n.candidates)+int(n.established)+int(n.trusted)
}

// countAt returns how many subjects the address has at this moment.
func (t *Table) countAt(addr [16]byte) homeCount {
	h := t.home(addr)
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.m[addr]
}

// lose notes that so many subjects of an address are lost.
func (t *Table) lose(addr [16]byte, by int, day uint16) {
	h := t.home(addr)
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.m[addr]
	n.lost = uint16(min(n.lostOn(day)+by, t.perAddress*candidatesPerPlace)) //nolint:gosec // at most 8 times perAddress
	n.lostDay = max(n.lostDay, day)
	h.m[addr] = n
}

// Ban takes the standing away of a subject that is banned.
func (t *Table) Ban(s identity.Subject, at time.Time) {
	sh := t.shard(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, known := sh.m[s]; known {
		t.lose(e.home, 1, dayOf(at))
		t.drop(sh, s)
	}
}

// ReturnedAt returns how many subjects of the address are established, or count because they were seen on an earlier day; see
// Counts.
func (t *Table) ReturnedAt(addr [16]byte, at time.Time) int {
	n := t.countAt(addr)
	count := int(n.established) + int(n.trusted)
	if n.proves(dayOf(at), t.perAddress) {
		count += n.waiting(dayOf(at))
	}
	return count
}

// waiting returns how many candidates were first seen before a day.
func (n *homeCount) waiting(day uint16) int {
	if n.day != day {
		return int(n.candidates)
	}
	return max(int(n.candidates)-int(n.fresh), 0)
}

// freshAt notes that a candidate of an address was first seen on a day. Of earlier days than the last nothing is kept.
func (t *Table) freshAt(addr [16]byte, day uint16) {
	h := t.home(addr)
	h.mu.Lock()
	defer h.mu.Unlock()
	n, known := h.m[addr]
	if !known || day < n.day {
		return
	}
	if n.day != day {
		n.day, n.fresh = day, 0
	}
	n.fresh++
	h.m[addr] = n
}

// sweep drops addresses that have nobody and have lost nobody lately.
func (h *homeShard) sweep(day uint16) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a, n := range h.m {
		if n.candidates+n.established+n.trusted == 0 && n.lostOn(day) == 0 {
			delete(h.m, a)
		}
	}
}

// change is what becomes of the numbers of an address.
type change struct{ candidates, established, trusted, proven int }

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// counted is a change by so many subjects of this tenure.
func (e *tenure) counted(by int) change {
	switch {
	case e.established:
		return change{established: by, proven: by * one(e.proven)}
	case e.trusted:
		return change{trusted: by}
	}
	return change{candidates: by}
}
