// Package newcomers learns how robots arrive that come from many addresses, each of which is new: a newcomer that arrives with
// the fingerprint of which nearly all recent arrivals were banned is asked with its first page (verdict.Campaign).
package newcomers

import (
	"math/bits"
	"sync"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// Service counts, for each fingerprint with which newcomers arrive at a service (verdict.Event.Arrival), what they turn out to
// be: robots are those that the judgement bans; people load the parts of their page, follow a link with the cookie that they
// were given, or answer a question, and are not banned later. Only sums are kept, which fade within hours. Safe for concurrent
// use; the zero value is ready for use.
type Service struct {
	mu      sync.Mutex
	at      int64   // unix milliseconds to which visits have faded
	visits  float32 // of people, over the day
	cohorts *[cohortPlaces]cohort
	waiting *[newcomerPlaces]newcomer

	half  int64
	heard [visitCells]uint8 // visits of each network, and of each visitor that is known, that have counted in this half day
}

// askFrom is the share of robots among the arrivals with a fingerprint from which on some are asked.
const askFrom = 0.8

const (
	cohortPlaces = 2048
	cohortTries  = 4 // places where a cohort may be

	newcomerPlaces = 4096
	newcomerFor    = 3600 // seconds in which a client of an address arrives once

	askAll      = 0.9       // share from which on all are asked,
	askMost     = 1 - 1./64 // but for a few addresses, which show what those that arrive so are
	fewRobots   = 3         // robots that are enough, from …
	fewHomes    = 3         // … this many networks
	robotsMost  = 0.3       // share of all arrivals that must be known to be robots
	usualWeight = 1.5       // arrivals for which the prior counts: half of them are robots
	fewVisits   = 50        // of people in a day, before anybody is asked
	askedPeople = 0.008     // people among those that are asked, out of all visits of people
	fewPictures = 2         // parts of pages that a person loads
	askFor      = 600       // seconds that newcomers are asked after the last of them, at least, or up to a fifth less …
	askGaps     = 5         // … this many of the gaps that are usual between them …
	askMostFor  = newSpan   // … and at most
	lateLeast   = 0.1       // how often they arrive now, at least, out of how often they did on average

	newSpan  = 3 * 3600
	homeSpan = newSpan / 2 // in which networks are counted
	lateSpan = 600.0
	day      = 86400.0
	halfDay  = 12 * 3600

	// Visits of newcomers of a network that count in half a day, and of a visitor that the site knows.
	visitsOfNetwork = 8
	visitsOfKnown   = 4
	visitCells      = 4096
)

// cohort is what is known of the arrivals with one fingerprint.
type cohort struct {
	mark      uint64
	at        int64   // unix milliseconds to which the counts have faded
	lately    float32 // arrivals, over ten minutes
	came      float32 // over three hours, like the next two
	robots    float32
	people    float32
	peopleDay float32 // over the day
	networks  uint64  // a bit for each network of robots in this homeSpan
	before    uint64  // … in the one before
	span      uint32
	share     float32 // that is asked …
	until     int64   // … until then, in unix seconds
}

// newcomer is a client that has arrived, and what it has turned out to be.
type newcomer struct {
	who         uint64 // address and User-Agent
	at          int64  // unix seconds
	mark        uint64
	parts       uint8 // of pages that it has opened here
	person, bot bool
	placed      bool // people are known at its address, so that it would not be asked
	alive       bool // it has loaded something, or gone on
}

// Arriving is what else must be known of a page load.
type Arriving struct {
	Known  bool // the site knows the visitor
	Placed bool // the site knows people at the address
	Parts  bool // the site's pages have parts
}

// Told is what follows from an event, to be told once no lock is held. The zero value is ready for use.
type Told struct {
	Met      bool             // the newcomer of the event is a person
	Changes  bool             // Campaign begins, changes or is over …
	Campaign verdict.Campaign // … and lacks a Salt
}

// Who names the client of an address by what stays the same when it is given a cookie.
func Who(e *verdict.Event) uint64 {
	return tally.Fold(tally.Hash(e.Subjects[e.N-1].ID)^e.Agent, 0x9e3779b97f4a7c15) | 1
}

func (s *Service) find(who uint64) *newcomer { return &s.waiting[who>>32%newcomerPlaces] }

// Page takes a page that is opened, or a call.
func (s *Service) Page(e *verdict.Event, group uint32, is Arriving, told *Told) {
	mark, arrives := e.Arrival(group)
	switch {
	case arrives:
	case e.Partial:
		return
	case is.Known:
		if e.Page && e.FromOutside() {
			s.mu.Lock()
			s.visit(e, tally.Hash(e.Subjects[0].ID), visitsOfKnown)
			s.mu.Unlock()
		}
		return
	case !e.Page && !e.Nameless():
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cohorts == nil {
		if !arrives {
			return
		}
		s.cohorts, s.waiting = new([cohortPlaces]cohort), new([newcomerPlaces]newcomer) // most services of a gateway never need them
	}
	who, now := Who(e), e.At.Unix()
	x := s.find(who)
	old := x.who == who && now-x.at < newcomerFor
	switch {
	case arrives && !old:
		*x = newcomer{who: who, at: now, mark: mark, placed: is.Placed}
		if !is.Placed {
			s.count(mark, e, told, func(c *cohort) { c.came++; c.lately++ })
		}
	case arrives || !old:
	case !e.Page:
		x.alive = true
	default:
		x.alive = x.alive || e.FromSite()
		if e.Paid && (x.alive || !is.Parts) || e.Cookies&client.CookieOurs != 0 && !e.FromOutside() {
			s.person(x, e, told)
		}
	}
}

// Part takes a part of a page.
func (s *Service) Part(e *verdict.Event, told *Told) {
	if !e.Nameless() {
		return
	}
	who := Who(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		return
	}
	x := s.find(who)
	if x.who != who || x.person || x.bot {
		return
	}
	if x.alive = true; !e.FromSite() {
		return
	}
	if x.parts++; x.parts >= fewPictures {
		s.person(x, e, told)
	}
}

// person records that a newcomer is a person, as far as can be seen.
func (s *Service) person(x *newcomer, e *verdict.Event, told *Told) {
	if x.person || x.bot {
		return
	}
	x.person, told.Met = true, true
	s.visit(e, tally.Network(e.Subjects[e.N-1].ID), visitsOfNetwork)
	if !x.placed {
		s.count(x.mark, e, told, func(c *cohort) { c.people++; c.peopleDay++ })
	}
}

// Solved takes a question that was answered; parts says that the site's pages have parts.
func (s *Service) Solved(e *verdict.Event, parts bool, told *Told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		return
	}
	who := Who(e)
	if x := s.find(who); x.who == who && (x.alive || !parts) {
		s.person(x, e, told)
	}
}

// Banned takes a visitor that the judgement bans.
func (s *Service) Banned(e *verdict.Event, group uint32, told *Told) {
	mark, arrives := e.Arrival(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cohorts == nil {
		return
	}
	who := Who(e)
	x := s.find(who)
	switch {
	case x.who == who && x.bot:
		return
	case x.who == who:
	case arrives:
		x = &newcomer{mark: mark}
	default:
		return
	}
	network := tally.Network(e.Subjects[e.N-1].ID) * 0x9e3779b97f4a7c15 >> 40 & 63
	s.count(x.mark, e, told, func(c *cohort) {
		if x.person && !x.placed {
			c.people, c.peopleDay = max(c.people-1, 0), max(c.peopleDay-1, 0)
		}
		c.robots++
		c.networks |= 1 << network
	})
	x.person, x.bot = false, true
}

// visit counts a visit of a person, unless too many of the same have counted: inventing visits has no more people asked.
func (s *Service) visit(e *verdict.Event, of uint64, most uint8) {
	if half := e.At.Unix() / halfDay; half > s.half {
		s.half, s.heard = half, [visitCells]uint8{}
	}
	if !tally.Hears(s.heard[:], of, most) {
		return
	}
	if ms := e.At.UnixMilli(); ms > s.at {
		s.visits *= tally.Fading(float64(ms-s.at)/1000, day)
		s.at = ms
	}
	s.visits++
}

// count changes the counts of a cohort, and decides whether its newcomers are asked.
func (s *Service) count(mark uint64, e *verdict.Event, told *Told, f func(c *cohort)) {
	c, now := s.cohort(mark, e.At.UnixMilli()), e.At.Unix()
	f(c)
	share := s.ask(c, now)
	switch asked := c.until > now; {
	case share == 0 && !asked, share == c.share && c.until-now > c.askedFor()*4/5:
		return
	case share == 0:
		c.until = 0
	default:
		c.until = now + c.askedFor()
	}
	c.share = share
	told.Changes = true
	told.Campaign = verdict.Campaign{Mark: c.mark, Share: share, Robots: uint32(c.robots), People: uint32(c.people)}
	if c.until != 0 {
		told.Campaign.Until = time.Unix(c.until, 0)
	}
}

// cohort returns the place of a fingerprint, which may have to be made; another one gives way with which fewer have arrived.
func (s *Service) cohort(mark uint64, at int64) *cohort {
	var worst *cohort
	for i := range uint64(cohortTries) {
		c := &s.cohorts[(mark>>32+i)%cohortPlaces]
		if c.mark != 0 {
			c.fade(at)
		}
		if c.mark == mark {
			return c
		}
		if worst == nil || c.came+c.peopleDay < worst.came+worst.peopleDay {
			worst = c
		}
	}
	*worst = cohort{mark: mark, at: at, span: spanOf(at)}
	return worst
}

func spanOf(at int64) uint32 { return uint32(at / (homeSpan * 1000)) } //nolint:gosec // after 1970

func (c *cohort) fade(at int64) {
	if span := spanOf(at); span > c.span {
		c.before = 0
		if span == c.span+1 {
			c.before = c.networks
		}
		c.networks, c.span = 0, span
	}
	if at <= c.at {
		return
	}
	gap := float64(at-c.at) / 1000
	c.at = at
	c.lately *= tally.Fading(gap, lateSpan)
	h := tally.Fading(gap, newSpan)
	c.came, c.robots, c.people = c.came*h, c.robots*h, c.people*h
	c.peopleDay *= tally.Fading(gap, day)
}

// robotShare is the share of robots among the arrivals of which it is known what they are; 0 where few are known to be robots, or most
// are not known.
func (c *cohort) robotShare() float32 {
	if c.robots < fewRobots || bits.OnesCount64(c.networks|c.before) < fewHomes || c.robots < robotsMost*c.came {
		return 0
	}
	return (c.robots + usualWeight/2) / (c.robots + max(c.people, c.peopleDay/8) + usualWeight)
}

// ask returns the share of the newcomers of a cohort that is to be asked.
func (s *Service) ask(c *cohort, now int64) float32 {
	if c.lately < max(lateLeast*c.came*lateSpan/newSpan, lateLeast) || s.visits < fewVisits {
		return 0
	}
	share := (c.robotShare() - askFrom) / (askAll - askFrom)
	if share <= 0 || !s.fits(c, now) {
		return 0
	}
	const steps = 8
	return askMost * float32(int(min(share, 1)*steps+0.5)) / steps
}

// fits reports whether a cohort may be asked beside all others that are asked: together they concern few people.
func (s *Service) fits(c *cohort, now int64) bool {
	people := c.peopleDay
	for i := range s.cohorts {
		if o := &s.cohorts[i]; o != c && o.until > now {
			people += o.peopleDay
		}
	}
	return people <= askedPeople*s.visits
}

// askedFor is how many seconds newcomers are asked after the last of them: until others should have come long ago.
func (c *cohort) askedFor() int64 {
	return int64(min(max(askFor, askGaps*newSpan/max(c.came, 1)), askMostFor))
}
