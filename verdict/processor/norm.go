package processor

import (
	"math"
	"slices"
	"sync"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// norms describe what the people of a service are like, learned from visitors who are established there or known by a
// login, separately for each kind of client. Robots among them distort it little: a subject has one seat and a network
// few, and only medians and ranks are derived from the seats. Nothing is reported before enough people are known. Safe
// for concurrent use.
type norms struct {
	mu sync.Mutex
	of [normKinds]*norm
}

// The kinds of clients; each is compared with its own kind.
const (
	normBrowser = iota
	normApp
	normOther // feed readers, scripts
	normKinds
)

func normKind(c client.Claim) int {
	switch {
	case c.Family.Browser():
		return normBrowser
	case c.Family == client.FamilyApp:
		return normApp
	}
	return normOther
}

const (
	normSeats   = 512
	normEnough  = 40  // people needed before anything is reported
	normSome    = 24  // the same of everybody
	normNetwork = 4   // seats of one network
	normOthers  = 128 // … among everybody
	normEvery   = 64  // votes after which the tables are rebuilt
	normFarMost = 8   // of one trait, in deviations
)

// traits are the numbers by which people are compared.
type traits [15]float32

// leastWidth is the smallest assumed difference between people, however alike the known ones are: shares by a tenth,
// logarithms by what a few pages more or less change.
var leastWidth = traits{0.3, 0.2, 0.4, 0.1, 0.1, 0.4, 0.1, 0.1, 0.1, 0.1, 0.2, 0.4, 0.1, 0.4, 0.4}

// norm describes the people with one kind of client.
type norm struct {
	seats  [normSeats]seat
	n      int
	votes  int
	ready  int // number of seats from which the tables were built
	middle traits
	width  traits
	sorted [len(traits{})][]float32 // of the known values
	far    []float32                // distances of people from the middle
}

// seat is one person.
type seat struct {
	subject, network uint64
	x                traits
}

// traits returns the values by which a subject is compared.
func (t *trail) traits() traits {
	share := func(m move) float32 { return float32(t.moves[m]) / float32(max(t.nMoves, 1)) }
	x := traits{
		float32(math.Log(float64(t.quantile(0.5)))), t.sums.spread(), t.sums.skew(), t.within(0, 4), t.within(9, stayBuckets),
		float32(math.Log(float64(max(t.longest, 0.1)))), share(moveBack) + share(moveAgain) + share(moveLoop), share(moveBranch), share(moveChain), share(moveEntry),
		t.depth.spread(), nan, nan, float32(math.Log(float64(max(t.most, 1)))),
		float32(math.Log(float64(max(t.distinctPages(), 1) / float32(max(t.days, 1))))),
	}
	if 4*int(t.moves[moveKept]) > int(t.nMoves) {
		x[7], x[8], x[9] = nan, nan, nan
	}
	if t.known >= 6 {
		x[11], x[12] = t.rarity, float32(t.moves[moveFirst])/float32(t.known)
	}
	return x
}

// vote records what one of the people is like.
func (n *norms) vote(e *verdict.Event, x *traits, network int) {
	v := seat{subject: tally.Hash(e.Subjects[0].ID) | 1, network: tally.Network(e.Subjects[e.N-1].ID), x: *x}
	k := normKind(e.Claim)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of[k] == nil {
		n.of[k] = new(norm)
	}
	n.of[k].vote(&v, network)
}

func (m *norm) vote(v *seat, most int) {
	at, same := -1, 0
	for i := range m.seats[:m.n] {
		if m.seats[i].subject == v.subject {
			at = i
			break
		}
		if m.seats[i].network == v.network {
			if same++; same == most { // the network's own seat goes to the newcomer
				at = i
			}
		}
	}
	switch {
	case at >= 0:
	case m.n < normSeats:
		at = m.n
		m.n++
	default:
		at = int(v.subject>>20) % normSeats
	}
	m.seats[at] = *v
	enough := normEnough
	if most == normOthers {
		enough = normSome
	}
	if m.votes++; m.n >= enough && (m.ready == 0 || m.votes%normEvery == 0) {
		m.tabulate()
	}
}

// tabulate rebuilds the tables.
func (m *norm) tabulate() {
	away := make([]float32, 0, m.n)
	for k := range m.sorted {
		list := m.sorted[k][:0]
		for i := range m.seats[:m.n] {
			if x := m.seats[i].x[k]; x == x {
				list = append(list, x)
			}
		}
		m.sorted[k] = list
		if len(list) < normEnough/2 {
			m.middle[k], m.width[k] = nan, nan
			continue
		}
		slices.Sort(list)
		m.middle[k] = list[len(list)/2]
		away = away[:0]
		for _, x := range list {
			away = append(away, float32(math.Abs(float64(x-m.middle[k]))))
		}
		slices.Sort(away)
		m.width[k] = max(1.4826*away[len(away)/2], leastWidth[k])
	}
	m.far = m.far[:0]
	for i := range m.seats[:m.n] {
		m.far = append(m.far, m.distance(&m.seats[i].x))
	}
	slices.Sort(m.far)
	m.ready = m.n
}

// distance is how far a person is from the middle, in deviations: the root of the mean square over the traits.
func (m *norm) distance(x *traits) float32 {
	var sum float64
	known := 0
	for k, v := range x {
		if v != v || m.width[k] != m.width[k] {
			continue
		}
		z := min(math.Abs(float64((v-m.middle[k])/m.width[k])), normFarMost)
		sum += z * z
		known++
	}
	if known == 0 {
		return nan
	}
	return float32(math.Sqrt(sum / float64(known)))
}

// standing is how a subject compares with the people of its kind; NaN is unknown.
type standing struct {
	distance float32
	far      float32 // the share of the people who are closer to the middle
	even     float32 // … whose times vary more
	fast     float32 // … who stay longer
	rare     float32 // … who read fewer pages that nobody else reads
	straight float32 // … who return to a page more often
	much     float32 // … who read fewer pages a day
	side     float32 // on which side of everybody it is, see sided
}

var unknownStanding = standing{nan, nan, nan, nan, nan, nan, nan, nan}

// compare compares a subject with the people of its kind, and with everybody.
func (p *people) compare(e *verdict.Event, t *trail) standing {
	if t.sums.n < enoughStays {
		return unknownStanding
	}
	x := t.traits()
	s := p.norms.compare(e, t, &x)
	s.side = p.others.side(e, t, &x)
	return s
}

// compare compares a subject with those of its kind.
func (n *norms) compare(e *verdict.Event, t *trail, x *traits) standing {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.of[normKind(e.Claim)]
	if m == nil || m.ready == 0 {
		return unknownStanding
	}
	s := standing{distance: m.distance(x)}
	s.far = rank(m.far, s.distance)
	s.even = 1 - rank(m.sorted[1], spreadMost(t)) // few times may be even by chance
	s.fast = 1 - rank(m.sorted[0], x[0])
	s.rare = rank(m.sorted[12], x[12])
	s.straight = 1 - rank(m.sorted[6], x[6])
	s.much = rank(m.sorted[14], x[14])
	return s
}

// sided are the traits that tell robots from people on sites of every kind, and how much: below 0 where robots have less.
// They stay for a shorter time, hardly ever for long, and more evenly; they open fewer links of one page, go back less, come
// in by addresses that nothing has led to, and go on for longer.
var sided = traits{0: -1, 1: -1.5, 4: -1, 5: -1, 6: -0.5, 7: -1, 9: 1, 13: 0.5}

// sideCertain is how many stays are half of a certainty.
const sideCertain = 6

// side is on which side of everybody a subject is: the mean of its ranks in these traits, each from -1 to 1. Ranks say the
// same wherever the middle is, whatever share of those behind them are robots.
func (n *norms) side(e *verdict.Event, t *trail, x *traits) float32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.of[normKind(e.Claim)]
	if m == nil || m.ready == 0 {
		return nan
	}
	var sum, all float32
	for k, w := range sided {
		if w == 0 {
			continue
		}
		if r := rank(m.sorted[k], x[k]); r == r {
			sum += w * (2*r - 1)
			all += max(w, -w)
		}
	}
	return over(sum, all) * float32(t.sums.n) / (float32(t.sums.n) + sideCertain)
}

// rank is the share of a sorted list that is below a value, with ties counted half: never quite 0 or 1.
func rank(list []float32, x float32) float32 {
	if len(list) < normEnough/2 || x != x {
		return nan
	}
	below, _ := slices.BinarySearch(list, x)
	above, _ := slices.BinarySearch(list[below:], math.Nextafter32(x, float32(math.Inf(1))))
	return (float32(below) + float32(above)/2 + 0.5) / float32(len(list)+1)
}
