package ledger

import (
	"time"

	"antirobot/spravka"
)

// Policy is what a service does when evidence is missing because the store is away.
type Policy uint8

// The policies.
const (
	Open   Policy = iota // carry on with local state
	Closed               // a pass that can't be accounted for does not pay
)

func (p Policy) String() string {
	if p == Closed {
		return "closed"
	}
	return "open"
}

// ParsePolicy reads what String writes.
func ParsePolicy(s string) (Policy, bool) {
	switch s {
	case "open":
		return Open, true
	case "closed":
		return Closed, true
	}
	return 0, false
}

// Payment is the answer to a bill.
type Payment struct {
	OK       bool
	Left     uint32 // what this node believes to be left afterwards
	Degraded bool   // decided without the store
}

// decide computes the answer for an account, and says whether a lease should be requested.
func (l *Ledger) decide(a *account, cost uint32, at time.Time, failing bool, policy Policy) (pay Payment, ask bool) {
	pay.Degraded = failing
	if failing && policy == Closed {
		return pay, false
	}
	within := uint64(a.spent)+uint64(cost) <= uint64(a.limit)
	if !l.shared {
		pay.OK = within
		return pay, false
	}
	lease := leaseOf(a.limit)
	dry := a.dry > at.UnixNano()
	switch {
	case a.spare() >= cost:
		pay.OK = true
		return pay, !dry && a.spare()-cost < (lease+1)/2
	case dry:
		return pay, false
	case failing:
		pay.OK = within
	}
	if !pay.OK {
		a.missed = cost
	}
	return pay, true
}

func (l *Ledger) left(a *account) uint32 {
	if l.shared && a.dry != 0 {
		return a.spare()
	}
	return a.limit - min(a.spent, a.limit)
}

// Settle spends what a bill costs the pass now, and returns the cost; if it is only asked, it takes nothing. It waits for the
// shared store where this node has no lease left.
func (l *Ledger) Settle(p *spravka.Pass, b *Bill, at time.Time, policy Policy, take bool) (Payment, uint32) {
	if !p.Earned || p.Allowance == 0 {
		return Payment{}, 0
	}
	failing := l.behind.Err() != nil
	sh := l.shard(p.ID)
	sh.mu.Lock()
	a, known := sh.m[p.ID]
	if take && !known && l.n.Load() >= l.max {
		sh.mu.Unlock()
		l.full.Add(1)
		return Payment{Degraded: true}, 0 // what can't be counted must not be granted
	}
	a.expires, a.limit = p.Expires, p.Allowance
	cost := a.price(p, b, &l.tariff)
	pay, ask := l.decide(&a, cost, at, failing, policy)
	if !take {
		sh.mu.Unlock()
		pay.OK = pay.OK || ask && !failing // the next lease may cover it
		pay.Left = l.left(&a)
		return pay, cost
	}
	for range leaseTries {
		if pay.OK || !ask || failing {
			break
		}
		// All that is leased is spent, or others were quicker to spend it.
		l.put(sh, p.ID, &a, known)
		sh.mu.Unlock()
		failing = l.await(p.ID) != nil
		sh.mu.Lock()
		a, known = sh.m[p.ID]
		a.expires, a.limit = p.Expires, p.Allowance
		pay, ask = l.decide(&a, cost, at, failing, policy)
	}
	if pay.OK {
		a.note(p, b, cost)
		a.spent += cost
		a.used = at.UnixNano()
		pay.Left = l.left(&a)
		ask = ask || !l.shared && cost > 0
	}
	if known || pay.OK || ask {
		l.put(sh, p.ID, &a, known)
	}
	if pay.OK && cost > 0 {
		l.note(p.ID, &a)
	}
	sh.mu.Unlock()
	if pay.OK {
		l.paid.Add(uint64(cost))
	}
	if ask {
		l.behind.Add(p.ID)
	}
	return pay, cost
}

// put keeps an account. The caller holds the shard's lock.
func (l *Ledger) put(sh *shard, id [16]byte, a *account, known bool) {
	sh.m[id] = *a
	if !known {
		l.n.Add(1)
	}
}

// dailyShare caps what a spent pass stands in for on a day at this part of its allowance, or more by as much as the site's people
// read more than Tariff.Daily: one that was worth little, because many were earned before, is worth little afterwards, too.
const dailyShare = 5

// most is what a spent pass stands in for on a day.
func (t *Tariff) most(p *spravka.Pass, b *Bill) int {
	return min(b.Daily, int(p.Allowance)*b.Daily/(dailyShare*max(t.Daily, 1)))
}

// Role is what a pass does for a request.
type Role uint8

// The roles.
const (
	Falls  Role = iota // nothing
	Pays               // it has something left, or may have
	Stands             // its allowance is spent, and it stands in for its visitor
)

// StandIn counts a request for which a spent pass stands in; if it is only asked, it counts nothing.
func (l *Ledger) StandIn(p *spravka.Pass, b *Bill, at time.Time, take bool) Role {
	sh := l.shard(p.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a, known := sh.m[p.ID]
	a.expires, a.limit = p.Expires, p.Allowance
	switch {
	case !known, l.left(&a) > 0:
		return Pays
	case b.Cost != 1 || !a.knows(p, b.Net):
		return Falls
	}
	if day := uint16(at.Unix() / 86400); a.day != day { //nolint:gosec // until 2149
		a.day, a.today = day, 0
	}
	switch {
	case a.covers(b.Is, &l.tariff, a.units()):
		a.note(p, b, 0)
	case int(a.today) < l.tariff.most(p, b) && a.own < p.Allowance:
		a.today++
		a.own++
	default:
		return Falls
	}
	if take {
		sh.m[p.ID] = a
	}
	return Stands
}

// Refund gives back the unit that a request cost before its answer showed what it was, if it is included in what was
// paid; stood says that a spent pass stood in for the request.
func (l *Ledger) Refund(id [16]byte, is Kind, stood bool) bool {
	sh := l.shard(id)
	sh.mu.Lock()
	a, known := sh.m[id]
	had := &a.spent
	if stood {
		had = &a.own
	}
	ok := known && *had > 0 && a.covers(is, &l.tariff, a.units()-1)
	if ok {
		*had--
		if stood && a.today > 0 {
			a.today--
		}
		if is == Part {
			a.parts++
		} else {
			a.calls++
		}
		sh.m[id] = a
		l.note(id, &a)
	}
	sh.mu.Unlock()
	if ok && !stood {
		l.back.Add(1)
		if !l.shared {
			l.behind.Add(id)
		}
	}
	return ok
}
