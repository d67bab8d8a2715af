package processor

import (
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/client"
	"antirobot/verdict/proof"
)

// burst counts page loads in ten seconds, for the rules about pace.
type burst struct{ window }

const burstSpan = 10 * time.Second

func (b *burst) add(at time.Time) {
	no, _ := stretch(at, burstSpan)
	b.roll(no)
	b.cur++
}

func (b *burst) read(at time.Time) float32 {
	no, part := stretch(at, burstSpan)
	w := b.window
	w.roll(no)
	return w.estimate(part)
}

// trap notes that the subject of an event has opened a path that people are not led to. A browser that loads it ahead of its
// visitor, or from another site, has not.
func (s *session) trap(e *verdict.Event, r *rates) {
	if r.Honeypot && opens(e) && e.Page && e.Headers&(client.HasPurpose|client.InFrame) == 0 {
		s.flags |= flagDecoy
	}
}

// facts returns what is known of the client of an event for the rules. At an address of several clients each answers only for
// what the event itself shows.
func (p *Processor) facts(e *verdict.Event, r *rates, s *session) (f proof.Facts) {
	lost := r.fieldsOf(e).Lost(e.At.Unix())
	alone := s.agentCount() <= 1
	f = proof.Facts{Claim: e.Claim, Liar: e.Liar, Loads: s.loads(), Parts: s.parts, Agents: s.agentCount(), Whole: r.people.parts()}
	if _, has := r.people.usual(); !has {
		f.Remote = true
	}
	if !e.Partial {
		f.Misfits = e.Misfits &^ lost.Misfits
		if e.Type.Data() && e.Headers&client.HasFetchMode == 0 { // a script asked, in a browser that does not say so
			f.Misfits &^= client.AcceptsAny | client.FalseOrder
		}
		f.Forwarded = e.Direct && e.Headers&client.HasForwarded != 0
		f.Forged = e.Forged > 0 || alone && s.flags&flagForged != 0
		if f.Kept = int(s.shares[shareCookie]); !lost.Cookie {
			f.Offered = int(s.shares[shareOffered])
		}
	}
	f.Decoy = s.flags&flagDecoy != 0 && (alone || r.Honeypot)
	f.RobotsTxt = alone && s.flags&flagRobots != 0
	if e.PathKind == client.PathProbe {
		f.Probes = int(s.shares[shareProbe])
	}
	f.Burst, f.Calls = s.burst.read(e.At)/max(1, s.clients()), s.calls.read(e.At)/max(1, s.clients())
	if t := &s.testimony; t.known && alone {
		f.Traces = t.probes &^ lost.Probes
	}
	if f.Traces != 0 {
		t := p.trailOf(e.Subjects[0])
		f.Unclicked = max(0, ofThese(moveAlone, moveLed)(&evidence{t: t}))
	}
	return f
}

// mayBeBanned reports whether the client of an event could be banned for itself: a program that does not lie is limited, and an
// XML partner's server is not its user.
func mayBeBanned(e *verdict.Event, s *session) bool { return !e.Partner && (!e.Program() || s.lies(e)) }

// prove bans the subject of an event about which something is proven, and reports whether that is so.
func (p *Processor) prove(e *verdict.Event, r *rates, s *session) bool {
	if s.pages < 2 || !mayBeBanned(e, s) {
		return false
	}
	f := p.facts(e, r, s)
	rule := f.Of()
	if rule == nil {
		return false
	}
	length, ok := p.nextBan(e, r, 1)
	if !ok {
		return true
	}
	b := bans.Ban{
		Subject: e.Subjects[0], Until: e.At.Add(length), Made: e.At, Source: bans.SourceProcessor,
		Score: 1, Threshold: r.Threshold, Reason: "proof: " + rule.Name,
	}
	for i, v := range rule.Shows {
		b.Factors[i] = bans.Factor{Name: v.Name, Value: v.Of(&f)}
	}
	if b.Subject.Kind == identity.KindIP && (s.agentCount() > 1 || s.browsers != 0 || p.keeper.KnownAt(b.Subject.ID) > 0) {
		b.Only = e.Client // its neighbours have nothing to do with it
	}
	p.ban(b, e)
	return true
}
