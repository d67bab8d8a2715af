// Package entrances learns how people come in at a service: by which pages and at which hours those come who go on from there, and who is
// followed by somebody else (heralds.go); and how many have read each page, which shows what is new to everybody, and what everybody reads.
//
// To who works through a list all pages and hours are alike. So what is said of an entrance is by how much likelier it is for such a one than
// for those who were counted: the logarithm of the odds, NaN while too little is known.
package entrances

import (
	"math"
	"sync"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// Service is what is known of the entrances and pages of one service. Safe for concurrent use; the zero value knows nothing.
type Service struct {
	read    views // by anybody
	doors   views // where those come in who go on from there
	rhythm  rhythm
	ledOn   ledOn // who has shown both
	heralds heralds
}

var nan = float32(math.NaN())

const halfDay = 12 * 3600 // seconds

// Read counts a page that is new to its subject, and returns how many others have loaded it; below zero: unknown.
func (s *Service) Read(page uint32, at time.Time) (others float32) { return s.read.note(page, at) }

// Readers returns how many have loaded a page, without counting anybody; below zero: unknown.
func (s *Service) Readers(page uint32, at time.Time) float32 { return s.read.seen(page, at) }

// Pages is how many pages of the service are known; 0: too few to compute shares.
func (s *Service) Pages() float32 { return s.read.known() }

// Come takes a page load from outside, and returns how odd its page is, compared with those by which people come in and go on, and with those by
// which anybody comes in; and what it costs the visitor that nobody has followed so far. may says that it may be a herald.
func (s *Service) Come(e *verdict.Event, may bool) (people, anybody float32, c Credit) {
	page, pages := uint32(e.Path), s.read.known()
	chance, anybody := s.heralds.entries.come(page, pages, heraldWithin, e.At)
	c = s.heralds.ahead(e, may, chance)
	return s.doors.odd(page, pages, e.At), anybody, c
}

// GoOn takes a page load that the page has led to by which its subject has come in. known says that the site knows the subject.
func (s *Service) GoOn(e *verdict.Event, known bool) {
	if s.ledOn.hears(tally.Network(e.Subjects[e.N-1].ID), known, e.At) {
		s.doors.note(e.RefererPath, e.At)
		s.rhythm.note(e.At)
	}
}

// Part takes a part that somebody loads, and returns who was followed with that.
func (s *Service) Part(e *verdict.Event) Credit { return s.heralds.followed(e) }

// OddHour is how odd it is to come in at a given time.
func (s *Service) OddHour(at time.Time) float32 { return s.rhythm.odd(at) }

// From how many doors in half a day visitors of a network show that they go on: those whom the site knows, and strangers. Cookies
// are free, networks are not.
const (
	knownLedOn    = 128
	strangerLedOn = 2
	ledOnCells    = 4096
)

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
