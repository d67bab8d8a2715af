package processor

import (
	"math/bits"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// A crowd is an address with many clients that load parts of pages, as an office has. Those with young cookies are judged together, so what
// some robots among them do would ban the others, who are stopped then and leave, which looks like what robots do: such a ban would feed itself. So,
// while the site does not know its people, who are judged by themselves,
//
//  1. a crowd is asked at first, not banned, where no ban on some of its clients alone will do (concernsOne). It is judged anew from then on: whoever
//     goes on without an answer is listed (habit);
//  2. what its clients do while everybody is asked is held against nobody: of some it is known then what they are (listed), others leave.
//
// A robot that takes many cookies can be a crowd. It is asked for as long as it would have been banned, and banned when it is judged so again.

// crowdFrom is with how many of our cookies parts of pages must have been loaded at an address, in the hour when the last one was or the one before.
const crowdFrom = 8

// loaders are our cookies with which parts of pages are loaded at an address. Safe for use under its table's lock.
type loaders struct {
	set    uint64 // one bit for each of the hour
	hour   uint16
	before uint8 // bits of the hour before
}

// see takes a part of a page.
func (l *loaders) see(e *verdict.Event) {
	switch hour := uint16(e.At.Unix() / 3600); hour { //nolint:gosec // they are compared only with those before
	case l.hour:
	case l.hour + 1:
		*l = loaders{hour: hour, before: uint8(bits.OnesCount64(l.set))} //nolint:gosec // at most 64
	default:
		*l = loaders{hour: hour}
	}
	l.set |= bit(uint64(e.Browser), 64)
}

// crowd reports whether the address is one.
func (l *loaders) crowd() bool { return max(bits.OnesCount64(l.set), int(l.before)) >= crowdFrom }

// askCrowd asks the strangers of a crowd instead of banning its address, while the site knows nobody, and reports whether it did.
func (p *Processor) askCrowd(b *bans.Ban, e *verdict.Event, r *rates) bool {
	if b.Subject.Kind != identity.KindIP || r.people.settled(e.At, p.cfg.Budget.KnownFrom) || !p.offendsFirst(b.Subject) {
		return false
	}
	x, of, mu := p.lockBudget(b.Subject.ID, r.Group)
	if x == nil || !x.loaders.crowd() {
		mu.Unlock()
		return false
	}
	x.fade(e.At.UnixMilli())
	read := x.read[0]
	only, _ := x.heavy.mostly(x.company)
	if only == 0 {
		x.askedUntil, x.alone, x.level = max(x.askedUntil, uint32(b.Until.Unix())), false, x.level|askStrangers //nolint:gosec // until 2106
	}
	mu.Unlock()
	if only != 0 {
		return false
	}
	p.keeper.Ask(&verdict.Question{Prefix: of, Until: b.Until, Read: uint32(read), Most: uint32(p.cfg.Budget.Hour), Window: budgetSpans[0].name, Reason: b.Reason})
	p.beginAnew(b.Subject)
	return true
}

// offendsFirst reports whether an address is to be banned for the first time in a while.
func (p *Processor) offendsFirst(addr identity.Subject) bool {
	sh, h := p.sessions.Lock(addr)
	defer sh.Unlock()
	s := sh.Find(h, addr)
	return s != nil && s.lastBan.offences <= 1
}

// beginAnew forgets what an address has done.
func (p *Processor) beginAnew(addr identity.Subject) {
	sh, h := p.sessions.Lock(addr)
	defer sh.Unlock()
	if s := sh.Find(h, addr); s != nil {
		s.anew()
	}
}

// anew forgets what an address has done, but for who is there, and for its bans, which grow.
func (s *session) anew() {
	*s = session{
		agents: s.agents, browsers: s.browsers, hour: s.hour, agentsPrev: s.agentsPrev, browsersPrv: s.browsersPrv,
		lastBan: s.lastBan, bans: s.bans,
	}
}

// bystands reports whether what the client of an event does while it is stopped is held against nobody: it is judged together with the others of
// a crowd.
func (p *Processor) bystands(e *verdict.Event, r *rates) bool {
	if e.Subjects[0].Kind != identity.KindIP || r.people.settled(e.At, p.cfg.Budget.KnownFrom) {
		return false
	}
	b, _, mu := p.lockBudget(e.Subjects[0].ID, r.Group)
	defer mu.Unlock()
	return b != nil && b.loaders.crowd() && int64(b.askedUntil) > e.At.Unix() && !b.alone
}

// overlook counts such a page for what its newcomers and groups are like, and for nothing else.
func (p *Processor) overlook(e *verdict.Event, r *rates, known bool) {
	p.arrive(e, r, known)
}
