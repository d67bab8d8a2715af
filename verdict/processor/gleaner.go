package processor

import (
	"math"

	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// A gleaner is a client that reads what nobody else wants. People want what others want: of the pages that somebody reads whom the service
// knows, some share was read by others within a day, and that share is learnt. Who takes a whole catalogue reads such pages a
// fraction as often. The odds add up page by page (Wald's sequential test, as a cumulative sum), for each client with a young cookie.
//
// One such client may have a rare taste. Several of them at one address are one robot, or as good as one: they are listed, as those that load nothing
// are (habit), and have together what a household has.

const (
	gleanOdds   = 2.   // odds, as a logarithm, from which on a client is a gleaner …
	gleanMore   = 1    // … where there are several …
	gleanMost   = 4.   // … and the most that are added up: few pages that others want make it one no longer
	gleanRate   = 8    // gleaners read what others want less often than people by this factor
	gleanLeast  = 0.05 // share of what people read that others have read, from which on something is expected
	gleanFrom   = 4    // gleaners at an address in a day, from which on they are listed
	tasteRecent = 128  // views by which that share is learnt
)

// glean takes a page that a client has read, of which people would have read one that others want with a given chance.
func (x *habit) glean(chance float32, wanted bool) {
	if chance < gleanLeast {
		return
	}
	add := float32(-math.Log(gleanRate))
	if !wanted {
		add = float32(math.Log(float64((1 - chance/gleanRate) / (1 - chance))))
	}
	x.odds = min(max(x.odds+add, 0), gleanMost)
}

// gleans reports whether a client is a gleaner, and counts it at its address when it becomes one.
func (x *habit) gleans(b *budget, settled bool) bool {
	enough := float32(gleanOdds)
	if settled && b.gleaners >= gleanFrom {
		enough = gleanMore
	}
	switch {
	case x.gleaner && x.odds <= 0:
		x.gleaner = false
		b.gleaners = max(b.gleaners-1, 0)
	case !x.gleaner && x.odds >= enough:
		x.gleaner = true
		b.gleaners++
	}
	return x.gleaner && b.gleaners >= gleanFrom
}

// wanted returns with what chance somebody whom the site knows, who reads a page of the shape of an event, reads one that others have read, and whether
// they have read this one; false if nothing is known of that, or if everybody reads the page.
func (t *tastes) wanted(e *verdict.Event) (chance float32, read, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(e.At)
	if t.by == nil {
		return 0, false, false
	}
	x, i := t.find(e.PathShape), tastePlace(e.Path)
	n := float32(t.by[0][i]) + float32(t.by[1][i])
	if x.all() < tasteFrom || x.head(n) {
		return 0, false, false
	}
	return x.wanted, n > 0, true
}

// wants is wanted for the site's people, or for everybody as long as it is not known who they are.
func (p *people) wants(e *verdict.Event, settled bool) (chance float32, read, known bool) {
	if settled {
		if p.strangers.Load() != nil {
			p.strangers.Store(nil)
		}
		return p.tastes.wanted(e)
	}
	if t := p.strangers.Load(); t != nil {
		return t.wanted(e)
	}
	return 0, false, false
}

// noteAnybody counts a page that is new to somebody of whom nothing is known: an address has few views in half a day.
func (t *tastes) noteAnybody(e *verdict.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(e.At)
	if tally.Hears(t.said[:], addressHash(e), tasteEach) {
		t.view(e)
	}
}

// anybody returns what everybody reads in common. Gateways know their site's people within a day, and most then need it no more.
func (p *people) anybody() *tastes {
	if t := p.strangers.Load(); t != nil {
		return t
	}
	p.strangers.CompareAndSwap(nil, new(tastes))
	return p.strangers.Load()
}

// meets learns from a view how often others have read what somebody reads.
func (x *taste) meets(others float32) {
	x.tries = min(x.tries+1, tasteRecent)
	x.wanted += (min(others, 1) - x.wanted) / x.tries
}
