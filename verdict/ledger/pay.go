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

// Spent reports whether nothing is left of a pass, as far as this node knows.
func (l *Ledger) Spent(p *spravka.Pass) bool {
	sh := l.shard(p.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a, known := sh.m[p.ID]
	a.expires, a.limit = p.Expires, p.Allowance
	return known && l.left(&a) == 0
}

// Refund gives back the unit that a request cost before its answer showed what it was, if that is included in what was paid.
func (l *Ledger) Refund(id [16]byte, is Kind) bool {
	sh := l.shard(id)
	sh.mu.Lock()
	a, known := sh.m[id]
	ok := known && a.spent > 0 && a.covers(is, &l.tariff, a.spent-1)
	if ok {
		a.spent--
		if is == Part {
			a.parts++
		} else {
			a.calls++
		}
		sh.m[id] = a
		l.note(id, &a)
	}
	sh.mu.Unlock()
	if ok {
		l.back.Add(1)
		if !l.shared {
			l.behind.Add(id)
		}
	}
	return ok
}
