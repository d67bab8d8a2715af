package verdict

import (
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/verdict/bans"
	"antirobot/verdict/ledger"
)

// holdsPass reports whether the visitor holds a pass whose allowance is spent, in the browser that earned it: a user of its
// own, whom the judgement's bans on addresses and on identities that cost nothing to create do not reach (an operator's
// bans do). A pass with something left pays.
func (c *Cacher) holdsPass(d *Decision, v *request.View, id *identity.Identity) bool {
	for i := range id.NPasses {
		p := &id.Passes[i]
		if !p.Earned || p.Allowance == 0 || p.Partner != 0 || id.Partner || c.bill(p, v, id).Cost != 1 {
			continue
		}
		if !c.ledger.Spent(p) {
			return false
		}
		d.Ban, d.Excused = bans.Ban{}, identity.Subject{Kind: identity.KindSpravka, ID: p.ID}
		return true
	}
	return false
}

// pay charges the request to the first pass with enough left, or for a moment to one that was earned and did not come
// back. In mode observe it only looks.
func (c *Cacher) pay(d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	for i := range id.NPasses {
		p := &id.Passes[i]
		if !p.Earned || p.Allowance == 0 || !c.payWith(d, p, v, id, s) {
			continue
		}
		if c.passTime(v.At).Unix()-p.Born <= int64(latestFor/time.Second) {
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
	b.Is = c.paths.goesWith(c.pathKey(s, v))
	got, cost := c.ledger.Settle(p, &b, c.passTime(v.At), s.OnStoreFailure, s.Mode != Observe)
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
func (c *Cacher) bill(p *spravka.Pass, v *request.View, id *identity.Identity) ledger.Bill {
	dear := uint32(c.cfg.Pass.Browser) //nolint:gosec // validated to be small
	net := id.NetKey()
	switch {
	case p.Partner != 0 || id.Partner:
		if net != p.Net {
			return ledger.Bill{Cost: dear}
		}
		return ledger.Bill{Cost: 1}
	case identity.AgentFamily(v.Get("User-Agent")) != p.Agent:
		return ledger.Bill{Cost: dear, Net: net}
	case p.Keyed(): // elsewhere it is no pass, until its browser has proved itself
		net = 0
	}
	return ledger.Bill{Cost: 1, Net: net}
}

// goesWith returns what a path is known to be, for a pass: a part, if answers prove it; a call, if answers prove data,
// or if they are unknown and visitors don't take it for a page; otherwise a document, until its answer shows something
// else.
func (p *Paths) goesWith(k pathKey) ledger.Kind {
	switch {
	case p.proved(k) == readingPart:
		return ledger.Part
	case p.read(k) == readingPart, p.proved(k) == readingData:
		return ledger.Call
	}
	return ledger.Document
}

// Delivered settles what a pass has paid, once the service's answer is known: whatever was not a document is included
// in the documents that were paid. It is not for requests that a balancer forwards itself. e already knows the answer.
func (c *Cacher) Delivered(d *Decision, e *Event) {
	if d.Cost == 0 || e.Advised || e.Partner {
		return
	}
	is := ledger.Document
	switch count := e.Count(); {
	case count == CountPart, count == CountNothing: // such as a file of the page that is not there
		is = ledger.Part
	case count.Called():
		is = ledger.Call
	}
	if is != ledger.Document && c.ledger.Refund(d.PassID, is) {
		d.Cost--
		d.Left++
	}
}
