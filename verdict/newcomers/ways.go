package newcomers

import (
	"math/bits"

	"antirobot/verdict"
	"antirobot/verdict/tally"
)

const (
	wayPlaces = 2048
	wayTries  = 4 // places where a way may be

	robotsMost  = 0.3 // a way is a campaign's if at least this share of all who arrived so are known to be robots
	bannedLeast = 0.5 // robots who were banned, before it counts who is bare: one, in the two hours after
	usualShare  = 0.5 // of robots, where nothing is known of those who arrive less alike
	usualWeight = 1.5 // how many newcomers of whom it is known what they are what is usual counts like
	newSpan     = 3 * 3600
	homeSpan    = newSpan / 2 // in which networks are counted
	lateSpan    = 600.0
)

// How many robots make a way a campaign's, from how many networks, by how much they are alike.
var (
	fewRobots = [verdict.Likenesses]float32{3, 4, 6, 12}
	fewHomes  = [verdict.Likenesses]int{3, 4, 6, 8}
)

// way is what is known of those who arrive in one way.
type way struct {
	mark      uint64
	wider     uint64  // the way of those who arrive less alike, in which all of these arrive, too; 0: none
	at        int64   // unix milliseconds to which the counts have faded
	lately    float32 // arrivals, over ten minutes
	came      float32 // over the hour, like the next ones
	robots    float32
	people    float32
	peopleDay float32 // over the day
	all       float32 // robots, also those who are asked for arriving more alike
	networks  uint64  // a bit for each network of robots in this homeSpan
	span      uint32
	before    uint64 // … in the one before

	// Of those who were watched for whether they are bare.
	seen, alive       float32
	seenDay, aliveDay float32
	nets, netsBefore  uint64

	like  verdict.Likeness
	share float32 // that is asked …
	until int64   // … until then, in unix seconds
}

func (w *way) fade(at int64) {
	if span := spanOf(at); span > w.span {
		w.before = 0
		if span == w.span+1 {
			w.before = w.networks
		}
		w.networks, w.span = 0, span
		if w.nets != 0 {
			w.netsBefore, w.nets = w.nets, 0
		}
	}
	if at <= w.at {
		return
	}
	gap := float64(at-w.at) / 1000
	w.at = at
	w.lately *= tally.Fading(gap, lateSpan)
	h := tally.Fading(gap, newSpan)
	w.came, w.robots, w.people, w.all = w.came*h, w.robots*h, w.people*h, w.all*h
	w.seen, w.alive = w.seen*h, w.alive*h
	d := tally.Fading(gap, day)
	w.peopleDay, w.seenDay, w.aliveDay = w.peopleDay*d, w.seenDay*d, w.aliveDay*d
}

func spanOf(at int64) uint32 { return uint32(at / (homeSpan * 1000)) } //nolint:gosec // after 1970

// way returns the place of a way, which may have to be made; another one gives way that fewer have come by.
func (s *Service) way(mark uint64, like verdict.Likeness, at int64) *way {
	var worst *way
	for i := range uint64(wayTries) {
		w := &s.ways[(mark>>32+i)%wayPlaces]
		if w.mark == mark {
			w.fade(at)
			return w
		}
		if w.mark != 0 {
			w.fade(at)
		}
		if worst == nil || w.came+w.peopleDay < worst.came+worst.peopleDay {
			worst = w
		}
	}
	*worst = way{mark: mark, like: like, at: at, span: spanOf(at)}
	return worst
}

// known returns the place of a way; nil if it has none.
func (s *Service) known(mark uint64) *way {
	if mark == 0 {
		return nil
	}
	for i := range uint64(wayTries) {
		if w := &s.ways[(mark>>32+i)%wayPlaces]; w.mark == mark {
			return w
		}
	}
	return nil
}

// campaign is what gateways are told of a way, but for how long such a share of those who arrive so is asked.
func (w *way) campaign(share float32) verdict.Campaign {
	return verdict.Campaign{Mark: w.mark, Like: w.like, Share: share, Robots: uint32(w.robots), People: uint32(w.people), Bare: uint32(max(w.seen-w.alive, 0))}
}

// likely is how many of a way are robots: those who were banned and, once some were, also those who are bare beyond what people are, of whom most
// are banned later.
func (s *Service) likely(w *way, shape uint64) float32 {
	if w.robots < bannedLeast {
		return w.robots
	}
	usually := s.usually(w, shape, w.at)
	if usually < bareLeast {
		return w.robots
	}
	return max(w.robots, w.seen-w.alive/usually)
}

// homes is from how many networks those come who are likely to be robots.
func (w *way) homes(likely float32) int {
	banned := bits.OnesCount64(w.networks | w.before)
	if likely <= w.robots {
		return banned
	}
	return max(banned, bits.OnesCount64(w.nets|w.netsBefore)-int(w.alive+0.5))
}

// robotShare is the share of robots among those of whom it is known what they are, if so many are likely to be; 0 where few are known to be, or
// most are not known.
func (w *way) robotShare(likely, usual float32) float32 {
	if likely < fewRobots[w.like] || w.homes(likely) < fewHomes[w.like] || likely < robotsMost*w.came {
		return 0
	}
	return estimate(likely, w.people, w.peopleDay, usual)
}

// estimate is the share of robots among those of whom it is known what they are, as if usualWeight more were known, of whom the usual
// share is robots.
func estimate(robots, people, peopleDay, usual float32) float32 {
	return (robots + usualWeight*usual) / (robots + max(people, peopleDay/8) + usualWeight)
}

// usualIn is the estimate for those of a way who don't arrive in a closer one: what is usual there. So three robots are enough where others
// who arrive less alike are robots, too, and a dozen may not be where those are people.
func (w *way) usualIn(closer *way, usual float32) float32 {
	return estimate(max(w.all-closer.all, 0), max(w.people-closer.people, 0), max(w.peopleDay-closer.peopleDay, 0), usual)
}

// waysOf are the ways in which somebody has arrived, the closest first.
type waysOf [verdict.Likenesses]*way

// fromWidest goes through them, those first who arrive least alike, with the share of robots that is usual in each.
func (ways *waysOf) fromWidest(yield func(w *way, usual float32) bool) {
	usual := float32(usualShare)
	for like := len(ways) - 1; yield(ways[like], usual) && like > 0; like-- {
		usual = ways[like].usualIn(ways[like-1], usual)
	}
}

// askedFor is how many seconds newcomers are asked after the last of them: until others should have come long ago.
func (w *way) askedFor() int64 {
	return int64(min(max(askFor, askGaps*newSpan/max(w.came, 1)), askMostFor))
}
