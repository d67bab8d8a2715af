package processor

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// An application that is loaded once opens no further pages: its script shows them, gives each its address, and asks for what is on it. Those calls name the
// page as their Referer, by which it is known where its visitor is, and for how long. They stay calls for limits and budgets. Others ask for whole pages, and put
// them in the place of the one that is open (Turbo, pjax), or browsers do so ahead of their visitors: then the parts of such a page name it.

// whereabouts is what an event shows of where its subject is: it may still be on its last page, that page fills a frame, or a call names another page as its own.
type whereabouts struct{ here, framed, moved bool }

// here reports whether the subject may still be on its last page at the given time: it has loaded that within half an hour, or a script of the page
// has called since.
func (s *session) here(at time.Time) bool { return at.UnixMilli()-s.page <= visitGap*1000 }

// mostFrames is how many frames of a page may be filled before that is seen as loading pages, while it is not known how many the site's pages have.
const mostFrames = 8

// framesOf is how many frames the pages of a service have, by what its visitors show: hundredths of the median, plus one; 0: not known.
type framesOf struct{ atomic.Uint64 }

// most is how many frames of a page may be filled: none where people's pages have none, or calling all it reads frames would hide whoever does it.
func (f *framesOf) most() uint8 {
	n := f.Load()
	if n == 0 {
		return mostFrames
	}
	return uint8(min((2*(n-1)+99)/100, mostFrames))
}

// fills reports whether an event fills a frame of the page that the subject is on, as its browser says.
func (s *session) fills(e *verdict.Event) bool {
	return e.Headers&client.InFrame != 0 && e.Referer == client.RefererSame && uint16(e.RefererPath>>16)|1 == s.on
}

// frames reports whether what fills a frame is no page load, where a page has no more than so many frames.
func (s *session) frames(e *verdict.Event, most uint8) bool {
	frame := frameBit(uint32(e.Path))
	if s.framed&frame == 0 && bits.OnesCount64(s.framed) >= int(most) {
		return false
	}
	s.framed |= frame // one that is filled again and again is one
	return true
}

// framesEach is how many frames of each page the subject has filled, whatever they were seen as.
func (s *session) framesEach() float32 {
	fills := float32(s.shares[shareFills])
	return fills / max(float32(s.shares[shareLoad])+float32(s.shares[shareFramed])-fills, 1)
}

func frameBit(page uint32) uint64 { return bit(uint64(page), 64) }

// fetchedPages is how many of the last pages are remembered that scripts have asked for.
const fetchedPages = 4

// opens notes a page that was loaded, or that a script, or a browser ahead of its visitor, has asked for: whether somebody gets to see that will show.
func (s *session) opens(e *verdict.Event) {
	if e.Page {
		if on := shortPath(e); on != s.on && !s.fills(e) { // a page that is loaded again has no more frames by that
			s.on, s.framed = on, 0
		}
		return
	}
	s.fetched[s.fetches%fetchedPages] = shortPath(e)
	s.fetches++
}

// swaps reports whether a part of a page is one of a page that was asked for so: that has been put in the place of the one that the subject was on.
func (s *session) swaps(e *verdict.Event) bool {
	on := uint16(e.RefererPath>>16) | 1
	if on == s.on || !slices.Contains(s.fetched[:], on) {
		return false
	}
	s.on, s.framed = on, 0
	return true
}

// moves notes the page that a call names as its own, and reports whether that is another one than the subject was on: an application that is loaded once gives its
// pages their addresses by script. In a log without types of answers some calls are taken for pages, and others would show the same pages once more.
func (s *session) moves(e *verdict.Event) (moved bool) {
	on := uint16(e.RefererPath>>16) | 1
	if e.Method != 'G' && e.Method != 'P' || e.Referer != client.RefererSame || e.Partial && e.Type == verdict.TypeUnknown || on == s.on ||
		s.framed&frameBit(e.RefererPath) != 0 {
		return false
	}
	s.on, s.framed = on, 0
	return true
}

// shows adds a page to the trail of its subject that the Referer of an event has shown it to be on.
func (p *Processor) shows(e *verdict.Event, r *rates) {
	page := e.RefererPath
	sh, h := p.trails.Lock(e.Subjects[0])
	defer sh.Unlock()
	t, _ := p.trails.Open(sh, h, e.Subjects[0])
	last := t.pages[(t.turn-1)%trailPages]
	if page == last || t.among(page) && (t.shown&shownNew == 0 || e.Method != 'G') { // in another tab, or left just now
		return
	}
	if stayed := t.show(e, page, !t.has(page)); stayed == stayed {
		t.dwell.Stay(&r.people.kinds, stayed)
	}
	t.dwell.Open(0)
}

// byScript says of the last page of a trail that a script has shown it. 0: it was loaded.
type byScript uint8

const (
	shownAtAll byScript = 1 << iota
	shownNew            // it is no page to which the subject has come back
	shownFresh          // nor one that it has ever seen
)

// show adds a page that a script has shown, and returns how long the subject was on the one before, as load does.
func (t *trail) show(e *verdict.Event, page uint32, fresh bool) (stayed float32) {
	gap := t.opens(e)
	stayed = nan
	if t.loads > 0 && gap <= visitGap {
		stayed = t.stay(float32(gap))
	}
	t.passes(page)
	t.moves[moveKept]++
	t.shown = shownAtAll
	if !t.among(page) {
		t.shown |= shownNew
	}
	if fresh {
		t.shown |= shownFresh
	}
	t.read(e, page)
	t.target = page
	return stayed
}

// announced forgets that a script has shown a page which is loaded now: what a load shows is known of it, and is not to be hidden by a call
// that names its page before.
func (t *trail) announced(e *verdict.Event) {
	if t.shown == 0 || t.pages[(t.turn-1)%trailPages] != uint32(e.Path) {
		return
	}
	t.turn--
	switch page := uint32(e.Path); {
	case t.shown&shownFresh != 0:
		t.seen[page>>6%4] &^= 1 << (page % 64)
	case page == t.pages[(t.turn-2)%trailPages]:
		dec(&t.moves[moveBack])
	default:
		dec(&t.moves[moveLoop])
	}
	dec(&t.moves[moveKept])
	dec(&t.nMoves)
	dec(&t.loads)
	dec(&t.visit)
	if t.loads == 0 {
		dec(&t.visits)
	}
	t.shown, t.target = 0, 0
}

func dec[T uint8 | uint32](n *T) {
	if *n > 0 {
		*n--
	}
}
