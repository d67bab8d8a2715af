package verdict

import (
	"slices"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/verdict/bans"
)

// PassConfig says what requests cost a pass, in units of its allowance. A document costs one. Each unit includes some
// parts of pages and some calls of scripts; beyond that, these cost one each, too.
type PassConfig struct {
	Parts   int `mapstructure:"parts"`   // parts of pages included in a unit
	Calls   int `mapstructure:"calls"`   // calls of scripts included in a unit
	Browser int `mapstructure:"browser"` // what a document costs in a browser other than the one that solved
	Move    int `mapstructure:"move"`    // the surcharge when the browser comes from a network where it was not seen before
	Daily   int `mapstructure:"daily"`   // documents a day for which a spent pass stands in, in total at most as many as it paid for
}

// maxPlaces is how many networks beside its own a pass remembers. The oldest one gives way.
const maxPlaces = 3

// bill is what a request charges to a pass.
type bill struct {
	cost uint32 // of a document
	net  uint64 // where it comes from; 0: anywhere
	is   Count  // CountPart and CountCall are included in what was paid
}

// knows reports whether a browser was seen with the pass in a network.
func (a *account) knows(p *spravka.Pass, net uint64) bool {
	return net == 0 || net == p.Net || slices.Contains(a.places[:], net)
}

// price is what a bill costs the account now.
func (a *account) price(p *spravka.Pass, b *bill, c *PassConfig) uint32 {
	if a.covers(b.is, c, a.units()) {
		return 0
	}
	if a.knows(p, b.net) {
		return b.cost
	}
	return b.cost + min(uint32(c.Move), a.limit/cheapMove) //nolint:gosec // validated to be small
}

// cheapMove caps the price of a move at this part of the allowance: a visitor who earned a small pass and changes
// networks is not asked again because of that.
const cheapMove = 25

// covers reports whether one more part or call is included in the given number of paid units. Some are included even
// with none: the page that the pass was earned for has parts.
func (a *account) covers(is Count, c *PassConfig, units uint32) bool {
	had, most := a.calls, c.Calls
	switch is {
	case CountPart:
		had, most = a.parts, c.Parts
	case CountCall:
	default:
		return false
	}
	return uint64(had) < uint64(most)*(uint64(units)+1) //nolint:gosec // validated to be small and positive
}

// note counts a paid bill.
func (a *account) note(p *spravka.Pass, b *bill, cost uint32) {
	switch {
	case cost == 0 && b.is == CountPart:
		a.parts++
	case cost == 0 && b.is == CountCall:
		a.calls++
	case cost > 0 && !a.knows(p, b.net):
		a.places[a.turn%maxPlaces] = b.net
		a.turn++
	}
}

// units is what was read with the pass: what was paid, and what the pass stood in for.
func (a *account) units() uint32 { return a.spent + a.own }

// onItsOwn reports whether a pass whose allowance is spent stands in for its visitor, so that the judgement's bans on
// addresses and on identities that cost nothing to create do not stop the visitor (an operator's bans do). It does so
// in its own browser, in places that it knows, for so many documents a day and in total no more than it paid for. By
// then the site has seen that this is a person, or the visitor is asked again. A pass with something left pays.
func (c *Cacher) onItsOwn(d *Decision, v *request.View, id *identity.Identity, s *Settings, spend bool) bool {
	is := c.paths.goesWith(pathKeyOf(s.Group, v.Path))
	for i := range id.NPasses {
		p := &id.Passes[i]
		if !p.Earned || p.Allowance == 0 || p.Partner != 0 || id.Partner {
			continue
		}
		b := c.bill(p, v, id)
		b.is = is
		switch c.ledger.standIn(p, &b, v.At, spend) {
		case passPays:
			return false
		case passStands:
			d.Ban, d.Excused = bans.Ban{}, identity.Subject{Kind: identity.KindSpravka, ID: p.ID}
			d.PassID, d.Stood = p.ID, spend && b.is == CountDocument
			return true
		}
	}
	return false
}

// dailyShare caps what a spent pass stands in for on a day at this part of its allowance: one that was worth little,
// because many were earned before, is worth little afterwards, too.
const dailyShare = 5

type passRole uint8

const (
	passFalls passRole = iota
	passPays           // it has something left, or may have
	passStands
)

