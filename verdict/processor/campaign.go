package processor

import (
	"math"
	"math/bits"
	"sync"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// campaigns finds many addresses that do one job at a service: each opens a few pages from outside and follows no link,
// as people sometimes do; but together they open what hardly anybody else opens, where people open what others open,
// too. Only sums are kept, for this half day and the previous one: nobody is convicted by them alone, but by being one
// of many whose own pages are as rare. Safe for concurrent use.
type campaigns struct {
	mu   sync.Mutex
	half int64
	jobs [2][jobKinds]job // of this half day and the previous one, by what the members have in common
	rest [2]job           // what others open from outside
}

// jobKinds: with and without a referer, and with and without our cookie.
const jobKinds = 4

// job is what visitors have opened from outside.
type job struct {
	members [32]uint64 // one bit for each address
	pages   uint32
	rarity  float32 // sum of the binary logarithms of how many others had opened the pages
}

const (
	enoughJobPages  = 30  // of a job, before it says anything …
	enoughRestPages = 100 // … and of others
)

// jobOf returns what a visitor who only comes from outside has in common with others.
func jobOf(e *verdict.Event) int {
	return tally.One(e.Referer != client.RefererNone) + 2*tally.One(e.Cookies&client.CookieOurs != 0)
}

// hops reports whether the subject has only come from outside so far, and has followed no link. Nothing is known of one
// that never says where it comes from.
func (t *trail) hops() bool { return t.nMoves > 0 && t.told && t.moves[moveEntry] == t.nMoves }

// note records a page that was opened from outside and is new to its subject; rarity is the binary logarithm of how many
// others had opened it.
func (c *campaigns) note(e *verdict.Event, hops bool, rarity float32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn(e.At)
	j := &c.rest[0]
	if hops {
		j = &c.jobs[0][jobOf(e)]
	}
	h := addressHash(e) * 0x9e3779b97f4a7c15 >> 40
	j.members[h>>6%uint64(len(j.members))] |= 1 << (h & 63)
	inc(&j.pages)
	j.rarity += rarity
}

// attempt records the page with which a newcomer arrives who is asked because of how it arrives. To others it is a page that
// one of many who do one job wants. Nobody has opened it, so it says nothing about what people read.
func (p *people) attempt(e *verdict.Event) {
	told := e.Referer != client.RefererNone || e.Site != client.SiteUnknown
	if e.Cause != verdict.CauseCampaign || e.Verdict != verdict.Unsure || e.Mode != verdict.Enforce || !told || !e.Claim.Family.Browser() {
		return
	}
	if others := p.entrances.Readers(uint32(e.Path), e.At); others >= 0 {
		p.campaigns.note(e, true, float32(math.Log2(1+float64(others))))
	}
}

// turn begins another half day. The caller holds the lock.
func (c *campaigns) turn(at time.Time) {
	switch half := at.Unix() / halfDay; {
	case half == c.half+1:
		c.jobs[1], c.rest[1] = c.jobs[0], c.rest[0]
		c.jobs[0], c.rest[0], c.half = [jobKinds]job{}, job{}, half
	case half > c.half:
		c.jobs, c.rest, c.half = [2][jobKinds]job{}, [2]job{}, half
	}
}

// sum returns the pages of two half days, and their mean rarity.
func (j *job) sum(o *job) (pages uint32, rarity float32) {
	pages = j.pages + o.pages
	return pages, (j.rarity + o.rarity) / float32(max(pages, 1))
}

// size estimates the addresses of two half days.
func (j *job) size(o *job) float32 {
	n := 0
	for i := range j.members {
		n += bits.OnesCount64(j.members[i] | o.members[i])
	}
	return filled(n, 64*len(j.members))
}

// part is a subject's part in a campaign; NaN is unknown.
type partIn struct {
	size float32 // addresses that do the same
	rare float32 // by how much, in doublings, fewer others open the pages of all these than what people open
	own  float32 // … the subject's own pages
}

var noCampaign = partIn{nan, nan, nan}

// part returns the part of a subject in what others do.
func (c *campaigns) part(e *verdict.Event, t *trail) partIn {
	if !e.Claim.Family.Browser() || !t.hops() || t.known == 0 {
		return noCampaign
	}
	k := jobOf(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn(e.At)
	pages, rarity := c.jobs[0][k].sum(&c.jobs[1][k])
	others, usual := c.rest[0].sum(&c.rest[1])
	if pages < enoughJobPages || others < enoughRestPages {
		return noCampaign
	}
	return partIn{size: c.jobs[0][k].size(&c.jobs[1][k]), rare: usual - rarity, own: usual - t.rarity}
}
