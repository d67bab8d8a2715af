package newcomers

import (
	"math/bits"
	"time"

	"antirobot/verdict"
)

// That a newcomer is bare is known before it opens the next page. Where robots are a good part of those who arrive as it did, and people
// so many that not all of them may be asked, nearly all of the bare ones are robots. So those are asked when they come back without a
// cookie: each by itself, and only as long as hardly any of them answers. Their program must have sent robots, or one with the same
// fields under another name: people who load nothing by choice share their language with many robots.

// backPeople is how many of those who are asked may answer in a day, out of all visits of people.
const backPeople = 0.002

// doubt has a newcomer asked when it comes back, if it is bare and most likely a robot.
func (s *Service) doubt(x *newcomer, e *verdict.Event, told *Told) {
	if x.waits || x.alive || x.placed || x.asked || x.bot || x.back || x.client == 0 || s.visits < fewVisits || s.back > backPeople*s.visits {
		return
	}
	var ways waysOf
	for like, mark := range x.arrival {
		if ways[like] = s.known(mark); ways[like] == nil {
			return
		}
		ways[like].fade(e.At.UnixMilli())
	}
	var like *way
	share := float32(0)
	for w, usual := range ways.fromWidest {
		share = estimate(s.likely(w, x.shape), w.people, w.peopleDay, usual)
		if w.like <= verdict.LikeLibrary && w.mayBeRobots() {
			like = w
		}
	}
	if like == nil {
		return
	}
	usually := s.usually(like, x.shape, e.At.UnixMilli())
	if robots := share * (1 - bareGoOn); usually < bareLeast || robots < AskFrom*(robots+(1-share)*(1-usually)) {
		return
	}
	x.back = true
	c := like.campaign(1)
	c.Client, c.Until = x.client, time.Unix(x.at+newcomerFor, 0)
	told.add(&c)
}

// mayBeRobots reports whether those of a way who are bare turn out to be robots: a third of the robots that make a way a campaign's are
// enough, as each who is asked has shown a sign of its own.
func (w *way) mayBeRobots() bool {
	return 3*w.robots >= fewRobots[w.like] && 3*bits.OnesCount64(w.networks|w.before) >= fewHomes[w.like] && w.robots >= robotsMost*(w.seen-w.alive)
}

// leave has a newcomer not asked any more.
func (s *Service) leave(x *newcomer, told *Told) {
	if x.back {
		x.back = false
		told.add(&verdict.Campaign{Client: x.client})
	}
}
