// Package newcomers learns how robots arrive that come from many addresses, each of which is new: whoever arrives as nearly only
// robots do is asked with the first page (verdict.Campaign).
//
// A way to arrive (ways.go) is known by what became of those who came by it: the judgement banned them, or they did what people do
// (newcomers.go), or they loaded nothing of their page (bare.go), for which some are asked when they come back (back.go). How many
// people a question may concern is shared out among the ways (concerned.go), by the visits of the site's people (visits.go).
package newcomers

import (
	"sync"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// Service learns, for each way to arrive at a service with nothing of ours (verdict.Arrival), what those turn out to be who
// arrive so: robots are those whom the judgement bans, people those who load the parts of their page, follow a link with the cookie
// that they were given, or answer a question, and are not banned later. Where nearly all are robots, from many networks, the next ones are asked with
// their first page; also where nearly all load nothing, see bare. Only sums are kept, which fade within hours. Safe for concurrent use; the zero value is ready for use.
type Service struct {
	mu      sync.Mutex
	at      int64   // unix milliseconds to which visits have faded
	visits  float32 // of people, over the day
	back    float32 // people who were asked when they came back, over the day
	asked   asked
	ways    *[wayPlaces]way
	waiting *[newcomerPlaces]newcomer
	bare    *bare

	half  int64
	heard [visitCells]uint8 // visits of each network, and of each visitor who is known, that have counted in this half day
}

// AskFrom is the share of robots among those who arrive in a way, of whom it is known what they are, from which on some are asked.
const AskFrom = 0.8

const (
	newcomerPlaces = 4096
	newcomerFor    = 3600 // seconds in which a client of an address arrives once

	askAll      = 0.9       // share from which on all are asked,
	askMost     = 1 - 1./64 // but for a few addresses, which show what those who arrive so are
	fewVisits   = 50        // of people in a day, before anybody is asked
	askedPeople = 0.008     // newcomers among the people who arrive so and would be asked, out of all visits of people
	fewPictures = 2         // parts of pages that a person loads
	askFor      = 600       // seconds that newcomers are asked after the last of them, at least, or up to a fifth less …
	askGaps     = 5         // … this many of the gaps that are usual between them …
	askMostFor  = newSpan   // … and at most
	lateLeast   = 0.1       // how often they arrive now, at least, out of how often they did on average
)

// newcomer is a client that has arrived, and what it has turned out to be.
type newcomer struct {
	who         uint64 // address and User-Agent
	at          int64  // unix seconds
	arrival     verdict.Arrival
	parts       uint8 // of pages that it has opened here
	person, bot bool
	placed      bool // people are known at its address, so that it would not be asked, and counts only for what is usual

	shape   uint64 // of the page
	network uint8
	waits   bool  // until it is known whether it is bare
	tells   bool  // its being bare says something of others
	seen    uint8 // in how many of its ways it is counted among those of whom that is known, the closest first
	usual   bool  // nobody was asked who arrived like it
	alive   bool  // it is not bare
	asked   bool  // with the page with which it arrived
	back    bool  // it is to be asked when it comes back
	client  uint32
}

// Arriving is what else must be known of a page load.
type Arriving struct {
	Known  bool // the site knows the visitor
	Placed bool // the site knows people at the address
	Parts  bool // the site's pages have parts
	Shown  bool // its parts would be loaded
	Deep   bool // … and hardly anybody comes by it
}

// Told is what follows from an event, to be told once no lock is held. The zero value is ready for use.
type Told struct {
	Met  bool // the newcomer of the event is a person
	n    int
	list [6 * verdict.Likenesses]verdict.Campaign
}

// Campaigns are those that begin, change or are over; they lie in t, and lack a Salt.
func (t *Told) Campaigns() []verdict.Campaign { return t.list[:t.n] }

func (t *Told) add(x *verdict.Campaign) {
	t.list[t.n] = *x
	t.n++
}

// Who names the client of an address by what stays the same when it is given a cookie.
func Who(e *verdict.Event) uint64 {
	return tally.Fold(tally.Hash(e.Subjects[e.N-1].ID)^e.Agent, 0x9e3779b97f4a7c15) | 1
}

func (s *Service) find(who uint64) *newcomer { return &s.waiting[who>>32%newcomerPlaces] }

// begin makes the tables, which most services of a gateway with many never need.
func (s *Service) begin() {
	if s.ways == nil {
		s.ways, s.waiting, s.bare = new([wayPlaces]way), new([newcomerPlaces]newcomer), new(bare)
	}
}

// Page takes a page that somebody opens, or a call, and adds to told what is to be told of campaigns. It returns whether a newcomer
// arrives with it.
func (s *Service) Page(e *verdict.Event, group uint32, is Arriving, told *Told) (comes bool) {
	a, arrives := e.Arrival(group)
	switch {
	case arrives:
	case e.Partial:
		return false
	case is.Known:
		if e.Page && e.FromOutside() {
			s.mu.Lock()
			s.visit(e, tally.Hash(e.Subjects[0].ID), visitsOfKnown)
			s.resolve(e, told)
			s.mu.Unlock()
		}
		return false
	case !e.Page && !e.Nameless():
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ways == nil && !arrives {
		return false
	}
	s.begin()
	s.resolve(e, told)
	s.again(e, told)
	who, now := Who(e), e.At.Unix()
	x := s.find(who)
	old := x.who == who && now-x.at < newcomerFor
	switch comes = arrives && !old; {
	case comes:
		*x = newcomer{
			who: who, at: now, arrival: a, placed: is.Placed, shape: tally.Fold(e.PathShape, uint64(group)), client: e.Client,
			asked: e.Cause == verdict.CauseCampaign && e.Verdict == verdict.Unsure,
		}
		if is.Shown {
			s.watch(x, tally.Network(e.Subjects[e.N-1].ID), is.Deep)
		}
		if is.Placed {
			break
		}
		s.count(x, e, told, func(w *way, covered bool) {
			if !covered {
				w.came++
				w.lately++
			}
		})
	case arrives || !old:
	case !e.Page:
		s.lives(x, e, told)
	default:
		if e.FromSite() {
			s.lives(x, e, told)
		}
		if e.Paid && (x.alive || !is.Parts) || e.Cookies&client.CookieOurs != 0 && !e.FromOutside() {
			s.person(x, e, told)
		}
	}
	return comes
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
	if s.lives(x, e, told); !e.FromSite() {
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
	if x.placed {
		return
	}
	s.count(x, e, told, func(w *way, _ bool) {
		w.people++
		w.peopleDay++
	})
}

// Solved takes a question that somebody has answered.
func (s *Service) Solved(e *verdict.Event, parts bool, told *Told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		return
	}
	who := Who(e)
	x := s.find(who)
	if x.who != who {
		return
	}
	if x.back {
		s.back++
		s.leave(x, told)
	}
	if x.alive || !parts {
		s.person(x, e, told)
	}
}

// Banned takes somebody whom the judgement bans.
func (s *Service) Banned(e *verdict.Event, group uint32, told *Told) {
	a, arrives := e.Arrival(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ways == nil {
		return
	}
	who := Who(e)
	x := s.find(who)
	switch {
	case x.who == who && x.bot:
		return
	case x.who == who:
	case arrives:
		x = &newcomer{arrival: a}
	default:
		return
	}
	network := tally.Network(e.Subjects[e.N-1].ID) * 0x9e3779b97f4a7c15 >> 40 & 63
	s.count(x, e, told, func(w *way, covered bool) {
		if x.person && !x.placed {
			w.people, w.peopleDay = max(w.people-1, 0), max(w.peopleDay-1, 0)
		}
		w.all++
		if !covered {
			w.robots++
			w.networks |= 1 << network
		}
	})
	if x.usual {
		s.wider(x, e, func(w *way) {
			w.seenDay, w.aliveDay = max(w.seenDay-1, 0), max(w.aliveDay-float32(tally.One(x.alive)), 0)
		})
		x.usual = false
	}
	x.person, x.bot = false, true
}

// count changes the counts of all ways in which somebody has arrived, the closest first. covered says that a closer one is asked:
// robots who arrive in that one say nothing about others who arrive less alike.
func (s *Service) count(x *newcomer, e *verdict.Event, told *Told, f func(w *way, covered bool)) {
	covered, now := false, e.At.Unix()
	var ways waysOf
	for like, mark := range x.arrival {
		w := s.way(mark, verdict.Likeness(like), e.At.UnixMilli()) //nolint:gosec // there are few
		f(w, covered)
		ways[like] = w
		covered = covered || w.until > now
		if like > 0 {
			ways[like-1].wider = mark
		}
	}
	for w, usual := range ways.fromWidest {
		s.judge(w, x.shape, now, usual, told)
	}
}

// judge decides whether newcomers who arrive in a way are asked.
func (s *Service) judge(w *way, shape uint64, now int64, usual float32, told *Told) {
	share := s.ask(w, shape, now, usual)
	switch asked := w.until > now; {
	case share == 0 && !asked, share == w.share && w.until-now > w.askedFor()*4/5:
		return
	case share == 0:
		w.until = 0
	default:
		if w.until <= now {
			s.asked.at = 0 // looked for anew
		}
		w.until = now + w.askedFor()
	}
	w.share = share
	x := w.campaign(share)
	if w.until != 0 {
		x.Until = time.Unix(w.until, 0)
	}
	told.add(&x)
}

// ask returns the share of the newcomers of a way that is to be asked.
func (s *Service) ask(w *way, shape uint64, now int64, usual float32) float32 {
	if w.lately < max(lateLeast*w.came*lateSpan/newSpan, lateLeast) || s.visits < bareVisits {
		return 0
	}
	share := s.bareShare(w, shape, w.at, usual)
	if s.visits >= fewVisits {
		share = max(share, (w.robotShare(s.likely(w, shape), usual)-AskFrom)/(askAll-AskFrom))
	}
	if share <= 0 || !s.fits(w, now) {
		return 0
	}
	const steps = 8
	return askMost * float32(int(min(share, 1)*steps+0.5)) / steps
}

// AreRobots reports whether a client is one of those who were banned, and nearly all who arrive as it did are robots.
func (s *Service) AreRobots(who uint64, at int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		return false
	}
	x := s.find(who)
	if x.who != who || !x.bot {
		return false
	}
	var ways waysOf
	for like, mark := range x.arrival {
		ways[like] = s.way(mark, verdict.Likeness(like), at) //nolint:gosec // there are few
	}
	for w, usual := range ways.fromWidest {
		if w.robotShare(w.robots, usual) >= AskFrom {
			return true
		}
	}
	return false
}
