package processor

import (
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/tally"
)

// Offer implements verdict.Sink.
func (p *Processor) Offer(e *verdict.Event) bool {
	p.offered.Inc()
	if e.N == 0 || int(e.N) > len(e.Subjects) {
		p.shed.Inc()
		return false
	}
	if !p.queues[workerOf(e, len(p.queues))].offer(e) {
		p.shed.Inc()
		return false
	}
	return true
}

// workerOf returns which of so many workers judges an event: events of one address stay in order.
func workerOf(e *verdict.Event, workers int) uint {
	a := &e.Subjects[e.N-1].ID
	return (uint(a[15]) + uint(a[14])*31 + uint(a[6])*17 + uint(a[7])) % uint(workers) //nolint:gosec // there is one at least
}

// Process judges one event in the caller's goroutine: the workers do this, and a replay does it with recorded events.
// All times are those of the events.
func (p *Processor) Process(e *verdict.Event) {
	r := p.service(e.Service)
	if r == nil {
		p.unknown.Inc()
		return
	}
	p.goOn(e.At)
	if e.Kind == verdict.EventEvidence {
		p.witness(e, r)
		return
	}
	p.note(e, r)
	if !judged(e) {
		if p.training != nil && !e.Again {
			p.learn(e, r)
		}
		return
	}
	if e.Kind != verdict.EventRequest {
		p.captcha(e, r)
		return
	}
	if e.Program() && e.Stopped() { // it can answer no challenge, and is not charged for that
		return
	}
	known := p.keeper.IsKnown(e)
	if e.Writes() && (e.Program() || !e.Contradicts()) {
		p.chargeWrite(e, r)
		return
	}
	is := p.keeper.Paths().Learn(e, r.Group, known)
	rep, calls, script := repeated{counts: true}, called(e, is), is == verdict.CountPart && p.scripts.first(e, r.Group)
	if calls || script || is.Read() {
		rep = p.polls.see(e)
	}
	if script { // it may be data in a script's clothes (JSONP)
		p.charge(e, r, verdict.CountCall, rep.again)
	} else {
		p.charge(e, r, is, rep.again)
	}
	if known && (is.Read() || is.Called()) {
		r.people.met(tally.Network(e.Subjects[e.N-1].ID), e.At)
	}
	asks := is == verdict.CountNothing && p.keeper.Paths().Asks(e, r.Group)
	if is == verdict.CountPart || is == verdict.CountNothing && e.Static && !asks {
		p.load(e, r, script && rep.counts)
		return
	}
	if !e.Partner {
		r.fieldsOf(e).See(e, known)
	}
	s, due, now := p.turn(e, r, is, asks, calls && rep.counts)
	p.arrive(e, r, known)
	p.follow(e, r, &s, now)
	if due {
		p.votes(e, r, &s, known || p.keeper.Returns(e))
	}
	if rep.counts || !calls {
		p.pace(e, r, &s, calls)
	}
	p.prove(e, r, &s)
	if due {
		p.evaluate(e, r, &s)
	}
}

// lies reports whether a program was seen to be what it does not say: a false crawler, a forger of cookies, a scanner.
func (s *session) lies(e *verdict.Event) bool {
	return e.Liar || s.flags&flagForged != 0 || s.shares[shareProbe] > 0
}

// goOn sets the clock of the tables. Workers don't judge in the order of time, so it goes back only if all events do.
func (p *Processor) goOn(at time.Time) {
	const late = 60
	now, was := uint32(at.Unix()), p.clock.Load() //nolint:gosec // seconds are told apart by a part of them
	if now > was || was-now > late {
		p.clock.Store(now)
	}
}

// note takes what is kept elsewhere: who is established, and labels.
func (p *Processor) note(e *verdict.Event, r *rates) {
	if !e.Past {
		p.keeper.Observe(e)
		p.labelled(e, r)
	}
}

// unproved reports whether a document claims to be a part of a page and its answer is unknown.
func unproved(e *verdict.Event, is verdict.Count) bool { return is.Read() && e.Advised && e.Static }

// judged reports whether an event says anything about its client.
func judged(e *verdict.Event) bool {
	if e.Verdict == verdict.Blocked {
		return false
	}
	switch e.Cause {
	case verdict.CauseWhite, verdict.CauseOff, verdict.CauseDemand:
		return false
	}
	return true
}

