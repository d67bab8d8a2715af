package processor

import (
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// An application that is loaded once opens no further pages: its script shows them, gives each its address, and asks for what is on it. Those calls name the
// page as their Referer, by which it is known where its visitor is, and for how long. They stay calls for limits and budgets.

// whereabouts is what an event shows of where its subject is: it may still be on its last page, that page fills a frame, or a call names another page as its own.
type whereabouts struct{ here, framed, moved bool }

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

// shown is follow for a call that names another page of the site as its own than the one that its subject has loaded: a script has shown it. It returns what the
// subject is like when that is due to be told.
func (p *Processor) shown(e *verdict.Event, r *rates, m manner) (x traits, told bool) {
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
		t.choices.Follow(&r.people.links, last, page, m.learn)
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
