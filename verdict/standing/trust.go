package standing

import (
	"time"

	"antirobot/identity"
)

// Trust records that a subject has read since an earlier day, by now at an address, and nothing speaks against it. One that is established
// is proven by that. Any other is trusted if it has read as the site's people read, with the parts of its pages:
// a ban on the address does not stop it, even if the address has established as many as it may.
func (t *Table) Trust(s identity.Subject, addr [16]byte, since, at time.Time, parts bool) {
	sh, day := t.shard(s), dayOf(at)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, known := sh.m[s]
	if first := dayOf(since); !known || first < e.since {
		e.since = first
	}
	switch {
	case e.trusted || e.proven || e.since >= day:
		return
	case e.established:
		t.count(e.home, change{proven: 1})
		e.proven, e.last = true, max(e.last, day)
		t.put(sh, s, &e)
		return
	case !parts || !t.count(addr, change{trusted: 1}):
		return
	}
	switch {
	case known:
		t.count(e.home, change{candidates: -1})
	case t.n.Load() >= t.max && !t.pushOut(sh):
		t.count(addr, change{trusted: -1})
		t.refused.Add(1)
		return
	default:
		t.n.Add(1)
	}
	e.home, e.trusted, e.last = addr, true, max(e.last, day)
	if e.first == 0 {
		e.first = day
	}
	t.put(sh, s, &e)
}

// TrustedAt returns how many subjects of the address are trusted, and have no place among the established.
func (t *Table) TrustedAt(addr [16]byte) int {
	return int(t.countAt(addr).trusted)
}

// Proven reports whether a subject has read for longer, with nothing against it: it is asked for nothing that others of its address read.
func (t *Table) Proven(s identity.Subject) bool {
	sh := t.shard(s)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	e := sh.m[s]
	return e.trusted || e.proven
}

// Company returns how many subjects of the address of one that counts (Counts) were first seen there before today, and have not read for long, with
// those that are lost: 1 where more have read for longer, since it may well be one of these; 0 if it has read for longer itself, or does not count.
func (t *Table) Company(s identity.Subject, at time.Time) int {
	sh := t.shard(s)
	sh.mu.RLock()
	e, known := sh.m[s]
	sh.mu.RUnlock()
	day := dayOf(at)
	if !known || e.trusted || e.proven || !e.established && e.since >= day {
		return 0
	}
	n := t.countAt(e.home)
	if !e.established && !n.proves(day, t.perAddress) {
		return 0
	}
	like := n.waiting(day) + int(n.established) - int(n.proven) + n.lostOn(day)
	if like <= int(n.trusted)+int(n.proven) {
		return 1
	}
	return max(like, 1)
}

// ProvenAt returns how many subjects of the address have read for longer, with nothing against them.
func (t *Table) ProvenAt(addr [16]byte) int {
	n := t.countAt(addr)
	return int(n.trusted) + int(n.proven)
}
