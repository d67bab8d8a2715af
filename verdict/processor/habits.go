package processor

import (
	"math"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// A habit is how a client of an address loads the parts of its pages. Robots that keep cookies behind the address of an office are as many
// clients as they like, and young cookies are judged together with their address. But each of these clients shows by itself that it loads
// nothing. Those that do are listed (verdict.Cacher.ListBare): their debts are their own, which colleagues' parts pay for no longer, together
// they have what a household has, and they alone are asked when they have read more, or stopped by a ban that is due to what they read. Whoever
// is not listed counts as before, so that another name for each page buys nothing.

// habit is what is known of a client. Safe for use under its table's lock.
type habit struct {
	at     uint32  // unix seconds to which the debt has faded
	from   uint32  // since when it is known, likewise
	listed uint32  // until when it is listed, likewise; 0: it is not
	debt   float32 // its pages that came without their parts, over the day
	pages  float32 // all that it has read, likewise …
	loaded float32 // … and for how many its parts were enough
	stops  float32 // what counts like such for having been stopped
}

const (
	habitFrom   = 8   // documents of an address in a day, from which on it is noted how its clients read
	habitBare   = 2   // pages for which a browser may not have loaded anything yet; with more it is listed …
	habitMost   = 6   // … and for so many it has paid in advance, at most
	habitStop   = 0.5 // pages without their parts that one counts as which was stopped: people answer, or leave …
	habitCrowd  = 0.7 // … and in a crowd, where nothing else is held against it
	habitCache  = 4   // who has loaded the parts of one in so many pages has the others in a cache
	habitBeside = 12  // … but for so many pages beside others who are asked by themselves
	habitsPart  = 8   // budgets for each habit
	habitList   = 24 * time.Hour
	habitRenew  = time.Hour // before the end of which it is listed again
)

// habitual reports whether who loads no parts of pages has that habit: pages have parts here, and what is one is known. Beside a balancer,
// which does not say what the answer was, parts may pass for pages until the site's people are known.
func habitual(e *verdict.Event, r *rates) bool {
	_, parts := r.people.usual()
	return parts && (!e.Advised || r.people.parts())
}

// habit notes what a client loads, and whether it is listed. The caller holds the lock of the budget of its address.
func (p *Processor) habit(b *budget, e *verdict.Event, r *rates, ch *charge) {
	page := ch.is.Read() && !ch.again && !ch.alone && !ch.plain
	answered := ch.paid && ch.is.Read()
	if ch.known || !ch.parts || e.Browser == 0 || !page && !answered && ch.is != verdict.CountPart || b.docs < habitFrom {
		return
	}
	x, unlock := p.openHabit(e)
	defer unlock()
	if answered {
		if x.stops = 0; x.listed != 0 {
			p.list(b, x, e)
		}
		return
	}
	ch.pays = x.debt < 0
	was := x.debt
	if page {
		x.debt += ch.base
		x.pages += ch.base
	} else {
		x.loaded += ch.cover
		x.debt = max(x.debt-ch.cover, -habitMost)
	}
	if p.list(b, x, e) {
		ch.turned, ch.owed, ch.from = max(was, 0), max(was, 0), x.since(b)
	}
	ch.listed, ch.owes = int64(x.listed) > e.At.Unix(), x.debt > habitMost
}

// stopped notes that a client was stopped, and came again without an answer.
func (p *Processor) stopped(e *verdict.Event, r *rates) {
	if e.Verdict != verdict.Robot || !e.Page || e.Browser == 0 || p.keeper.Returns(e) {
		return
	}
	if !habitual(e, r) {
		return
	}
	b, _, mu := p.lockBudget(e.Subjects[e.N-1].ID, r.Group)
	defer mu.Unlock()
	if b == nil || b.docs < habitFrom {
		return
	}
	x, unlock := p.openHabit(e)
	defer unlock()
	stop := float32(habitStop)
	if b.loaders.crowd() {
		stop = habitCrowd
	}
	if x.stops += stop; p.list(b, x, e) && x.debt > 0 {
		b.list(&charge{at: e.At.UnixMilli(), client: e.Client, turned: x.debt, owed: x.debt, from: int64(x.from), bare: float32(p.cfg.Budget.Bare), weight: 1})
	}
}

// since returns since when what a client has read before it is listed is its own, in unix seconds: since it is known, if in a crowd it had been
// excused; else it is not.
func (x *habit) since(b *budget) int64 {
	if b.loaders.crowd() && x.cached() {
		return int64(x.from)
	}
	return math.MaxInt64
}

// cached reports whether a client has loaded so much that the rest of what its pages want may be in a cache.
func (x *habit) cached() bool { return x.loaded > 0 && x.loaded >= x.pages/habitCache }

// openHabit returns the habit of an event's client, as of now, and what unlocks it.
func (p *Processor) openHabit(e *verdict.Event) (x *habit, unlock func()) {
	sh, h := p.habits.Lock(e.Client)
	x, fresh := p.habits.Open(sh, h, e.Client)
	now := uint32(e.At.Unix()) //nolint:gosec // until 2106
	if fresh {
		x.from = now
	} else {
		f := tally.Fading(float64(max(int64(now)-int64(x.at), 0)), budgetSpans[1].seconds)
		x.debt, x.stops, x.pages, x.loaded = x.debt*f, x.stops*f, x.pages*f, x.loaded*f
	}
	x.at = max(x.at, now)
	return x, sh.Unlock
}

// list lists a client, or takes that back, and reports whether it is listed only now. The caller holds the locks of its habit and of the budget
// of its address.
func (p *Processor) list(b *budget, x *habit, e *verdict.Event) (news bool) {
	left := time.Duration(int64(x.listed)-e.At.Unix()) * time.Second
	debt := x.debt + x.stops
	if x.cached() && (int64(b.heavy.until) <= e.At.Unix() || debt < habitBeside) {
		debt = x.stops
	}
	switch {
	case left > 0 && debt <= 0:
		x.listed = 0
		p.keeper.ListBare(e.Client, e.At)
	case left < habitRenew && debt > habitBare:
		until := e.At.Add(habitList)
		x.listed = uint32(until.Unix()) //nolint:gosec // until 2106
		p.keeper.ListBare(e.Client, until)
		return left <= 0
	}
	return false
}
