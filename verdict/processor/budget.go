package processor

import (
	"math"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// A budget is what may be read from a network before its visitors are asked a question. It is counted on a tree: the
// address or IPv6 /64, its /56, /48 and /32, its /24. These are charged:
//
//   - a document that comes with its parts, as browsers ask for them: one; while the site does not yet know its people, a
//     fraction, since an office may be new
//   - one that comes bare: several. A debt at each level of the tree tells which it is: each document adds one, each
//     proven part takes off a share, so using another address for each page doesn't give a fresh start
//   - a call of a script: a fraction; what was read a moment ago: a fraction; parts far beyond the pages: a fraction each
//
// What established visitors read, and those who have come back from an earlier day, is counted separately, and raises the budget of
// their networks for others. Cookies that
// cost nothing to create, User-Agents and names change nothing. What was not delivered is not charged. A document that a
// pass paid for counts one: who has bought much is not given the same again for nothing.

// budget is what is counted for one prefix.
type budget struct {
	at         int64      // unix milliseconds to which the counts have faded
	read       [2]float32 // over the hour and the day
	known      [2]float32 // by visitors who are established or have come back
	calls      [2]float32 // different calls by established visitors over the hour: of scripts, of apps
	debt       float32    // documents that came without their parts
	heavy      heavy      // the client that reads most of them
	docs, owed float32    // over the day, whoever paid: different documents, and those whose parts are missing
	company    float32    // over the day: documents of others than the heavy client, with all their parts
	judged     float32    // over the day: bans of its visitors
	alike      float32    // likewise: how surely newcomers of the address arrive as robots do
	askedUntil uint32     // unix seconds
	nearUntil  uint32     // likewise: gateways know until then that it is near its budget
	recent     [recentReads]uint32
	turn       uint8
	alone      bool  // the question is for the heavy client alone
	level      level // whom it is for
	loaders    loaders
	told       uint8 // to gateways: in eighths, one more, how barely it is read; 0: nothing, for nobody was asked there
}

var budgetSpans = [...]struct {
	seconds float64
	name    string
}{{3600, "1h"}, {86400, "24h"}}

const (
	recentReads = 8    // what was read last, a divisor of 256
	bareGrace   = 6    // documents that may wait for their parts
	mostCredit  = 32   // documents that parts may pay for in advance
	vouched     = 8    // established visitors of an address at which a document with its parts counts half
	surplus     = 4096 // parts beyond the expected ones that count as one document
	coverRoom   = 1.5  // how many times better than the usual visitor's parts may be cached
	dueAgain    = 0.9  // a question ends when the count has faded to this share of the budget …
	dueListed   = 0.5  // … of clients that are listed, to this
	leastAsk    = 300  // seconds
)

func (b *budget) fade(at int64) {
	if at <= b.at {
		return
	}
	if b.at != 0 {
		gap := float64(at-b.at) / 1000
		hour, day := tally.Fading(gap, budgetSpans[0].seconds), tally.Fading(gap, budgetSpans[1].seconds)
		for i, f := range [...]float32{hour, day} {
			b.read[i] *= f
			b.known[i] *= f
			b.heavy.fade(i, f)
		}
		b.docs *= day
		b.owed *= day
		b.company *= day
		b.judged *= day
		b.alike *= day
		b.calls[0] *= hour
		b.calls[1] *= hour
	}
	b.at = at
}

// again reports whether a target was read a moment ago, and records it.
func (b *budget) again(target uint64) bool {
	short := uint32(target>>32) | 1
	for _, r := range b.recent {
		if r == short {
			return true
		}
	}
	b.recent[b.turn%recentReads] = short
	b.turn++
	return false
}

// reader is what is known about the visitor of an event.
func (p *Processor) reader(e *verdict.Event, known, polled bool) charged {
	back := known || p.keeper.Returns(e)
	who := charged{known: known, back: back, polled: polled}
	if back {
		who.company = p.keeper.Company(e)
	}
	return who
}

// charge counts documents against the budgets of an event, and asks when one is spent.
func (p *Processor) charge(e *verdict.Event, r *rates, is verdict.Count, who charged) {
	c := &p.cfg.Budget
	if !c.Enabled || e.Partner || e.Paid && is.Called() || e.Kind != verdict.EventRequest {
		return
	}
	if is == verdict.CountNothing {
		p.stopped(e, r)
		return
	}
	addr := e.Subjects[e.N-1]
	if addr.Kind != identity.KindIP || p.spares(addr.ID) {
		return
	}
	usual, parts := r.people.usual()
	ch := charge{is: is, base: 1, weight: 1, bare: float32(c.Bare), at: e.At.UnixMilli(), repeat: float32(c.Repeat)}
	ch.cover, ch.parts = coverRoom/max(usual, 1), habitual(e, r)
	if !parts { // no pages have parts here
		ch.bare = float32(math.Sqrt(c.Bare))
		ch.weight = ch.bare
	}
	ch.target, ch.client = e.Target, e.Client
	if unproved(e, is) { // its kind is unknown, and colleagues load the same
		ch.weight = ch.bare
		ch.base, ch.alone, ch.again = 1, true, who.polled
	}
	ch.known, ch.young, ch.many, ch.votes = who.back, who.company > 0, who.company > fewYoung, who.known
	ch.settled = r.people.settled(e.At, c.KnownFrom)
	if !ch.settled && parts {
		ch.weight /= float32(c.Newcomers)
	}
	ch.whole = ch.weight
	ch.weight /= 1 + float32(p.keeper.EstablishedAt(addr.ID))/vouched // known visitors vouch for others with a browser
	if is == verdict.CountMachine {
		ch.base, ch.weight, ch.plain = 1.0/machineReads, 1, true
	}
	if is.Called() {
		p.priceCall(&ch, e, r)
		ch.again = who.polled
	}
	if who.known && (is.Read() || is.Called()) {
		r.people.met(tally.Network(addr.ID), e.At)
	}
	if ch.paid = e.Paid; ch.paid { // what was bought counts, but comes from a browser that has answered
		ch.base, ch.weight, ch.plain, ch.alone = 1, 1, true, false
		ch.ofStranger()
	}
	p.chargeTree(e, r, &ch, addr.ID)
}

// What is written weighs nothing. The answer to it is free up to freeAnswer bytes, and each further freeAnswer of it weighs a document,
// up to mostAnswer: a query by POST reads as one by GET does. A page in HTML of more than an acknowledgement is one that was read,
// whatever the method: services answer methods that they do not know like GET.
const (
	freeAnswer     = 16 << 10
	mostAnswer     = 16
	acknowledgment = 2 << 10
)

// chargeWrite counts what is read of the answer to a request that writes.
func (p *Processor) chargeWrite(e *verdict.Event, r *rates, who charged) {
	if e.Type == verdict.TypeHTML && e.BytesOut > acknowledgment && e.Status/100 == 2 {
		p.charge(e, r, verdict.CountDocument, who)
		return
	}
	addr := e.Subjects[e.N-1]
	if !p.cfg.Budget.Enabled || e.Partner || e.Paid || e.BytesOut <= freeAnswer || addr.Kind != identity.KindIP || p.spares(addr.ID) {
		return
	}
	ch := charge{
		is: verdict.CountCall, base: min(float32(e.BytesOut-freeAnswer)/freeAnswer, mostAnswer), weight: 1, plain: true, at: e.At.UnixMilli(),
		repeat: float32(p.cfg.Budget.Repeat), target: e.Target, client: e.Client, known: who.back,
	}
	p.chargeTree(e, r, &ch, addr.ID)
}

// machineReads is how many reads of a program, where only programs read, weigh as a document.
const machineReads = 256

// ofPeople is the multiple that a household may make of what nearly all established visitors call.
const ofPeople = 4

// priceCall sets what a call costs: such that a household may make a multiple of the calls of this kind that the site's
// people make in an hour; while that is unknown, a fraction of a document, and more if no page's script makes the call.
func (p *Processor) priceCall(ch *charge, e *verdict.Event, r *rates) {
	c := &p.cfg.Budget
	api := ch.is == verdict.CountAPI
	if api && !ch.known && !p.keeper.Paths().ReadByPrograms(e, r.Group) { // nobody else's app reads that: its data are read as by any other tool
		ch.base, ch.weight, ch.plain = 1, ch.bare, true
		return
	}
	usual := r.people.calls(api)
	if usual == 0 {
		ch.base = 1 / float32(c.Call)
		if api {
			ch.weight, ch.plain = ch.bare, true
		}
		return
	}
	ch.base, ch.weight, ch.plain = min(max(float32(c.Hour)/(ofPeople*usual), 1.0/1024), 1), 1, true
}

// voteCalls lets established visitors show how many calls people make.
func (p *Processor) voteCalls(b *budget, r *rates, ch *charge, network uint64) {
	k := kindOfCall(ch.is == verdict.CountAPI)
	if b.calls[k]++; uint32(b.calls[k])%voteEvery == 0 {
		r.people.voteCalls(vote{network: network, at: ch.at / 1000, established: true, value: b.calls[k]}, k == 1)
	}
}

// chargeTree charges each prefix that contains an address.
func (p *Processor) chargeTree(e *verdict.Event, r *rates, ch *charge, addr [16]byte) {
	var of [4]identity.Prefix
	n := identity.Prefixes(&of, addr, r.Group)
	for i := range n {
		sh, h := p.budgets.Lock(of[i])
		b, _ := p.budgets.Open(sh, h, of[i])
		if i == 0 {
			if ch.is.Read() {
				ch.again = b.again(ch.target) || ch.again
			}
			if ch.is == verdict.CountPart && e.Browser != 0 {
				b.loaders.see(e)
			}
			p.habit(b, e, r, ch)
			if ch.is.Read() && !r.people.parts() && b.loaders.crowd() && !ch.listed && !ch.owes && !b.heavy.apart(ch) { // nobody has shown yet how many parts a page has
				ch.bare = 1
			}
		}
		b.charge(ch)
		if i == 0 {
			p.grow(b, of[0], ch)
		}
		if i == 0 && ch.votes && ch.is.Called() && !ch.again {
			p.voteCalls(b, r, ch, tally.Network(addr)|1)
		}
		q, over := p.overBudget(b, of[i], ch, p.places(b, &of[i], addr))
		if over {
			b.tell()
		}
		share, news := b.barely(r, false)
		near := i == 0 && p.nearBudget(b, e.At)
		sh.Unlock()
		if near {
			p.tellNear(of[i], e.At)
		}
		if over {
			p.ask(q)
		}
		if news {
			p.keeper.Barely(of[i], share, e.At)
		}
	}
}

// ask asks what hardly any charge leads to, so that nothing is allocated for the others.
func (p *Processor) ask(q verdict.Question) { p.keeper.Ask(&q) }

// charge adds the cost of an event to a prefix.
func (b *budget) charge(ch *charge) {
	b.fade(ch.at)
	b.behave(ch)
	ch.cost = cost{}
	if ch.is == verdict.CountPart && (ch.paid || ch.listed) {
		return
	}
	if ch.turned > 0 {
		b.list(ch)
	}
	debt := &b.debt
	if b.heavy.apart(ch) {
		debt = &b.heavy.debt
	}
	if ch.is == verdict.CountPart {
		if *debt -= ch.cover; *debt < -mostCredit {
			*debt = -mostCredit
			b.add(1.0/surplus, ch.known)
		}
		return
	}
	base, weight, whole := ch.base, ch.weight, false
	switch {
	case ch.again && ch.is.Called(): // a page that polls for news
		base /= ch.repeat * ch.repeat
	case ch.again:
		base, weight = base/ch.repeat, ch.bare
	case ch.alone, ch.listed:
		weight = ch.bare
	case ch.plain:
	default:
		*debt += base
		if whole = *debt <= bareGrace; !whole {
			*debt -= base
			weight = ch.bare
		}
	}
	b.add(base*weight, ch.known)
	ch.cost = cost{base: base, weight: weight, whole: whole, page: !ch.again && !ch.alone && !ch.plain}
	if !ch.known {
		was := b.heavy.apart(ch)
		switch {
		case ch.listed:
			b.heavy.listed(base * weight)
		case !whole:
			b.heavy.note(ch.client, base*weight)
		case *debt <= 0 && ch.client != b.heavy.client:
			b.company++
		}
		if !was && b.heavy.apart(ch) { // the debts so far are this client's
			b.heavy.debt, b.debt = b.debt, min(b.debt, 0)
		}
	}
}

func (b *budget) add(w float32, known bool) {
	for i := range b.read {
		if known {
			b.known[i] += w
		} else {
			b.read[i] += w
		}
	}
}

// places is how many households a prefix may read like: of a network where nobody reads like the site's people half as many,
// one more for each established visitor of the address.
func (p *Processor) places(b *budget, x *identity.Prefix, addr [16]byte) float32 {
	c := &p.cfg.Budget
	most := 1.0
	switch x.Bits {
	case 120:
		most = c.Net24
	case 56:
		most = c.Net56
	case 48:
		most = c.Net48
	case 32:
		most = c.Net32
	}
	most = 1 + (most-1)*(1-b.bareness()/2)
	return float32(most) + float32(p.keeper.EstablishedAt(addr))
}

// due returns to which share of the budget a count must have faded before a question ends that is for one client, or for everybody (0).
func due(only uint32) float32 {
	if only == verdict.OnlyBare {
		return dueListed
	}
	return dueAgain
}

// overBudget returns the question that is due at a prefix. Strangers are asked when they have read more than the
// households there would, and more than a multiple of what those whom the site has seen before have; the latter are asked last,
// and only at their own address, when they have read more than that many of them would.
func (p *Processor) overBudget(b *budget, x identity.Prefix, ch *charge, places float32) (q verdict.Question, over bool) {
	c := &p.cfg.Budget
	at := time.UnixMilli(ch.at)
	now, home, returned := ch.at/1000, x.Household(), float32(0)
	if home {
		returned = 1 + float32(p.keeper.ReturnedAt(x.ID, at))
	}
	pending := int64(b.askedUntil) > now+leastAsk/2
	asked := pending && !b.alone
	if asked && b.level == askEverybody {
		return q, false
	}
	for i, most := range [...]float32{float32(c.Hour), float32(c.Day)} {
		limit := max(most*places, float32(c.People)*b.known[i])
		read, whom, only := b.read[i], askStrangers, uint32(0)
		switch {
		case home && !asked && b.known[i] > most*returned*float32(c.Person):
			limit, read, whom = most*returned*float32(c.Person), b.known[i], askEverybody
		case home && !pending && b.heavy.set[i] > most && b.company >= othersWhole:
			limit, read, only = most, b.heavy.set[i], verdict.OnlyBare
		case home && ch.youth[i] > most:
			limit, read, whom = most, ch.youth[i], askYoung
			if p.keeper.ProvenAt(x.ID) == 0 { // cookies of a robot that are banned come again as strangers
				whom |= askStrangers
			}
		}
		if read <= limit {
			continue
		}
		if only == 0 && whom == askStrangers {
			only = b.heavy.alone(i, read, limit, b.company)
		}
		wait := max(budgetSpans[i].seconds*math.Log(float64(read/(limit*due(only)))), leastAsk)
		if pending && only != 0 || asked && whom&^b.level == 0 {
			continue
		}
		if asked { // whoever was asked before still is, while both are
			whom |= b.level
			wait = min(wait, float64(int64(b.askedUntil)-now))
		}
		if only == verdict.OnlyBare {
			b.heavy.holds(now, now+int64(wait))
		}
		b.askedUntil, b.alone, b.level = uint32(now+int64(wait)), only != 0, whom //nolint:gosec // until 2106
		return verdict.Question{
			Prefix: x, Only: only, Until: at.Add(time.Duration(wait * float64(time.Second))), All: whom&askKnown != 0, Young: whom&(askKnown|askYoung) == askYoung, Both: whom == askStrangers|askYoung,
			Read: uint32(read), Most: uint32(limit), Window: budgetSpans[i].name,
		}, true
	}
	return q, false
}
