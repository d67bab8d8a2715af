package processor

import (
	"slices"
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

// mostFrames is how many frames of a page may be filled before that is seen as loading pages.
const mostFrames = 8

// frames reports whether an event fills a frame of the page that the subject is on, as its browser says.
func (s *session) frames(e *verdict.Event) bool {
	if e.Headers&client.InFrame == 0 || e.Referer != client.RefererSame || uint16(e.RefererPath>>16)|1 != s.on || s.framed >= mostFrames {
		return false
	}
	s.framed++
	s.frame = shortPath(e)
	return true
}

// fetchedPages is how many of the last pages are remembered that scripts have asked for.
const fetchedPages = 4

// opens notes a page that was loaded, or that a script, or a browser ahead of its visitor, has asked for: whether somebody gets to see that will show.
func (s *session) opens(e *verdict.Event) {
	if e.Page {
		s.on, s.framed = shortPath(e), 0
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
	if e.Method != 'G' && e.Method != 'P' || e.Referer != client.RefererSame || e.Partial && e.Type == verdict.TypeUnknown || on == s.on || on == s.frame {
		return false
	}
	s.on, s.framed = on, 0
	return true
}

// shows adds a page to the trail of its subject that the Referer of an event has shown it to be on.
func (p *Processor) shows(e *verdict.Event, r *rates, known bool) {
	learn := known || p.keeper.Returns(e) || !r.people.settled(e.At, p.cfg.Budget.KnownFrom)
	if x, told := p.shown(e, r, learn); told {
		r.people.others.vote(e, &x, normOthers)
	}
}

// shown is shows for the trail alone; learn: others are compared with the links that the subject follows. It returns what the subject is like when that is due to be told.
func (p *Processor) shown(e *verdict.Event, r *rates, learn bool) (x traits, told bool) {
	page := e.RefererPath
	sh, h := p.trails.lock(e.Subjects[0])
	defer sh.mu.Unlock()
	t, _ := p.trails.open(sh, h, e.Subjects[0])
	last := t.pages[(t.turn-1)%trailPages]
	if page == last || t.among(page) && (!t.shown || e.Method != 'G') { // in another tab, or left just now
		return x, false
	}
	fresh, others := !t.has(page), float32(-1)
	if fresh {
		others = r.people.entrances.Read(page, e.At)
	}
	if stayed := t.show(e, page, fresh, others); stayed == stayed {
		t.dwell.Stay(&r.people.kinds, stayed)
	}
	t.dwell.Open(0)
	if fresh && t.loads > 1 {
		t.choices.Follow(&r.people.links, last, page, learn)
	}
	if t.tells() {
		return t.traits(), true
	}
	return x, false
}

// show adds a page that a script has shown, and returns how long the subject was on the one before, as load does.
func (t *trail) show(e *verdict.Event, page uint32, fresh bool, others float32) (stayed float32) {
	gap := t.opens(e)
	stayed = nan
	if t.loads > 0 && gap <= visitGap {
		stayed = t.stay(float32(gap))
	}
	t.passes(page)
	t.moves[moveKept]++
	t.shown = !t.among(page)
	t.read(e, page, fresh, others)
	t.target = page
	return stayed
}
