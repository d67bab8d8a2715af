package entrances

import (
	"math"
	"sync"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// heralds are those after whom somebody else opens the same page: what looks at a link before a person does, for a
// company's mail, a messenger, an antivirus program. A load from outside by a visitor without cookies and parts is
// followed if soon afterwards somebody in another network opens the same page from outside, and loads parts of it. Each
// load counts with the odds that it is followed because it is a herald's, and not by chance: on a page that many open,
// that says little. What is known is added up for the network, as such services have several addresses; a robot among
// them spoils it, as nobody follows it. Safe for concurrent use.
type heralds struct {
	mu      sync.Mutex
	entries views // of everybody, from outside
	pages   [heraldPlaces]herald
	next    [heraldPlaces]uint16 // by the address of who follows: the place of the page
}

// herald is a load that may be followed.
type herald struct {
	network  [16]byte
	follower uint64 // the address that has opened the page, too; 0: none has
	page, at uint32
	last     uint32  // when the page was last opened from outside
	odds     float32 // what it is worth to have been followed; 0: nobody waits for that
}

const (
	heraldPlaces = 1 << 11
	heraldWithin = 120  // seconds in which a load is followed
	heraldHot    = 900  // seconds in which a page is opened again that many open now: who follows whom cannot be said
	heraldUsual  = 0.4  // share of a herald's loads that is
	heraldLeast  = 0.06 // chance that is assumed at least: to be followed once is not enough
)

// Credit says what is to be added to the log-odds that a network's visitors are followed; the zero value: nothing.
type Credit struct {
	Network [16]byte
	Odds    float32
}

// ahead records a load from outside that had a chance to be followed in any case, and returns what it costs the visitor
// not to be followed so far. may says whether it may be a herald's.
func (h *heralds) ahead(e *verdict.Event, may bool, chance float32) (c Credit) {
	page, at, addr := uint32(e.Path), uint32(e.At.Unix()), tally.Hash(e.Subjects[e.N-1].ID)
	chance = min(max(chance, heraldLeast), heraldUsual)
	network := identity.NetworkOf(e.Subjects[e.N-1].ID)
	h.mu.Lock()
	defer h.mu.Unlock()
	i := (page ^ page>>15) % heraldPlaces
	x := &h.pages[i]
	same, waits := x.page == page, x.odds != 0 && x.follower == 0 && at-x.at <= heraldWithin
	hot := same && at-x.last <= heraldHot
	switch {
	case same && waits && x.network != network:
		x.follower, x.last = addr|1, at
		h.next[addr%heraldPlaces] = uint16(i) //nolint:gosec // below heraldPlaces
		return c
	case same && (hot || !may):
		x.last = at
		return c
	case !may:
		if !waits {
			*x = herald{page: page, last: at}
		}
		return c
	}
	missed := float32(math.Log(float64((1 - heraldUsual) / (1 - chance))))
	met := float32(math.Log(float64(heraldUsual / chance)))
	*x = herald{network: network, page: page, at: at, last: at, odds: met - missed}
	return Credit{network, missed}
}

// followed takes a part that somebody loads, and returns who was followed with that.
func (h *heralds) followed(e *verdict.Event) (c Credit) {
	addr := tally.Hash(e.Subjects[e.N-1].ID)
	h.mu.Lock()
	defer h.mu.Unlock()
	x := &h.pages[h.next[addr%heraldPlaces]]
	if x.follower != addr|1 || uint32(e.At.Unix())-x.at > 2*heraldWithin {
		return c
	}
	x.follower = math.MaxUint64
	return Credit{x.network, x.odds}
}