// standIn counts a request for which a spent pass stands in; if it is only asked, it counts nothing.
func (l *ledger) standIn(p *spravka.Pass, b *bill, at time.Time, take bool) passRole {
	sh := l.shard(p.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a, known := sh.m[p.ID]
	a.expires, a.limit = p.Expires, p.Allowance
	switch {
	case !known, l.left(&a) > 0:
		return passPays
	case b.cost != 1 || !a.knows(p, b.net):
		return passFalls
	}
	if day := dayOf(at); a.day != day {
		a.day, a.today = day, 0
	}
	switch {
	case a.covers(b.is, &l.tariff, a.units()):
		a.note(p, b, 0)
	case int(a.today) < min(l.tariff.Daily, int(p.Allowance/dailyShare)) && a.own < p.Allowance:
		a.today++
		a.own++
	default:
		return passFalls
	}
	if take {
		sh.m[p.ID] = a
	}
	return passStands
}

// Refund gives back the unit that a request cost before its answer showed what it was, if it is included in what was
// paid; stood says that a spent pass stood in for the request.
func (l *ledger) Refund(id [16]byte, is Count, stood bool) bool {
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
		if is == CountPart {
			a.parts++
		} else {
			a.calls++
		}
		sh.m[id] = a
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

// pay charges the request to the first pass with enough left, or for a moment to one that was earned and did not come
// back. In mode observe it only looks.
func (c *Cacher) pay(d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	for i := range id.NPasses {
		p := &id.Passes[i]
		if !p.Earned || p.Allowance == 0 || !c.payWith(d, p, v, id, s) {
			continue
		}
		if v.At.Unix()-p.Born <= int64(latestFor/time.Second) {
			c.latest.drop(v, id) // this browser keeps its cookies
		}
		return
	}
	if id.Partner || v.Get("Cookie") != nil { // a browser that keeps others keeps its pass
		return
	}
	if p, ok := c.latest.find(v, id); ok && !c.Revoked(p.ID, p.Born) && !c.RevokedCampaign(p.Net, p.Agent, p.Born) && c.payWith(d, &p, v, id, s) && d.Cost > 0 {
		c.latest.count(v, id)
	}
}

// payWith charges the request to a pass, and reports whether it had enough left.
func (c *Cacher) payWith(d *Decision, p *spravka.Pass, v *request.View, id *identity.Identity, s *Settings) bool {
	b := c.bill(p, v, id)
	b.is = c.paths.goesWith(pathKeyOf(s.Group, v.Path))
	got, cost := c.ledger.settle(p, &b, v.At, s.OnStoreFailure, s.Mode != Observe)
	d.Degraded = d.Degraded || got.Degraded
	if !got.OK {
		return false
	}
	d.Verdict, d.Paid, d.PassID, d.Left = Human, true, p.ID, got.Left
	if s.Mode != Observe {
		d.Cost = int(cost)
	}
	return true
}

// bill computes what a document costs a pass. A pass is bound to the browser that solved, and to its networks: a
// browser that moves pays once for each place, so a phone can carry on, while selling a pass to many people earns
// little. For a partner's user no browser is known.
func (c *Cacher) bill(p *spravka.Pass, v *request.View, id *identity.Identity) bill {
	dear := uint32(c.cfg.Pass.Browser) //nolint:gosec // validated to be small
	net := id.NetKey()
	switch {
	case p.Partner != 0 || id.Partner:
		if net != p.Net {
			return bill{cost: dear}
		}
		return bill{cost: 1}
	case identity.AgentFamily(v.Get("User-Agent")) != p.Agent:
		return bill{cost: dear, net: net}
	case p.Keyed(): // elsewhere it is no pass, until its browser has proved itself
		net = 0
	}
	return bill{cost: 1, net: net}
}

// goesWith returns what a path is known to be, for a pass: a part, if answers prove it; a call, if answers prove data,
// or if they are unknown and visitors don't take it for a page; otherwise a document, until its answer shows something
// else.
func (p *Paths) goesWith(k pathKey) Count {
	switch {
	case p.proved(k) == readingPart:
		return CountPart
	case p.read(k) == readingPart, p.proved(k) == readingData:
		return CountCall
	}
	return CountDocument
}

// Delivered settles what a pass has paid, once the service's answer is known: whatever was not a document is included
// in the documents that were paid. It is not for requests that a balancer forwards itself. e already knows the answer.
func (c *Cacher) Delivered(d *Decision, e *Event) {
	if d.Cost == 0 && !d.Stood || e.Advised || e.Partner {
		return
	}
	is := e.Count()
	if (is == CountPart || is.Called()) && c.ledger.Refund(d.PassID, min(is, CountCall), d.Stood) && !d.Stood {
		d.Cost--
		d.Left++
	}
}

// settle spends what a bill costs the pass now; if it is only asked, it takes nothing.
func (l *ledger) settle(p *spravka.Pass, b *bill, at time.Time, policy Policy, take bool) (payment, uint32) {
	if !p.Earned || p.Allowance == 0 {
		return payment{}, 0
	}
	failing := l.behind.Err() != nil
	sh := l.shard(p.ID)
	sh.mu.Lock()
	a, known := sh.m[p.ID]
	if take && !known && l.n.Load() >= l.max {
		sh.mu.Unlock()
		l.full.Add(1)
		return payment{Degraded: true}, 0 // what can't be counted must not be granted
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
func (l *ledger) put(sh *ledgerShard, id [16]byte, a *account, known bool) {
	sh.m[id] = *a
	if !known {
		l.n.Add(1)
	}
}

// Spend takes cost from the pass if enough is left. It waits for the shared store where this node has no lease left.
func (l *ledger) Spend(p *spravka.Pass, cost uint32, at time.Time, policy Policy) payment {
	pay, _ := l.settle(p, &bill{cost: cost}, at, policy, true)
	return pay
}
