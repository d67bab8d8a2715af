package processor

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/cohorts"
	"antirobot/verdict/dwell"
	"antirobot/verdict/tally"
)

// people is what is known about a service's own people. Large numbers of clients cannot distort it: each network has
// one vote however much it requests, a secret hash decides which networks get a seat, and established visitors have the
// last word. Safe for concurrent use.
type people struct {
	secret   uint64
	mu       sync.Mutex
	votes    [peopleVotes]vote
	since    int64             // time of the first vote without parts, in unix seconds
	noneFrom int64             // since when hardly any of the known networks load parts, likewise; 0: some do
	median   atomic.Uint64     // hundredths of parts per page, plus one; 0: unknown
	frames   [peopleVotes]vote // what fills frames of their pages, for each page …
	framesOf framesOf          // … the median
	met0     [peopleBits]uint64
	met1     [peopleBits]uint64 // of the previous half day
	half     int64
	known    atomic.Int64 // networks of established visitors, in this half day and the previous one
	knownDay atomic.Int64
	kinds    dwell.Kinds // on which kinds of pages everybody stays longer
	cohorts  cohorts.Service
}

const (
	peopleVotes = 63
	peopleBits  = 16  // words of 64 bits
	fewVotes    = 8   // from this many on, votes decide alone
	firstVotes  = 3   // from this many on, there is a cautious guess
	guess       = 1   // parts per page, for those who have not voted yet
	noneVotes   = 16  // networks that request no parts, while nobody requests any, that show that the site has none
	someLoad    = 4   // one in so many of the established networks that load parts is enough to show that there are some
	fewParts    = 0.3 // parts per page below which the site's parts are elsewhere
	mostParts   = 12
	halfDay     = 12 * 3600
	voteLasts   = 2 * halfDay
)

// vote is what the visitors of one network show about the site: how many parts a page has, how many calls they make in
// an hour.
type vote struct {
	network     uint64
	at          int64 // unix seconds
	established bool
	value       float32
}

// of is a vote of the same network on something else.
func (v vote) of(value float32) vote {
	v.value = value
	return v
}

// defaultParts are the parts of a page while nobody has voted.
const defaultParts = 3

// usual returns how many parts people's pages have, and whether they have any.
func (p *people) usual() (float32, bool) {
	m := p.median.Load()
	if m == 0 {
		return defaultParts, true
	}
	r := float32(m-1) / 100
	return r, r >= fewParts
}

// told is usual, or NaN if unknown.
func (p *people) told() float32 {
	if r, has := p.usual(); has && p.median.Load() != 0 {
		return r
	}
	return nan
}

// parts reports whether pages are known to have parts.
func (p *people) parts() bool { return !math.IsNaN(float64(p.told())) }

// vote records how many parts a page had for a network's visitors.
func (p *people) vote(v vote) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v.value = min(v.value, mostParts)
	if v.value < fewParts && p.since == 0 {
		p.since = v.at
	}
	if p.seat(&p.votes, &v) {
		p.tally(v.at)
	}
}

// rank orders networks in a way that nobody outside can predict.
func (p *people) rank(network uint64) uint64 {
	h := (network ^ p.secret) * 0x9e3779b97f4a7c15
	return (h ^ h>>31) * 0xbf58476d1ce4e5b9
}

// seat gives a vote its network's place, one that is free or out of date, or that of the network which ranks last;
// false if there is none. Strangers never displace known visitors.
func (p *people) seat(votes *[peopleVotes]vote, v *vote) bool {
	worst := -1
	for i := range votes {
		o := &votes[i]
		switch {
		case o.network == v.network:
			if o.established && !v.established && v.at-o.at < voteLasts {
				return false
			}
			*o = *v
			return true
		case o.network == 0 || v.at-o.at >= voteLasts:
			if worst < 0 || !p.free(&votes[worst], v.at) {
				worst = i
			}
		case o.established && !v.established || worst >= 0 && p.free(&votes[worst], v.at):
		case worst < 0, o.established == votes[worst].established && p.rank(o.network) > p.rank(votes[worst].network),
			!o.established && votes[worst].established:
			worst = i
		}
	}
	if worst < 0 {
		return false
	}
	o := &votes[worst]
	if !p.free(o, v.at) && o.established == v.established && p.rank(v.network) > p.rank(o.network) {
		return false
	}
	*o = *v
	return true
}

func (p *people) free(v *vote, at int64) bool { return v.network == 0 || at-v.at >= voteLasts }

