package processor

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/tally"
)

// A portion is what one identity that the site knows has read in its day, which begins with its first document: different
// documents, whoever else reads at its address. Who has read far more than the site's people do is asked until that day ends.
type portion struct {
	since      uint32 // unix seconds; 0: nothing has been read
	docs       uint32
	askedUntil uint32 // unix seconds
	recent     [recentReads]uint32
	turn       uint8
}

// portionKey is an identity at the services of a group.
type portionKey struct {
	subject identity.Subject
	group   uint32
}

// appetite is how much the site's people read in a day: a histogram of the days of its established visitors. Robots among
// them move it little: a network has few votes a day, and the figure is drawn from the middle of the people, not from
// those who read the most. Safe for concurrent use; the zero value knows nothing.
type appetite struct {
	mu    sync.Mutex
	votes [appetiteBins]float32 // of quarters of a power of two
	all   float32
	day   int64
	said  [appetiteCells]uint8 // votes of networks today, by their hash
	most  atomic.Uint32        // the 99.9th percentile; 0: unknown
	usual uint32               // the 95th; 0: unknown
}

const (
	appetiteBins  = 64
	appetiteCells = 1024
	networkDays   = 2    // days of its visitors for which a network votes, on each day
	appetiteFrom  = 50   // votes from which on something is known
	appetiteFades = 0.75 // what is left of a vote after a day
	tailOf        = 3.09 // standard deviations from the median of a normal distribution to its 99.9th percentile …
	usualOf       = 1.64 // … to its 95th …
	fourFifths    = 0.84 // … and to its 80th
)

// vote counts a day in which a visitor of a network read so many documents. It returns what nineteen of twenty people read at the
// most in a day, if that has changed and is known; otherwise 0.
func (a *appetite) vote(network uint64, docs uint32, at int64) (usual uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if day := at / 86400; day > a.day {
		fade := float32(math.Pow(appetiteFades, float64(min(day-a.day, 100))))
		a.all = 0
		for i := range a.votes {
			a.votes[i] *= fade
			a.all += a.votes[i]
		}
		a.day, a.said = day, [appetiteCells]uint8{}
	}
	if docs == 0 || !tally.Hears(a.said[:], network, networkDays) {
		return 0
	}
	a.votes[min(int(4*math.Log2(float64(docs))), appetiteBins-1)]++
	a.all++
	if a.all < appetiteFrom {
		a.most.Store(0)
		a.usual = 0
		return 0
	}
	middle, high := a.quantile(0.5), a.quantile(0.8)
	tail := func(deviations float64) uint32 {
		return uint32(math.Ceil(middle * math.Exp(deviations/fourFifths*math.Log(high/middle))))
	}
	a.most.Store(tail(tailOf))
	if u := tail(usualOf); u != a.usual {
		a.usual = u
		return u
	}
	return 0
}

// quantile returns a quantile, as if the votes of a bin were spread evenly over it.
func (a *appetite) quantile(q float32) float64 {
	left := q * a.all
	for i, n := range a.votes {
		if n >= left && n > 0 {
			return math.Exp2(float64(float32(i)+left/n) / 4)
		}
		left -= n
	}
	return math.Exp2(appetiteBins / 4)
}

// serve counts a document of an identity that the site knows, and asks it when it has read a multiple of what nearly all of
// the site's people read in a day.
func (p *Processor) serve(e *verdict.Event, r *rates, is verdict.Count, known bool) {
	c := &p.cfg.Budget
	sub := e.Subjects[0]
	if !c.Enabled || c.Identity == 0 || !known || sub.Kind == identity.KindIP || !is.Read() || e.Paid || e.Partner || e.Kind != verdict.EventRequest {
		return
	}
	now := uint32(e.At.Unix())
	limit := uint32(math.MaxUint32)
	if most := r.people.appetite.most.Load(); most > 0 {
		limit = uint32(max(c.Identity*float64(most), c.IdentityLeast))
	}
	sh, h := p.portions.Lock(portionKey{sub, r.Group})
	x, _ := p.portions.Open(sh, h, portionKey{sub, r.Group})
	over := x.take(e.Target, now)
	docs, until := x.docs, x.since+86400
	asked := docs > limit && x.askedUntil <= now
	if asked {
		x.askedUntil = max(until, now+leastAsk)
		until = x.askedUntil
	}
	sh.Unlock()
	if over > 0 {
		if usual := r.people.appetite.vote(tally.Network(e.Subjects[e.N-1].ID), over, e.At.Unix()); usual > 0 {
			p.keeper.Portion(r.Group, usual, e.At)
		}
	}
	if asked && !e.Again {
		p.askOne(e, r, docs, limit, time.Unix(int64(until), 0))
	}
}

// take counts a document, and returns how many were read in the day that has ended with it; 0: none has.
func (x *portion) take(target uint64, now uint32) (over uint32) {
	if now-x.since >= 86400 && now > x.since {
		over = x.docs
		*x = portion{since: now, askedUntil: x.askedUntil}
	}
	short := uint32(target>>32) | 1
	for _, r := range x.recent {
		if r == short {
			return over // it is read again and again
		}
	}
	x.recent[x.turn%recentReads] = short
	x.turn++
	x.docs++
	return over
}

// askOne asks one identity until its day ends. That is no offence: it counts in no history, and does not grow.
func (p *Processor) askOne(e *verdict.Event, r *rates, docs, limit uint32, until time.Time) {
	if p.spares(e.Subjects[e.N-1].ID) {
		return
	}
	err := p.keeper.BanSoon(bans.Ban{
		Subject: e.Subjects[0], Until: until, Made: e.At, Service: r.Name, Source: bans.SourceProcessor, Score: 1, Threshold: r.Threshold,
		Reason:  fmt.Sprintf("it has read %d documents in its day, more than %d: a multiple of what nearly all of the site's people read", docs, limit),
		Factors: [bans.MaxFactors]bans.Factor{{Name: "documents_1d", Value: float32(docs)}, {Name: "limit", Value: float32(limit)}},
	})
	if err != nil {
		p.banErrors.Inc()
		p.log.Warn().Err(err).Str("subject", e.Subjects[0].String()).Msg("an identity could not be asked")
		return
	}
	p.bans.Inc()
}
