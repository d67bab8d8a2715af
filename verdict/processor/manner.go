package processor

import (
	"math"
	"net/netip"
	"time"

	"antirobot/bounded"

	"antirobot/identity"
	"antirobot/verdict"
)

// What networks are like as readers, whether a pass paid for it or not: the site's people load the parts of what they
// read. It prices passes: those who read unlike the site's people share what a few households may earn.

const (
	mannerGrace  = 1  // documents that may lack their parts before it says anything
	mannerCredit = 8  // documents that parts may pay for in advance
	judgedDocs   = 30 // documents that a robot reads before it is banned
	mostlyRobots = 0.5
	mannerMost   = 0.5 // of the documents lack their parts where nothing is like the site's people
)

// behave notes whether documents come with their parts.
func (b *budget) behave(ch *charge) {
	switch {
	case ch.is == verdict.CountPart:
		b.owed = max(b.owed-ch.cover, -mannerCredit)
	case ch.is.Read() && !ch.again:
		b.docs++
		b.owed++
	}
}

// misbehaved notes that a visitor was taken for a robot.
func (p *Processor) misbehaved(e *verdict.Event) {
	if r := p.service(e.Service); r != nil {
		p.onBudget(e, r, func(b *budget) { b.judged++ })
	}
}

// arrived notes that a newcomer was asked because it arrives as nearly only robots do: a pass that is earned there is earned by one of
// many, whichever network it comes from. Who is none of them is not asked again, whatever the pass is worth: its cookie is known.
func (p *Processor) arrived(e *verdict.Event, r *rates) {
	if e.Cause == verdict.CauseCampaign && e.Verdict == verdict.Unsure {
		p.onBudget(e, r, func(b *budget) { b.alike = 0.9 })
	}
}

// lockBudget returns the budget of an address by itself, nil if there is none, whose it is, and what locks it. The caller unlocks that.
func (p *Processor) lockBudget(addr [16]byte, group uint32) (b *budget, of identity.Prefix, mu *bounded.Shard[identity.Prefix, budget]) {
	of = identity.HouseholdOf(addr, group)
	sh, h := p.budgets.Lock(of)
	return sh.Find(h, of), of, sh
}

// openBudget is lockBudget for one that begins where there is none.
func (p *Processor) openBudget(addr [16]byte, group uint32) (b *budget, of identity.Prefix, mu *bounded.Shard[identity.Prefix, budget]) {
	of = identity.HouseholdOf(addr, group)
	sh, h := p.budgets.Lock(of)
	b, _ = p.budgets.Open(sh, h, of)
	return b, of, sh
}

// onBudget changes the budget of an event's address.
func (p *Processor) onBudget(e *verdict.Event, r *rates, change func(b *budget)) {
	b, of, mu := p.openBudget(e.Subjects[e.N-1].ID, r.Group)
	b.fade(e.At.UnixMilli())
	change(b)
	b.tell()
	share, news := b.barely(r, false)
	mu.Unlock()
	if news {
		p.keeper.Barely(of, share, e.At)
	}
}

// price tells gateways how barely the networks of an address are read, since a captcha is shown there, and goes on to.
func (p *Processor) price(e *verdict.Event, r *rates) {
	addr := e.Subjects[e.N-1]
	if addr.Kind != identity.KindIP || !p.cfg.Budget.Enabled {
		return
	}
	var of [4]identity.Prefix
	for _, x := range of[:identity.Prefixes(&of, addr.ID, r.Group)] {
		sh, h := p.budgets.Lock(x)
		b, _ := p.budgets.Open(sh, h, x)
		b.fade(e.At.UnixMilli())
		b.tell()
		share, news := b.barely(r, e.Kind == verdict.EventShown)
		sh.Unlock()
		if news {
			p.keeper.Barely(x, share, e.At)
		}
	}
}

// tell has gateways told from now on how barely a prefix is read.
func (b *budget) tell() { b.told = max(b.told, 1) }

// barely returns how much of what is read at a prefix is read as the site's people don't read it, and whether gateways are to be told:
// because it has changed by an eighth, or once more.
func (b *budget) barely(r *rates, again bool) (share float64, news bool) {
	if b.told == 0 {
		return 0, false
	}
	share = b.unlike(r.people.parts())
	eighths := 8 * share
	if again && eighths >= 1 || math.Abs(eighths-float64(b.told-1)) >= 1 {
		b.told = 1 + uint8(math.Round(eighths))
		return share, true
	}
	return share, false
}

// robots is how much of what is read is robots', going by the bans. Any of them may be mistaken: one says half at most, two three
// quarters, and so on.
func (b *budget) robots() float64 {
	return min(judgedDocs*float64(b.judged)/max(float64(b.docs), 1), 1-math.Exp2(-float64(b.judged)))
}

// robotsAt is how much of what is read at an address is robots'.
func (p *Processor) robotsAt(addr [16]byte, r *rates, at time.Time) float64 {
	b, _, mu := p.lockBudget(addr, r.Group)
	defer mu.Unlock()
	if b == nil {
		return 0
	}
	b.fade(at.UnixMilli())
	return b.robots()
}

// bareness is the share of the documents that lack their parts.
func (b *budget) bareness() float64 {
	if b.owed <= mannerGrace {
		return 0
	}
	return min(float64((b.owed-mannerGrace)/(mannerMost*b.docs)), 1)
}

// unlike is how much of what is read at a prefix is robots', going by bans and by how newcomers arrive there, or lacks its parts, where
// pages have parts.
func (b *budget) unlike(parts bool) float64 {
	share := max(b.robots(), float64(b.alike))
	if parts {
		share = max(share, b.bareness())
	}
	return share
}

// Bareness returns how much of what is read at a service from an address, or from any of the networks around it, lacks the
// parts that the site's people load, or is robots', going by bans and by how newcomers arrive there: 0 to 1. Parts say nothing where pages
// have none, and while that is not known.
func (p *Processor) Bareness(service string, a netip.Addr) (share float64) {
	r := p.named(service)
	if r == nil {
		return 0
	}
	parts := r.people.parts()
	var of [4]identity.Prefix
	for _, x := range of[:identity.Prefixes(&of, identity.AddrSubject(a).ID, r.Group)] {
		sh, h := p.budgets.Lock(x)
		if b := sh.Find(h, x); b != nil {
			share = max(share, b.unlike(parts))
		}
		sh.Unlock()
	}
	return share
}

// named returns settings of the service with a name; nil: there is none.
func (p *Processor) named(service string) *rates {
	if t := p.services.Load(); t != nil {
		for _, r := range *t {
			if r != nil && r.Name == service {
				return r
			}
		}
	}
	return nil
}