// tally takes the median of the votes that count: those of the established visitors if there are enough, otherwise
// those of everybody who requests parts. While votes are few, a cautious guess votes with them. A network that requests
// no parts says nothing about how many there are, whoever is there: it may be a harvester's that has been established. Only
// if nobody does for hours, or hardly any established visitor does, the site has its parts elsewhere.
func (p *people) tally(at int64) {
	var all, ours [peopleVotes]float32
	n, m, none, known := 0, 0, 0, 0
	for i := range p.votes {
		v := &p.votes[i]
		if p.free(v, at) {
			continue
		}
		if v.established {
			known++
		}
		if v.established && v.value >= fewParts {
			ours[m] = v.value
			m++
		}
		if v.value < fewParts {
			none++
			continue
		}
		all[n] = v.value
		n++
	}
	bare := known >= fewVotes && m < fewVotes && m*someLoad < known
	switch {
	case !bare:
		p.noneFrom = 0
	case p.noneFrom == 0:
		p.noneFrom = at
	}
	switch {
	case bare && (p.median.Load() <= 1 || at-p.noneFrom > halfDay/2):
		p.median.Store(1)
	case bare:
	case known >= fewVotes:
		settle(&p.median, ours[:m])
	case n >= firstVotes:
		for ; n < fewVotes; n++ {
			all[n] = guess
		}
		settle(&p.median, all[:n])
	case n == 0 && none >= noneVotes && at-p.since > halfDay/2:
		p.median.Store(1)
	}
}

// settle stores the median of votes in hundredths, plus one.
func settle(to *atomic.Uint64, list []float32) {
	slices.Sort(list)
	to.Store(uint64(list[len(list)/2]*100) + 1)
}

// voteMedian records something that a network's visitors do with a page, as how many frames it fills, and how much of it is usual: the median of the
// established visitors if there are enough, otherwise that of everybody. Robots only make what they do look usual.
func (p *people) voteMedian(votes *[peopleVotes]vote, of *atomic.Uint64, v vote) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v.value = min(v.value, mostParts)
	if !p.seat(votes, &v) {
		return
	}
	var all, ours [peopleVotes]float32
	n, m := 0, 0
	for i := range votes {
		o := &votes[i]
		if p.free(o, v.at) {
			continue
		}
		all[n] = o.value
		n++
		if o.established {
			ours[m] = o.value
			m++
		}
	}
	list := all[:n]
	if m >= fewVotes {
		list = ours[:m]
	}
	if len(list) < fewVotes {
		of.Store(0)
		return
	}
	settle(of, list)
}

// met records an established visitor's network.
func (p *people) met(network uint64, at time.Time) {
	h := network * 0x9e3779b97f4a7c15 >> 40
	word, bit := h/64%peopleBits, uint64(1)<<(h%64)
	half := at.Unix() / halfDay
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case half == p.half+1:
		p.met1, p.met0, p.half = p.met0, [peopleBits]uint64{}, half
	case half > p.half:
		p.met1, p.met0, p.half = [peopleBits]uint64{}, [peopleBits]uint64{}, half
	case p.met0[word]&bit != 0:
		return
	}
	p.met0[word] |= bit
	n := 0
	for i := range p.met0 {
		n += bits.OnesCount64(p.met0[i] | p.met1[i])
	}
	p.known.Store(int64(n))
	p.knownDay.Store(at.Unix())
}

// settled reports whether the site knows its people: established visitors of enough networks in the last day.
func (p *people) settled(at time.Time, from int) bool {
	return int(p.known.Load()) >= from && (from == 0 || at.Unix()-p.knownDay.Load() < 2*halfDay)
}

// voteEvery is after how many pages of a subject its parts count as a vote.
const (
	voteEvery = 8
	voteLoads = 4 // page loads, at least
)

// votes lets the subject of a session vote on what people's pages consist of.
func (p *Processor) votes(e *verdict.Event, r *rates, s *session, established bool) {
	if s.pages%voteEvery != 0 || s.pages == 0 {
		return
	}
	loads := s.loads()
	if loads < voteLoads {
		return
	}
	network := tally.Network(e.Subjects[e.N-1].ID) | 1
	v := vote{network: network, at: e.At.Unix(), established: established, value: float32(s.parts) / loads}
	r.people.vote(v)
	r.people.voteMedian(&r.people.frames, &r.people.framesOf.Uint64, v.of(s.framesEach()))
}

const (
	trustLoads   = 8   // page loads of a visitor that show how it reads, at least
	trustedParts = 0.5 // share of the subresources of people's pages that theirs have, at least
)
