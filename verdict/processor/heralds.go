package processor

import (
	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/entrances"
)

const (
	heraldMost = 8 // log-odds that a network has at most …
	heraldSure = 2 // from which on it is taken for one
	heraldFew  = 4 // … and at least, with the opposite sign
)

// precedes reports whether people follow who opens pages from the network of an event: it does so for them, and is not asked for
// arriving like others.
func (p *Processor) precedes(e *verdict.Event) bool {
	addr := e.Subjects[e.N-1].ID
	k := groupKey{role: roleNetwork, id: identity.NetworkOf(addr)}
	sh, h := p.groups.lock(k)
	g := sh.find(h, k)
	is := g != nil && g.herald >= heraldSure
	sh.mu.Unlock()
	if is {
		p.keeper.Meet(addr, e.At)
	}
	return is
}

// credit adds to what is known of a network.
func (p *Processor) credit(e *verdict.Event, c entrances.Credit) {
	if c.Odds == 0 {
		return
	}
	k := groupKey{role: roleNetwork, id: c.Network}
	sh, h := p.groups.lock(k)
	defer sh.mu.Unlock()
	if g := sh.find(h, k); g != nil {
		g.fade(e.At)
		g.herald = min(max(g.herald+c.Odds, -heraldFew), heraldMost)
	}
}
