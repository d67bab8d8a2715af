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