// turn counts a page, and returns a copy of its subject's session and whether the subject is due for an evaluation. asks
// says that the event asks about a page, calls that it counts as a call.
func (p *Processor) turn(e *verdict.Event, r *rates, is verdict.Count, asks, calls bool) (c session, due bool, now whereabouts) {
	sh, h := p.sessions.Lock(e.Subjects[0])
	s, fresh := p.sessions.Open(sh, h, e.Subjects[0])
	load := is == verdict.CountDocument || is == verdict.CountNothing && e.Page
	fills := load && s.fills(e)
	framed := fills && s.frames(e, r.people.framesOf.most())
	load = load && !framed
	now = s.turn(e, load)
	now.framed, now.moved = framed, is == verdict.CountCall && s.moves(e)
	s.count(shareFills, fills)
	s.count(shareFramed, framed)
	if load || asks {
		s.burst.add(e.At)
	}
	if calls {
		s.calls.add(e.At)
	}
	s.trap(e, r)
	if is.Read() {
		inc(&s.documents)
	}
	due = s.due(e, is.Read() && s.documents == firstDocuments)
	if due {
		s.plan(e)
	}
	recall := s.mayBeBanned(e, fresh, p.keeper.Forgot())
	c = *s
	sh.Unlock()
	if recall {
		p.recallBan(e, r)
	}
	return c, due, now
}

// load counts a subresource; called says that it counts as a call, too.
func (p *Processor) load(e *verdict.Event, r *rates, called bool) {
	s, moved := p.part(e, called)
	if moved {
		p.shows(e, r) // it has asked for that page itself
	}
	if called {
		s.pages = max(s.pages, r.from+2) // scripts are no pages: they are counted from the first on
		p.pace(e, r, &s, true)
		p.prove(e, r, &s)
	}
	p.loads(e, r)
}

// part counts a sub-resource, and returns a copy of its subject's session, and whether it shows that the subject is on another page.
func (p *Processor) part(e *verdict.Event, called bool) (c session, moved bool) {
	sh, h := p.sessions.Lock(e.Subjects[0])
	s, _ := p.sessions.Open(sh, h, e.Subjects[0])
	moved = s.part(e) && !e.Partner
	if called {
		s.calls.add(e.At)
	}
	c = *s
	sh.Unlock()
	return c, moved
}

// captcha counts what happened at the captcha, and re-evaluates subjects that ignore or fail it.
func (p *Processor) captcha(e *verdict.Event, r *rates) {
	c, due := p.challenged(e, r)
	p.teachSolved(e, r)
	if e.Kind == verdict.EventSolved && (!e.Again || e.Past) {
		p.answer(e, r)
	}
	if due {
		c.fade(e.At)
		p.evaluate(e, r, &c)
	}
}

// challenged counts what happened at the captcha, and returns a copy of its subject's session and whether the subject is due for an evaluation.
func (p *Processor) challenged(e *verdict.Event, r *rates) (c session, due bool) {
	sh, h := p.sessions.Lock(e.Subjects[0])
	defer sh.Unlock()
	s, _ := p.sessions.Open(sh, h, e.Subjects[0])
	s.captcha(e)
	return *s, e.Kind != verdict.EventSolved && s.pages >= 2
}

func (p *Processor) growth(first time.Duration, e *verdict.Event) banGrowth {
	return banGrowth{first: first, most: p.cfg.MaxBan, forget: p.cfg.Forget, flat: e.Mode == verdict.Observe}
}

// ban makes a ban.
func (p *Processor) ban(b bans.Ban, e *verdict.Event) {
	p.unmask(e)
	if r := p.service(e.Service); r != nil && b.Only == 0 && b.Subject.Kind == identity.KindIP && p.isShared(e, r) {
		b.Only = e.Client // its neighbours have nothing to do with it
	}
	if !p.impose(b, e) {
		return
	}
	if !e.Again {
		p.bans.Inc()
	}
	sh, h := p.sessions.Lock(b.Subject)
	if s := sh.Find(h, b.Subject); s != nil {
		inc(&s.bans)
	}
	sh.Unlock()
}

// impose makes a ban; false if that failed.
func (p *Processor) impose(b bans.Ban, e *verdict.Event) bool {
	if e.Past { // the store has it, unless somebody has lifted it
		return true
	}
	err := p.keeper.BanSoon(b)
	if err != nil && !e.Again { // with an event that comes again it has ended meanwhile
		p.banErrors.Inc()
		p.log.Warn().Err(err).Str("subject", b.Subject.String()).Msg("a ban could not be made")
		return false
	}
	return true
}

// isShared reports whether other clients read at the address of an event, with a record of loading subresources.
func (p *Processor) isShared(e *verdict.Event, r *rates) bool {
	addr := e.Subjects[e.N-1].ID
	return p.keeper.KnownAt(addr) > 0 || p.quota.Shared(addr, r.Group, p.reader(e, r).Client, e.At)
}
