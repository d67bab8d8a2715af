package processor

import (
	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// A door is a page by which somebody comes in from outside. People come in by the same pages as others and go on from
// there; to who works through a list all pages are alike. So a door counts when somebody has gone on from it.

const (
	mostLedOn = 16 // doors by which one subject shows where people come in and go on
	mostDoors = 32 // doors of a subject that add up
	oddUnit   = 256

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
	door, odd, stopped := uint8(0), nan, e.Stopped()
	switch page := uint32(e.Path); {
	case e.FromOutside():
		may := e.Subjects[0].Kind == identity.KindIP && e.Cookies&client.CookieOurs == 0 && s.parts == 0
		among, all, credit := r.people.entrances.Come(e, may)
		p.credit(e, credit)
		door, deep = doorOf(page), all >= sharedDoor && !(may && p.precedes(e))
		if e.Status >= 400 || door == s.door || stopped {
			return deep
		}
		if odd = among; odd == odd && all < sharedDoor {
			odd = min(odd, all)
		}
	case s.door == 0 || stopped || e.RefererPath == page: // who is stopped, or loads the page again, has not gone on
		return false
	case e.Referer == client.RefererSame && doorOf(e.RefererPath) == s.door && s.nDoors < mostLedOn:
		r.people.entrances.GoOn(e, known || p.keeper.Returns(e))
	}
	s.through(door, odd)
	sh, h := p.sessions.lock(e.Subjects[0])
	defer sh.mu.Unlock()
	if known := sh.find(h, e.Subjects[0]); known != nil {
		known.through(door, odd)
	}
	return deep
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
