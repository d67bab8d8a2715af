package processor

import (
	"math"
	"sync"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// Overlap is how often different clients of an address read the same pages. People do so as often as the site's other people:
// what one wants, others want. Clients that divide a catalogue among them never do, however much each of them reads like a person.
//
// What is expected is learnt from the people whom the service knows, for each shape of path: the chance that two of them, of
// different networks, read the same page. Pages that everybody reads count on neither side, and so does what only one person
// can read (an order, a basket), for nobody reads that twice. For an address the odds add up, page by page, against every page that
// its other clients have read lately (Wald's sequential test, as a cumulative sum: Page, Biometrika 41, 1954). Above a
// threshold its clients share nothing, and are one household.

// tastes is what the people of a service read in common. Large numbers of robots among them change little: a network has
// few views in half a day. Safe for concurrent use; the zero value knows nothing.
type tastes struct {
	mu     sync.Mutex
	half   int64
	by     *[2][tastePlaces]uint8 // people who have read each page, in this half day and the one before
	shapes *[tasteShapes]taste
	said   [tasteCells]uint8 // views of networks in this half day, by their hash
	views  [2]float32        // in both
}

// taste is what is known of the pages of a shape. Counts of earlier half days fade by halving.
type taste struct {
	mark   uint32
	views  [2]float32 // in this half day and the one before
	pages  [2]float32 // that were read, likewise
	pairs  float32    // of views of a page, less those that meet by chance in a place of the table …
	chance float32    // … out of so many pairs of views
	wanted float32    // share of the last views that were of a page which others had read, see wanted …
	tries  float32    // … of so many
	spread float32    // the sum of squares of the pairs of each page: what a few pages are read by many may be chance
}

func (x *taste) all() float32 { return x.views[0] + x.views[1] }

const (
	tastePlaces  = 1 << 16
	tasteShapes  = 512
	tasteTries   = 4 // places where a shape may be
	tasteCells   = 1024
	tasteEach    = 32 // views of a network that count in half a day, of which one in two does: visits begin with what all read
	tasteFrom    = 100
	tastePairs   = 16 // from so many on something is expected
	tasteSure    = 2  // by so many standard deviations less than what was seen: it may be the few pages that many happened to read
	tasteHead    = 3  // everybody reads what is read so many times as often as the pages of its shape on average …
	tasteHeadMin = 4  // … and at least so often
)

// find returns the place of a shape, which may have to be made: of the one least read. The caller holds the lock.
func (t *tastes) find(shape uint64) *taste {
	mark := uint32(shape>>32) | 1
	worst := (*taste)(nil)
	for i := range uint64(tasteTries) {
		x := &t.shapes[(shape+i)%tasteShapes]
		if x.mark == mark {
			return x
		}
		if worst == nil || x.all() < worst.all() {
			worst = x
		}
	}
	*worst = taste{mark: mark}
	return worst
}

// turn begins another half day. The caller holds the lock.
func (t *tastes) turn(at time.Time) {
	half := at.Unix() / halfDay
	if half <= t.half {
		return
	}
	if t.by != nil {
		if t.by[1] = t.by[0]; half > t.half+1 {
			t.by[1] = [tastePlaces]uint8{}
		}
		t.by[0] = [tastePlaces]uint8{}
		for i := range t.shapes {
			x := &t.shapes[i]
			x.views, x.pages = [2]float32{1: x.views[0]}, [2]float32{1: x.pages[0]}
			if x.pairs, x.chance, x.spread = x.pairs/2, x.chance/2, x.spread/2; half > t.half+1 {
				x.views[1], x.pages[1] = 0, 0
			}
		}
	}
	if t.views = [2]float32{1: t.views[0]}; half > t.half+1 {
		t.views[1] = 0
	}
	t.half, t.said = half, [tasteCells]uint8{}
}

func tastePlace(page uint64) uint64 { return (page ^ page>>23) % tastePlaces }

// note counts a page that one of the site's people reads for the first time.
func (t *tastes) note(e *verdict.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(e.At)
	if tally.Fold(e.Path^tally.Hash(e.Subjects[0].ID), 0xd1b54a32d192ed03)&1 == 0 {
		return
	}
	if tally.Hears(t.said[:], tally.Network(e.Subjects[e.N-1].ID), tasteEach) {
		t.view(e)
	}
}

// view counts a view. The caller holds the lock.
func (t *tastes) view(e *verdict.Event) {
	if t.by == nil {
		t.by, t.shapes = new([2][tastePlaces]uint8), new([tasteShapes]taste)
	}
	x, i := t.find(e.PathShape), tastePlace(e.Path)
	before := float32(t.by[0][i]) + float32(t.by[1][i])
	inc(&t.by[0][i])
	if !x.head(before) {
		x.meets(before)
		x.pairs += before - (t.views[0]+t.views[1])/tastePlaces
		x.chance += x.all()
		x.spread += before * before * before // from the square of before*(before-1)/2 to that of before*(before+1)/2
	}
	x.views[0]++
	if before == 0 {
		x.pages[0]++
	}
	t.views[0]++
}

// head reports whether a page that so many have read is read by everybody.
func (x *taste) head(n float32) bool {
	return n > max(tasteHeadMin, tasteHead*x.all()/max(x.pages[0]+x.pages[1], 1))
}

// share returns the chance that two of the people who read pages of the shape of an event read the same one; false if it is unknown
// or hardly ever happens, or if the page is one that everybody reads.
func (t *tastes) share(e *verdict.Event) (float32, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(e.At)
	if t.by == nil {
		return 0, false
	}
	x, i := t.find(e.PathShape), tastePlace(e.Path)
	if x.all() < tasteFrom || x.pairs < tastePairs || x.head(float32(t.by[0][i])+float32(t.by[1][i])) {
		return 0, false
	}
	least := x.pairs - tasteSure*float32(math.Sqrt(float64(x.spread)))
	return least / x.chance, least > 0
}

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
		chance, counts = r.people.tastes.share(e)
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
