package processor

import (
	"sync/atomic"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// fetched remembers which parts of pages each client has loaded: a browser keeps them, and one that begins anew with each page loads them again.
// In each place there is one, half of its hash above the second in which it was loaded. Other parts push it out, and then it is new
// again: what a client loads says less about it where the table is small, never more. Safe for concurrent use.
type fetched []atomic.Uint32

// keptFor is how many seconds a part is expected to be kept: shorter than the 18 hours after which the seconds begin anew.
const keptFor = 3600

// newFetched makes places for a quarter of the sessions: one byte for each of these.
func newFetched(sessions int) fetched {
	n := 1024
	for n < sessions/4 {
		n *= 2
	}
	return make(fetched, n)
}

// load records that a client loads a part, and returns how many seconds ago it did so before; 0: not within the hour.
func (f fetched) load(e *verdict.Event) uint16 {
	client := tally.Hash(e.Subjects[0].ID)
	if e.Subjects[0].Kind == identity.KindIP { // of several behind an address only those with one name are mistaken for each other
		client ^= e.Agent
	}
	h := (client*0x9e3779b97f4a7c15 ^ e.Target) * 0xbf58476d1ce4e5b9
	h ^= h >> 31
	now := uint16(e.At.Unix()) //nolint:gosec // their difference counts
	tag := uint32(h>>32) | 1<<31
	before := f[h%uint64(len(f))].Swap(tag&^0xffff | uint32(now))
	if before&^0xffff != tag&^0xffff || now-uint16(before) > keptFor {
		return 0
	}
	return now - uint16(before)
}

// again takes a part that a page consists of: whether its subject has loaded it before it loaded that page, and is given it once more.
func (p *Processor) again(e *verdict.Event) {
	if e.Method != 'G' || e.Status != 200 || e.Partner {
		return
	}
	age := p.fetched.load(e)
	if age == 0 {
		return
	}
	sh, h := p.trails.lock(e.Subjects[0])
	defer sh.mu.Unlock()
	if t := sh.find(h, e.Subjects[0]); t != nil && t.at/1000 > e.At.Unix()-int64(age) {
		inc(&t.again)
	}
}

// again returns how many parts people load once more with a page, which they would not if the site let browsers keep them; NaN if unknown.
func (p *people) again() float32 {
	n := p.repeatsOf.Load()
	if n == 0 {
		return nan
	}
	return float32(n-1) / 100
}

// voteMedian records something that a network's visitors do with a page, as how many parts they load once more, and how much of it is usual: the median of the
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
