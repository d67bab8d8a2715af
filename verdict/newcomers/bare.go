package newcomers

import (
	"math"
	"math/bits"

	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// A newcomer whose browser shows pages loads a part of its page within seconds, or goes on from there. One who does neither is bare:
// some people's browsers have everything already, or load nothing by choice, and nearly all robots that read from many addresses load
// nothing. So where newcomers of many networks arrive alike, and far more of them are bare than is usual at this site, they are robots, before any of
// them has shown another sign. Only arrivals by pages by which hardly anybody comes count: where a link becomes popular, what looks at it
// for others (mail scanners, previews) is bare, too. A network is heard twice an hour, so that masses say nothing.

const (
	againFor   = 900  // seconds for which one who is bare is looked at again
	bareAfter  = 15   // seconds after which an arrival is bare by which nothing was loaded
	barePlaces = 1024 // arrivals that are waited for
	bareHears  = 2    // arrivals of a network in an hour
	bareCells  = 4096
	bareGoOn   = 0.02 // share of robots that are not bare
	bareWeight = 8    // how many newcomers count like what is known of others than those who come by such pages; of others, that all are bare
	bareMost   = 0.9  // share of people who are not bare, at most
	bareLeast  = 0.15 // where fewer are not, nothing is said
	bareVisits = 20   // of people in a day, before anybody is asked
	bareRamp   = 3    // log-odds between nobody and everybody who is asked
	bareRobots = 3    // log-odds, at most, that it adds if others who arrive less alike turned out to be robots; as many networks fewer are enough
)

// bareSure is how sure it must be that those who arrive in a way are robots, as log-odds, by how much they are alike.
var bareSure = [verdict.Likenesses]float32{6, 7, 9, 11}

// bareHomes is from how many networks they must come.
var bareHomes = [verdict.Likenesses]int{6, 6, 8, 10}

// bare are the arrivals that are waited for, and before them those that were found bare and may come back.
type bare struct {
	hour  int64
	said  [bareCells]uint8
	who   [barePlaces]uint64
	from  uint32 // of the first that waits
	n     uint32
	old   uint32 // of the first that may come back …
	again uint32 // … and of the next that is looked at again
}

// watch waits for what becomes of an arrival. deep says that it may say something of others who arrive so.
func (s *Service) watch(x *newcomer, network uint64, deep bool) {
	b := s.bare
	if hour := x.at / 3600; hour > b.hour {
		b.hour, b.said = hour, [bareCells]uint8{}
	}
	if b.n == barePlaces/2 || !deep && b.n >= barePlaces/4 {
		return
	}
	x.waits, x.tells = true, deep && tally.Hears(b.said[:], network, bareHears)
	x.network = uint8(network * 0x9e3779b97f4a7c15 >> 40 & 63)
	b.who[(b.from+b.n)%barePlaces] = x.who
	b.n++
}

// resolve looks at arrivals of which it is known by now whether they are bare: two at most, as each adds one.
func (s *Service) resolve(e *verdict.Event, told *Told) {
	for range 2 {
		b := s.bare
		if b == nil || b.n == 0 {
			return
		}
		who := b.who[b.from%barePlaces]
		if x := s.find(who); x.who == who && x.waits {
			if e.At.Unix()-x.at < bareAfter {
				return
			}
			if x.waits = false; x.tells {
				s.found(x, e, told)
			}
			s.doubt(x, e, told)
		}
		b.from++
		b.n--
	}
}

// again looks again at some who were found bare a while ago, as more may be known by now of those who arrive as they did.
func (s *Service) again(e *verdict.Event, told *Told) {
	b := s.bare
	for range 4 {
		for b.old != b.from && (b.from-b.old > barePlaces/2 || !s.stays(b.who[b.old%barePlaces], e)) {
			b.old++
		}
		if b.old == b.from {
			return
		}
		if b.again++; b.again-b.old >= b.from-b.old {
			b.again = b.old
		}
		if who := b.who[b.again%barePlaces]; s.stays(who, e) {
			s.doubt(s.find(who), e, told)
		}
	}
}

// stays reports whether somebody arrived so lately as to be looked at again.
func (s *Service) stays(who uint64, e *verdict.Event) bool {
	x := s.find(who)
	return x.who == who && e.At.Unix()-x.at < againFor
}

// found counts an arrival of which it is known whether it is bare.
func (s *Service) found(x *newcomer, e *verdict.Event, told *Told) {
	now := e.At.Unix()
	x.usual = true
	for like, mark := range x.arrival {
		x.usual = x.usual && s.way(mark, verdict.Likeness(like), e.At.UnixMilli()).until <= now //nolint:gosec // there are few
	}
	alive := float32(tally.One(x.alive))
	if !x.placed {
		s.count(x, e, told, func(w *way, covered bool) {
			if covered {
				return
			}
			x.seen++
			w.seen++
			w.alive += alive
			w.nets |= 1 << x.network
			if x.usual {
				w.seenDay++
				w.aliveDay += alive
			}
		})
	}
	if x.usual {
		s.wider(x, e, func(w *way) {
			w.came++
			w.seenDay++
			w.aliveDay += alive
		})
	}
}

// wider calls f with what is counted of all who arrive by such pages, and of all who arrive.
func (s *Service) wider(x *newcomer, e *verdict.Event, f func(w *way)) {
	for _, mark := range [...]uint64{x.shape, serviceWay} {
		f(s.way(mark, verdict.Likenesses, e.At.UnixMilli()))
	}
}

// serviceWay is the mark of all who arrive at a service.
const serviceWay = 0x7d1b5a4c3e2f1901

// lives records that a newcomer is not bare.
func (s *Service) lives(x *newcomer, e *verdict.Event, told *Told) {
	if x.alive {
		return
	}
	x.alive = true
	s.leave(x, told)
	if left := x.seen; left > 0 {
		s.count(x, e, told, func(w *way, _ bool) {
			if left == 0 {
				return
			}
			left--
			w.alive++
			if x.usual {
				w.aliveDay++
			}
		})
	}
	if x.usual {
		s.wider(x, e, func(w *way) { w.aliveDay++ })
	}
}

// usually returns the share of the newcomers of other ways who are not bare: of those who come by such pages, as far as they are known,
// else of all.
func (s *Service) usually(w *way, shape uint64, at int64) float32 {
	share := float32(0)
	for _, mark := range [...]uint64{serviceWay, shape} {
		o := s.way(mark, verdict.Likenesses, at)
		seen := max(o.seenDay-w.seenDay, 0)
		alive := min(max(o.aliveDay-w.aliveDay, 0), seen)
		share = (alive + bareWeight*share) / (seen + bareWeight)
	}
	return min(share, bareMost)
}

// bareShare returns the share of the newcomers of a way that is to be asked because nearly all of them are bare, where usually most are not.
func (s *Service) bareShare(w *way, shape uint64, at int64, usual float32) float32 {
	nets := bits.OnesCount64(w.nets | w.netsBefore)
	before := max(min(logf(usual/(1-usual)), bareRobots), 0)
	if nets < bareHomes[w.like]-int(before+0.5) {
		return 0
	}
	usually := s.usually(w, shape, at)
	if usually < bareLeast {
		return 0
	}
	alive := max(w.alive, w.peopleDay/2)
	robots := 1 - (alive+0.5)/(w.seen+1)/usually
	share := (robots - AskFrom) / (askAll - AskFrom)
	if share <= 0 {
		return 0
	}
	// The logarithm of the odds that they are robots; what comes from one network may be one client's.
	sure := min(1, float32(bareHears*nets)/w.seen) * ((w.seen-alive)*logf((1-bareGoOn)/(1-usually)) + alive*logf(bareGoOn/usually))
	return min(share, (before+sure-bareSure[w.like])/bareRamp, 1)
}

func logf(x float32) float32 { return float32(math.Log(float64(x))) }
