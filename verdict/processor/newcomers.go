package processor

import (
	"sync"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// newcomers learns, for each way to arrive at a service with nothing of ours (verdict.Arrival), what those turn out to be who
// arrive so: robots are those whom the judgement bans, people those who load the parts of their page, follow a link with the cookie
// that they were given, or answer a question, and are not banned later. Where nearly all are robots, from many networks, the next ones are asked with
// their first page; also where nearly all load nothing, see bare. Only sums are kept, which fade within hours. Safe for concurrent use; the zero value is ready for use.
type newcomers struct {
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

const (
	newcomerPlaces = 4096
	newcomerFor    = 3600 // seconds in which a client of an address arrives once

	askFrom     = 0.8       // share of robots among those of whom it is known what they are, from which on some are asked …
	askAll      = 0.9       // … and all are,
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

// whoOf names the client of an address by what stays the same when it is given a cookie.
func whoOf(e *verdict.Event) uint64 { return fold(addressHash(e)^e.Agent, 0x9e3779b97f4a7c15) | 1 }

func (n *newcomers) find(who uint64) *newcomer { return &n.waiting[who>>32%newcomerPlaces] }

// begin makes the tables, which most services of a gateway with many never need.
func (n *newcomers) begin() {
	if n.ways == nil {
		n.ways, n.waiting, n.bare = new([wayPlaces]way), new([newcomerPlaces]newcomer), new(bare)
	}
}

// page takes a page that somebody opens, or a call, and adds to told what is to be told of campaigns. It returns whether a newcomer
// arrives with it.
func (n *newcomers) page(e *verdict.Event, group uint32, is arriving, told *toldCampaigns) (comes bool) {
	a, arrives := e.Arrival(group)
	switch {
	case arrives:
	case e.Partial:
		return false
	case is.known:
		if e.Page && fromOutside(e) {
			n.mu.Lock()
			n.visit(e, hashID(e.Subjects[0].ID), visitsOfKnown)
			n.resolve(e, told)
			n.mu.Unlock()
		}
		return false
	case !e.Page && !e.Nameless():
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ways == nil && !arrives {
		return false
	}
	n.begin()
	n.resolve(e, told)
	n.again(e, told)
	who, now := whoOf(e), e.At.Unix()
	x := n.find(who)
	old := x.who == who && now-x.at < newcomerFor
	switch comes = arrives && !old; {
	case comes:
		*x = newcomer{
			who: who, at: now, arrival: a, placed: is.placed, shape: fold(e.PathShape, uint64(group)), client: e.Client,
			asked: e.Cause == verdict.CauseCampaign && e.Verdict == verdict.Unsure,
		}
		if is.shown {
			n.watch(x, networkHash(e.Subjects[e.N-1].ID), is.deep)
		}
		if is.placed {
			break
		}
		n.count(x, e, told, func(w *way, covered bool) {
			if !covered {
				w.came++
				w.lately++
			}
		})
	case arrives || !old:
	case !e.Page:
		n.lives(x, e, told)
	default:
		if fromSite(e) {
			n.lives(x, e, told)
		}
		if e.Paid && (x.alive || !is.parts) || e.Cookies&client.CookieOurs != 0 && !fromOutside(e) {
			n.person(x, e, told)
		}
	}
	return comes
}

// part takes a part of a page.
func (n *newcomers) part(e *verdict.Event, told *toldCampaigns) {
	if !e.Nameless() {
		return
	}
	who := whoOf(e)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		return
	}
	x := n.find(who)
	if x.who != who || x.person || x.bot {
		return
	}
	if n.lives(x, e, told); !fromSite(e) {
		return
	}
	if x.parts++; x.parts >= fewPictures {
		n.person(x, e, told)
	}
}

// person records that a newcomer is a person, as far as can be seen.
func (n *newcomers) person(x *newcomer, e *verdict.Event, told *toldCampaigns) {
	if x.person || x.bot {
		return
	}
	x.person, told.met = true, true
	n.visit(e, networkHash(e.Subjects[e.N-1].ID), visitsOfNetwork)
	if x.placed {
		return
	}
	n.count(x, e, told, func(w *way, _ bool) {
		w.people++
		w.peopleDay++
	})
}

// solved takes a question that somebody has answered.
func (n *newcomers) solved(e *verdict.Event, parts bool, told *toldCampaigns) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		return
	}
	who := whoOf(e)
	x := n.find(who)
	if x.who != who {
		return
	}
	if x.back {
		n.back++
		n.leave(x, told)
	}
	if x.alive || !parts {
		n.person(x, e, told)
	}
}

// banned takes somebody whom the judgement bans.
func (n *newcomers) banned(e *verdict.Event, group uint32, told *toldCampaigns) {
	a, arrives := e.Arrival(group)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ways == nil {
		return
	}
	who := whoOf(e)
	x := n.find(who)
	switch {
	case x.who == who && x.bot:
		return
	case x.who == who:
	case arrives:
		x = &newcomer{arrival: a}
	default:
		return
	}
	network := networkHash(e.Subjects[e.N-1].ID) * 0x9e3779b97f4a7c15 >> 40 & 63
	n.count(x, e, told, func(w *way, covered bool) {
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
		n.wider(x, e, func(w *way) {
			w.seenDay, w.aliveDay = max(w.seenDay-1, 0), max(w.aliveDay-float32(b2i(x.alive)), 0)
		})
		x.usual = false
	}
	x.person, x.bot = false, true
}

// count changes the counts of all ways in which somebody has arrived, the closest first. covered says that a closer one is asked:
// robots who arrive in that one say nothing about others who arrive less alike.
func (n *newcomers) count(x *newcomer, e *verdict.Event, told *toldCampaigns, f func(w *way, covered bool)) {
	covered, now := false, e.At.Unix()
	var ways waysOf
	for like, mark := range x.arrival {
		w := n.way(mark, verdict.Likeness(like), e.At.UnixMilli()) //nolint:gosec // there are few
		f(w, covered)
		ways[like] = w
		covered = covered || w.until > now
		if like > 0 {
			ways[like-1].wider = mark
		}
	}
	for w, usual := range ways.fromWidest {
		n.judge(w, x.shape, now, usual, told)
	}
}

// judge decides whether newcomers who arrive in a way are asked.
func (n *newcomers) judge(w *way, shape uint64, now int64, usual float32, told *toldCampaigns) {
	share := n.ask(w, shape, now, usual)
	switch asked := w.until > now; {
	case share == 0 && !asked, share == w.share && w.until-now > w.askedFor()*4/5:
		return
	case share == 0:
		w.until = 0
	default:
		if w.until <= now {
			n.asked.at = 0 // looked for anew
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
func (n *newcomers) ask(w *way, shape uint64, now int64, usual float32) float32 {
	if w.lately < max(lateLeast*w.came*lateSpan/newSpan, lateLeast) || n.visits < bareVisits {
		return 0
	}
	share := n.bareShare(w, shape, w.at, usual)
	if n.visits >= fewVisits {
		share = max(share, (w.robotShare(n.likely(w, shape), usual)-askFrom)/(askAll-askFrom))
	}
	if share <= 0 || !n.fits(w, now) {
		return 0
	}
	const steps = 8
	return askMost * float32(int(min(share, 1)*steps+0.5)) / steps
}

// areRobots reports whether a client is one of those who were banned, and nearly all who arrive as it did are robots.
func (n *newcomers) areRobots(who uint64, at int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		return false
	}
	x := n.find(who)
	if x.who != who || !x.bot {
		return false
	}
	var ways waysOf
	for like, mark := range x.arrival {
		ways[like] = n.way(mark, verdict.Likeness(like), at) //nolint:gosec // there are few
	}
	for w, usual := range ways.fromWidest {
		if w.robotShare(w.robots, usual) >= askFrom {
			return true
		}
	}
	return false
}
