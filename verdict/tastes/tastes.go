// Package tastes learns what the people of a service read in common, from those whom the service knows: for each shape of path, the chance that
// two of them, of different networks, read the same page, and the share of what they read that others have read. Pages that everybody
// reads count on neither side, and so does what only one person can read (an order, a basket), for nobody reads that twice.
package tastes

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// Service is what is known of the people of one service, and of everybody as long as it is not known who they are. Safe for concurrent use; the
// zero value knows nothing.
type Service struct {
	people    common
	strangers atomic.Pointer[common] // gateways know their site's people within a day, and most then need it no more
}

// Note counts a page that one of the site's people reads for the first time.
func (s *Service) Note(e *verdict.Event) { s.people.note(e) }

// NoteAnybody counts a page that is new to somebody of whom nothing is known, while the site doesn't know its people.
func (s *Service) NoteAnybody(e *verdict.Event) {
	t := s.strangers.Load()
	if t == nil {
		if t = new(common); !s.strangers.CompareAndSwap(nil, t) {
			t = s.strangers.Load()
		}
	}
	if t != nil { // nor has it got to know them meanwhile
		t.noteAnybody(e)
	}
}

// Share returns the chance that two of the people who read pages of the shape of an event read the same one; false if it is unknown
// or hardly ever happens, or if the page is one that everybody reads.
func (s *Service) Share(e *verdict.Event) (float32, bool) { return s.people.share(e) }

// Wanted returns with what chance somebody who reads a page of the shape of an event reads one that others have read, and whether
// they have read this one; false if nothing is known of that, or if everybody reads the page. It goes by the site's people, or by everybody as
// long as these are not settled.
func (s *Service) Wanted(e *verdict.Event, settled bool) (chance float32, read, known bool) {
	t := s.strangers.Load()
	switch {
	case settled:
		if t != nil {
			s.strangers.Store(nil)
		}
		return s.people.wanted(e)
	case t != nil:
		return t.wanted(e)
	}
	return 0, false, false
}

// common is what many read in common. Large numbers of robots among them change little: a network has
// few views in half a day. Safe for concurrent use; the zero value knows nothing.
type common struct {
	mu     sync.Mutex
	half   int64
	by     *[2][places]uint8 // people who have read each page, in this half day and the one before
	shapes *[shapePlaces]shape
	said   [viewCells]uint8 // views of networks in this half day, by their hash
	views  [2]float32       // in both
}

// shape is what is known of the pages of a shape. Counts of earlier half days fade by halving.
type shape struct {
	mark   uint32
	views  [2]float32 // in this half day and the one before
	pages  [2]float32 // that were read, likewise
	pairs  float32    // of views of a page, less those that meet by chance in a place of the table …
	chance float32    // … out of so many pairs of views
	wanted float32    // share of the last views that were of a page which others had read, see common.wanted …
	tries  float32    // … of so many
	spread float32    // the sum of squares of the pairs of each page: what a few pages are read by many may be chance
}

func (x *shape) all() float32 { return x.views[0] + x.views[1] }

const (
	halfDay     = 12 * 3600 // seconds
	places      = 1 << 16
	shapePlaces = 512
	shapeTries  = 4 // places where a shape may be
	viewCells   = 1024
	viewsEach   = 32 // views of a network that count in half a day, of which one in two does: visits begin with what all read
	viewsFrom   = 100
	pairsFrom   = 16  // from so many on something is expected
	sure        = 2   // by so many standard deviations less than what was seen: it may be the few pages that many happened to read
	headTimes   = 3   // everybody reads what is read so many times as often as the pages of its shape on average …
	headLeast   = 4   // … and at least so often
	recentViews = 128 // by which shape.wanted is learnt
)

// find returns the place of a shape, which may have to be made: of the one least read. The caller holds the lock.
func (t *common) find(of uint64) *shape {
	mark := uint32(of>>32) | 1
	worst := (*shape)(nil)
	for i := range uint64(shapeTries) {
		x := &t.shapes[(of+i)%shapePlaces]
		if x.mark == mark {
			return x
		}
		if worst == nil || x.all() < worst.all() {
			worst = x
		}
	}
	*worst = shape{mark: mark}
	return worst
}

// turn begins another half day. The caller holds the lock.
func (t *common) turn(at time.Time) {
	half := at.Unix() / halfDay
	if half <= t.half {
		return
	}
	if t.by != nil {
		if t.by[1] = t.by[0]; half > t.half+1 {
			t.by[1] = [places]uint8{}
		}
		t.by[0] = [places]uint8{}
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
	t.half, t.said = half, [viewCells]uint8{}
}

func placeOf(page uint64) uint64 { return (page ^ page>>23) % places }

// note counts a page that one of the site's people reads for the first time.
func (t *common) note(e *verdict.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(e.At)
	if tally.Fold(e.Path^tally.Hash(e.Subjects[0].ID), 0xd1b54a32d192ed03)&1 == 0 {
		return
	}
	if tally.Hears(t.said[:], tally.Network(e.Subjects[e.N-1].ID), viewsEach) {
		t.view(e)
	}
}

// noteAnybody counts a page that is new to somebody of whom nothing is known: an address has few views in half a day.
func (t *common) noteAnybody(e *verdict.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(e.At)
	if tally.Hears(t.said[:], tally.Hash(e.Subjects[e.N-1].ID), viewsEach) {
		t.view(e)
	}
}

// view counts a view. The caller holds the lock.
func (t *common) view(e *verdict.Event) {
	if t.by == nil {
		t.by, t.shapes = new([2][places]uint8), new([shapePlaces]shape)
	}
	x, i := t.find(e.PathShape), placeOf(e.Path)
	before := float32(t.by[0][i]) + float32(t.by[1][i])
	if t.by[0][i] != math.MaxUint8 {
		t.by[0][i]++
	}
	if !x.head(before) {
		x.meets(before)
		x.pairs += before - (t.views[0]+t.views[1])/places
		x.chance += x.all()
		x.spread += before * before * before // from the square of before*(before-1)/2 to that of before*(before+1)/2
	}
	x.views[0]++
	if before == 0 {
		x.pages[0]++
	}
	t.views[0]++
}

// meets learns from a view how often others have read what somebody reads.
func (x *shape) meets(others float32) {
	x.tries = min(x.tries+1, recentViews)
	x.wanted += (min(others, 1) - x.wanted) / x.tries
}

// head reports whether a page that so many have read is read by everybody.
func (x *shape) head(n float32) bool {
	return n > max(headLeast, headTimes*x.all()/max(x.pages[0]+x.pages[1], 1))
}

// share is Service.Share for those who were counted.
func (t *common) share(e *verdict.Event) (float32, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(e.At)
	if t.by == nil {
		return 0, false
	}
	x, i := t.find(e.PathShape), placeOf(e.Path)
	if x.all() < viewsFrom || x.pairs < pairsFrom || x.head(float32(t.by[0][i])+float32(t.by[1][i])) {
		return 0, false
	}
	least := x.pairs - sure*float32(math.Sqrt(float64(x.spread)))
	return least / x.chance, least > 0
}

// wanted is Service.Wanted for those who were counted.
func (t *common) wanted(e *verdict.Event) (chance float32, read, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(e.At)
	if t.by == nil {
		return 0, false, false
	}
	x, i := t.find(e.PathShape), placeOf(e.Path)
	n := float32(t.by[0][i]) + float32(t.by[1][i])
	if x.all() < viewsFrom || x.head(n) {
		return 0, false, false
	}
	return x.wanted, n > 0, true
}
