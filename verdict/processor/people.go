package processor

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/verdict"
)

// people is what is known of a service's own people: robust against who comes in masses, since each network has one vote,
// and the established have the last word. Safe for concurrent use.
type people struct {
	mu       sync.Mutex
	votes    [peopleVotes]vote
	next     int
	without  int           // votes of none …
	since    int64         // … and the first, in unix seconds
	median   atomic.Uint64 // hundredths of parts for each page; 0: nothing is known
	met0     [peopleBits]uint64
	met1     [peopleBits]uint64 // of the half day before
	half     int64
	known    atomic.Int64 // networks of established visitors, in this half day and the one before
	knownDay atomic.Int64
}

const (
	peopleVotes = 63
	peopleBits  = 16  // words of 64 bits
	fewVotes    = 8   // from which on votes count
	manyWithout = 64  // votes of no parts at all that show that the site has none
	fewParts    = 0.3 // parts for each page, below which the site's parts are elsewhere
	mostParts   = 12
	halfDay     = 12 * 3600
)

// vote is how many parts a page of one network's visitors has.
type vote struct {
	network     uint64
	established bool
	ratio       float32
}

// defaultParts are the parts of a page while nobody has voted.
const defaultParts = 3

// usual returns how many parts the pages of people have, and whether they have any.
func (p *people) usual() (float32, bool) {
	m := p.median.Load()
	if m == 0 {
		return defaultParts, true
	}
	r := float32(m-1) / 100
	return r, r >= fewParts
}

// told is usual, or unknown.
func (p *people) told() float32 {
	if r, has := p.usual(); has && p.median.Load() != 0 {
		return r
	}
	return nan
}

// vote notes how many parts a page of a subject has had. A network's last vote stands; when enough are of established
// visitors only theirs count. Who asks for no parts says nothing of how many there are; only where nobody does, for hours,
// the site has its parts elsewhere.
func (p *people) vote(v vote, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.ratio < fewParts {
		if p.since == 0 {
			p.since = at.Unix()
		}
		if p.without++; p.without >= manyWithout && at.Unix()-p.since > halfDay/2 && p.median.Load() == 0 {
			p.median.Store(1)
		}
		return
	}
	v.ratio = min(v.ratio, mostParts)
	if i := p.seat(&v); i >= 0 {
		p.votes[i] = v
		p.tally()
	}
}

// seat returns where a vote goes: its network's place, or the oldest; -1 if strangers would push out who is known.
func (p *people) seat(v *vote) int {
	for i := range p.votes {
		if p.votes[i].network == v.network {
			if p.votes[i].established && !v.established {
				return -1
			}
			return i
		}
	}
	for range p.votes {
		i := p.next
		p.next = (p.next + 1) % peopleVotes
		if v.established || !p.votes[i].established {
			return i
		}
	}
	return -1
}

// tally takes the median of the votes that count.
func (p *people) tally() {
	var all, ours [peopleVotes]float32
	n, m := 0, 0
	for _, v := range p.votes {
		if v.network == 0 {
			continue
		}
		all[n] = v.ratio
		n++
		if v.established {
			ours[m] = v.ratio
			m++
		}
	}
	list := all[:n]
	if m >= fewVotes {
		list = ours[:m]
	}
	if len(list) < fewVotes {
		return
	}
	slices.Sort(list)
	p.median.Store(uint64(list[len(list)/2]*100) + 1)
}

// met notes an established visitor's network.
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

// settled reports whether the site knows its people: established visitors of so many networks in the last day.
func (p *people) settled(at time.Time, from int) bool {
	return int(p.known.Load()) >= from && (from == 0 || at.Unix()-p.knownDay.Load() < 2*halfDay)
}

// voteEvery is after how many pages of a subject its parts are counted as a vote.
const (
	voteEvery = 8
	voteLoads = 4 // page loads, at least
)

// votes lets the subject of a session vote on what a page of people is made of.
func (r *rates) votes(e *verdict.Event, s *session, established bool) {
	if s.pages%voteEvery != 0 || s.pages == 0 {
		return
	}
	loads := float32(s.pages) * float32(s.shares[shareLoad]) / float32(max(s.sharesOf, 1))
	if loads < voteLoads {
		return
	}
	network := hashID(networkOf(e.Subjects[e.N-1].ID)) | 1
	r.people.vote(vote{network: network, established: established, ratio: float32(s.parts) / loads}, e.At)
}

// What one address says of its company in an hour, at most; the more it does, the less each counts. So nobody who comes in
// masses changes what others are compared with.
const (
	voicePages = 60
	voiceParts = 600
)

// voice is the weight of a page or a part in what is known of the company of others: of User-Agents, shapes, services.
// What was stopped has none.
func (p *Processor) voice(e *verdict.Event, part bool) float32 {
	if e.Verdict == verdict.Robot && e.Mode == verdict.Enforce {
		return 0
	}
	var of [4]verdict.Prefix
	verdict.Prefixes(&of, e.Subjects[e.N-1].ID, voiceGroup)
	sh, h := p.budgets.lock(of[0])
	defer sh.mu.Unlock()
	b, _ := p.budgets.open(sh, h, of[0])
	b.fade(e.At.UnixMilli())
	i, most := 0, float32(voicePages)
	if part {
		i, most = 1, voiceParts
	}
	b.said[i]++
	return min(1, most/b.said[i])
}

// voiceGroup stands for all services together.
const voiceGroup = 0

// weight is what an event weighs in a group: the company of strangers hears each address only so often.
func (k groupKey) weight(voice float32) float32 {
	switch k.role {
	case roleAgent, roleShape, roleService, roleAll:
		return voice
	}
	return 1
}
