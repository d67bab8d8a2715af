package processor

import (
	"math"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// Overlap is how often different clients of an address read the same pages. People do so as often as the site's other people:
// what one wants, others want. Clients that divide a catalogue among them never do, however much each of them reads like a person.
//
// What is expected is learnt from the people whom the service knows (verdict/tastes). For an address the odds add up, page by page, against
// every page that its other clients have read lately (Wald's sequential test, as a cumulative sum: Page, Biometrika 41, 1954). Above a
// threshold its clients share nothing, and are one household.

// circleKey is an address, and which of its clients are compared: those who have read there for long, others that have come back, or
// strangers. What is free to make, as names and young cookies are, changes nothing for people who are known.
type circleKey struct {
	home identity.Prefix
	who  level
}

// circle is what the clients of an address have read lately, and how surely they share nothing.
type circle struct {
	at    int64 // unix seconds of the last page
	odds  float32
	n     uint32 // pages, modulo the size
	pages [circlePages]read
}

// read is a page that a client has read.
type read struct {
	page  uint32
	shape uint16
	who   uint16
}

const (
	circlePages = 192
	circleEach  = 8        // of them, one client's at most: a robot among people is one of many
	circleFrom  = 48       // documents of an address in a day, from which on its clients are compared
	apartRate   = 8        // clients that share nothing read the same page less often than people by this factor
	apartFrom   = 10.      // odds, as a logarithm, from which on they share nothing …
	apartMost   = 16       // … and the most that are added up, so that what ends is soon forgotten
	apartAsk    = 6 * 3600 // seconds for which they are asked before it is looked at again
	circleIdle  = 86400
	circlesPart = 48 // budgets for each circle: few addresses have many clients that read much
)

// Of the test: what each pair of pages adds that could have been the same page, and what each takes that is.
var (
	apartMiss = float32(1 - 1./apartRate)
	apartSame = float32(math.Log(apartRate))
)

// add takes a page of a client, of which two people would read the same one with a given chance.
func (c *circle) add(r read, chance float32) {
	others, same, own := float32(0), float32(0), 0
	for i := range min(c.n, circlePages) {
		switch o := &c.pages[i]; {
		case o.who == r.who:
			own++
		case o.shape == r.shape:
			if others++; o.page == r.page {
				same++
			}
		}
	}
	if own >= circleEach {
		return
	}
	c.pages[c.n%circlePages] = r
	if c.n++; c.n == 2*circlePages {
		c.n = circlePages
	}
	c.odds = min(max(c.odds+apartMiss*chance*others-apartSame*same, 0), apartMost)
}

// isApart takes what is read at an address, and reports whether its clients share nothing of it: those who are known before, or all
// others, as the one who reads it. The caller holds the lock of the budget.
func (p *Processor) isApart(b *budget, home identity.Prefix, e *verdict.Event, r *rates, ch *charge) bool {
	if b.docs < circleFrom || p.cfg.Budget.Overlap == 0 {
		return false
	}
	chance, counts := float32(0), ch.is.Read() && !ch.again && e.Status < 400 && (ch.known || !ch.parts || e.Browser == 0 || ch.pays && !ch.listed) && !e.Subjects[0].Kind.Vouched()
	if counts {
		chance, counts = r.people.tastes.Share(e)
	}
	k := circleKey{home, ch.level()}
	sh, h := p.circles.lock(k)
	defer sh.mu.Unlock()
	if !counts {
		c := sh.find(h, k)
		return c != nil && c.odds >= apartFrom
	}
	c, _ := p.circles.open(sh, h, k)
	c.at = e.At.Unix()
	c.add(read{page: uint32(e.Path >> 32), shape: uint16(e.PathShape >> 48), who: uint16(whoReads(e) >> 48)}, float32(p.cfg.Budget.Overlap)*chance) //nolint:gosec // parts of hashes
	return c.odds >= apartFrom
}

// whoReads tells the clients of an address apart, by what they are known by, and by User-Agent and cookie.
func whoReads(e *verdict.Event) uint64 {
	return tally.Fold(tally.Hash(e.Subjects[0].ID)^uint64(e.Client)<<32, 0x9e3779b97f4a7c15)
}
