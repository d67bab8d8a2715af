package processor

import (
	"sync"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// A door is a page by which somebody comes in from outside. People come in by the same pages as others and go on from
// there; to who works through a list all pages are alike. So a door counts when somebody has gone on from it.

const (
	mostLedOn = 16 // doors by which one subject shows where people come in and go on
	mostDoors = 32 // doors of a subject that add up
	oddUnit   = 256

	// From how many doors in half a day visitors of a network show that they go on: those whom the site knows, and strangers. Cookies
	// are free, networks are not.
	knownLedOn    = 128
	strangerLedOn = 2
	ledOnCells    = 4096

	// A door by which several times as many come in as by others is no odd one, even if hardly any go on from it, as from
	// what a newsletter names. Robots that come in anywhere make all doors alike.
	sharedDoor = -0.9
)

// enter takes a page load: by whom who may be a herald or follow one, by which page somebody comes in, and where those go
// on who have come in. s is a copy, which learns of it, too. known says that the site knows the visitor.
func (p *Processor) enter(e *verdict.Event, r *rates, s *session, known bool) (deep bool) {
	if !e.Page || e.Partner || !e.Claim.Family.Browser() {
		return false
	}
	door, odd, stopped := uint8(0), nan, e.Verdict != verdict.Human && e.Mode == verdict.Enforce
	switch page := uint32(e.Path); {
	case e.FromOutside():
		may := e.Subjects[0].Kind == identity.KindIP && e.Cookies&client.CookieOurs == 0 && s.parts == 0
		pages := r.people.views.known()
		chance, all := r.people.heralds.entries.come(page, pages, heraldWithin, e.At)
		p.credit(e, r.people.heralds.ahead(e, may, chance))
		door, deep = doorOf(page), all >= sharedDoor && !(may && p.precedes(e))
		if e.Status >= 400 || door == s.door || stopped {
			return deep
		}
		odd = r.people.doors.odd(page, pages, e.At)
		if odd == odd && all < sharedDoor {
			odd = min(odd, all)
		}
	case s.door == 0 || stopped || e.RefererPath == page: // who is stopped, or loads the page again, has not gone on
		return false
	case e.Referer == client.RefererSame && doorOf(e.RefererPath) == s.door && s.nDoors < mostLedOn:
		if r.people.ledOn.hears(tally.Network(e.Subjects[e.N-1].ID), known || p.keeper.Returns(e), e.At) {
			r.people.doors.note(e.RefererPath, e.At)
			r.people.rhythm.note(e.At)
		}
	}
	s.through(door, odd)
	sh, h := p.sessions.lock(e.Subjects[0])
	defer sh.mu.Unlock()
	if known := sh.find(h, e.Subjects[0]); known != nil {
		known.through(door, odd)
	}
	return deep
}

// ledOn is how often the visitors of each network have shown in this half day by which pages and when people come in. Networks that
// share a cell show it together. Safe for concurrent use; the zero value is ready for use.
type ledOn struct {
	mu   sync.Mutex
	half int64
	said [ledOnCells]uint8
}

// hears reports whether another visitor of a network counts, and counts it.
func (l *ledOn) hears(network uint64, known bool, at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if half := at.Unix() / halfDay; half > l.half {
		l.half, l.said = half, [ledOnCells]uint8{}
	}
	most := uint8(strangerLedOn)
	if known {
		most = knownLedOn
	}
	return tally.Hears(l.said[:], network, most)
}

func doorOf(page uint32) uint8 { return uint8(page>>24) | 1 }

// through records the door by which the subject has come in, 0 if it has gone on, and how odd it is.
func (s *session) through(door uint8, odd float32) {
	s.door = door
	if odd != odd {
		return
	}
	inc(&s.nDoors)
	mean := float32(s.doors) / oddUnit
	ease(&mean, odd, uint32(s.nDoors))
	s.doors = int16(min(max(mean, -100), 100) * oddUnit)
}
