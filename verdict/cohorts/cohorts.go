// Package cohorts learns how robots arrive that come from many addresses, each of which is new. A cohort is the first requests with
// one fingerprint (verdict.Event.Arrival). While nearly all recent members of a cohort turn out to be proven robots, its next members
// are challenged with their first page (verdict.Campaign).
package cohorts

import (
	"math/bits"
	"sync"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// Service keeps the cohorts of one service. A member is a robot if it is banned. It is a person if it loads subresources of its page,
// follows a link with the cookie that it was given, or solves a challenge, and is not banned later. Counts fade within hours. Safe for
// concurrent use; the zero value is ready for use.
type Service struct {
	mu      sync.Mutex
	cohorts *[cohortPlaces]cohort
	members *[memberPlaces]member
}

const (
	cohortPlaces = 2048
	cohortTries  = 4 // places where a cohort may be
	memberPlaces = 4096
	memberFor    = 3600     // seconds in which a client of an address arrives once
	challengeFor = 3600     // seconds that a cohort is challenged after its last robot
	countSpan    = 3 * 3600 // seconds in which counts fade to a third
	networkSpan  = countSpan / 2

	nearlyAll   = 0.9 // share of robots among the members that are known
	fewRobots   = 3   // robots that are enough, from as many networks,
	knownShare  = 0.3 // if this share of all members is known to be robots
	priorWeight = 1   // members for which the prior counts: half of them are robots
	personParts = 2   // subresources that a person loads
)

// cohort counts the first requests with one fingerprint.
type cohort struct {
	mark     uint64
	at       int64 // unix milliseconds to which the counts have faded
	came     float32
	robots   float32
	people   float32
	networks uint64 // a bit for each network of robots in this networkSpan
	before   uint64 // and in the one before
	span     uint32
	until    int64 // unix seconds until when it is challenged
}

// member is a client that has arrived.
type member struct {
	client      uint64 // address and User-Agent, which stay the same when it is given a cookie
	at          int64  // unix seconds
	mark        uint64
	parts       uint8
	person, bot bool
}

// News follows from an event, and is published once no lock is held. The zero value is ready for use.
type News struct {
	Person   bool // the client of the event is a person
	Changes  bool // Campaign begins, goes on or is over
	Campaign verdict.Campaign
}

// Client names the client of an address by what stays the same when it is given a cookie.
func Client(e *verdict.Event) uint64 {
	return tally.Fold(tally.Hash(e.Subjects[e.N-1].ID)^e.Agent, 0x9e3779b97f4a7c15) | 1
}

// member returns the member that is the client of an event; nil if it has not arrived lately.
func (s *Service) member(e *verdict.Event) *member {
	if s.members == nil {
		return nil
	}
	id := Client(e)
	if m := s.place(id); m.client == id && e.At.Unix()-m.at < memberFor {
		return m
	}
	return nil
}

func (s *Service) place(client uint64) *member { return &s.members[client>>32%memberPlaces] }

// Page takes a page load of a client that the site does not know.
func (s *Service) Page(e *verdict.Event, group uint32, news *News) {
	mark, arrives := e.Arrival(group)
	if !arrives && (e.Partial || !e.Page) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.member(e)
	switch {
	case m == nil && arrives:
		if s.members == nil { // most services of a gateway never need them
			s.cohorts, s.members = new([cohortPlaces]cohort), new([memberPlaces]member)
		}
		id := Client(e)
		*s.place(id) = member{client: id, at: e.At.Unix(), mark: mark}
		s.count(mark, e, news, func(c *cohort) { c.came++ })
	case m != nil && !arrives && e.Cookies&client.CookieOurs != 0 && !e.FromOutside():
		s.person(m, e, news)
	}
}

// Part takes a subresource.
func (s *Service) Part(e *verdict.Event, news *News) {
	if !e.Nameless() || !e.FromSite() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.member(e); m != nil && !m.person && !m.bot {
		if m.parts++; m.parts >= personParts {
			s.person(m, e, news)
		}
	}
}

// Solved takes a solved challenge.
func (s *Service) Solved(e *verdict.Event, news *News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.member(e); m != nil {
		s.person(m, e, news)
	}
}

func (s *Service) person(m *member, e *verdict.Event, news *News) {
	if m.person || m.bot {
		return
	}
	m.person, news.Person = true, true
	s.count(m.mark, e, news, func(c *cohort) { c.people++ })
}

// Banned takes a client that is banned.
func (s *Service) Banned(e *verdict.Event, group uint32, news *News) {
	mark, arrives := e.Arrival(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.member(e)
	if m == nil && arrives && s.cohorts != nil {
		m = &member{mark: mark}
	}
	if m == nil || m.bot {
		return
	}
	network := tally.Network(e.Subjects[e.N-1].ID) * 0x9e3779b97f4a7c15 >> 40 & 63
	s.count(m.mark, e, news, func(c *cohort) {
		if m.person {
			c.people = max(c.people-1, 0)
		}
		c.robots++
		c.networks |= 1 << network
		if c.robotic() {
			c.until = e.At.Unix() + challengeFor
			news.Changes = true
		}
	})
	m.person, m.bot = false, true
}

// count changes the counts of a cohort, and ends its challenges when its members are robots no more.
func (s *Service) count(mark uint64, e *verdict.Event, news *News, change func(c *cohort)) {
	c, now := s.cohort(mark, e.At.UnixMilli()), e.At.Unix()
	change(c)
	if c.until > now && !c.robotic() {
		c.until, news.Changes = 0, true
	}
	if !news.Changes {
		return
	}
	news.Campaign = verdict.Campaign{Mark: mark, Robots: uint32(c.robots), People: uint32(c.people)}
	if c.until != 0 {
		news.Campaign.Until = time.Unix(c.until, 0)
	}
}

// cohort returns the place of a fingerprint; a new one displaces the smallest.
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
		if worst == nil || c.came < worst.came {
			worst = c
		}
	}
	*worst = cohort{mark: mark, at: at, span: spanOf(at)}
	return worst
}

func spanOf(at int64) uint32 { return uint32(at / (networkSpan * 1000)) } //nolint:gosec // after 1970

func (c *cohort) fade(at int64) {
	if span := spanOf(at); span > c.span {
		c.before = 0
		if span == c.span+1 {
			c.before = c.networks
		}
		c.networks, c.span = 0, span
	}
	if at > c.at {
		left := tally.Fading(float64(at-c.at)/1000, countSpan)
		c.came, c.robots, c.people, c.at = c.came*left, c.robots*left, c.people*left, at
	}
}

// robotic reports whether nearly all members are robots, as far as is known of enough of them.
func (c *cohort) robotic() bool {
	if c.robots < fewRobots || bits.OnesCount64(c.networks|c.before) < fewRobots || c.robots < knownShare*c.came {
		return false
	}
	return (c.robots+priorWeight/2.)/(c.robots+c.people+priorWeight) >= nearlyAll
}
