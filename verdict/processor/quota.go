package processor

import (
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/label"
	"antirobot/verdict/learn"
	"antirobot/verdict/quota"
	"antirobot/verdict/tally"
)

// The worth of what is read, in pages. Data weighs by its bytes.
const (
	callWorth    = 1.0 / 16  // at least, of a call of a script, or of an app whose data several networks' programs read …
	callMost     = 4         // … and at most
	againWorth   = 1.0 / 64  // of what was read at the address within the hour
	machineWorth = 1.0 / 256 // of data or a file read by a program where only programs read
	unprovedPart = 4         // of what claims to be a subresource, and whose answer nobody here sees
	pageBytes    = 16 << 10  // of data, as much as a page
	answerMost   = 16        // of the answer to a write
	acknowledged = 2 << 10   // bytes of an HTML answer to a write that is not a page
	nearLasts    = 10 * time.Minute
)

// reader describes the client of an event for the quota.
func (p *Processor) reader(e *verdict.Event, r *rates) quota.Reader {
	addr, winner := e.Subjects[e.N-1], e.Subjects[0]
	home := identity.HouseholdOf(addr.ID, r.Group)
	nameless := tally.Fold(tally.Hash(home.ID)^e.Agent, uint64(e.Language)<<32^e.JA4^0x9e3779b97f4a7c15)
	rd := quota.Reader{
		Client: nameless, Nameless: nameless, Addr: addr.ID, Group: r.Group, Cookie: e.Browser != 0,
		Returning: p.keeper.Returns(e), Known: winner.Kind.Vouched() || p.labels != nil && p.labels.Of(winner).Label == label.Human,
	}
	if p.learner != nil {
		switch p.learner.Grade(winner, r.Name, e.At) {
		case learn.Known:
			rd.Grade = quota.GradeKnown
		case learn.Unusual:
			if p.learner.MayCheck(winner, r.Name, e.At) {
				rd.Grade = quota.GradeUnusual
			}
		}
	}
	switch {
	case winner.Kind.Vouched():
		rd.Client = tally.Fold(tally.Hash(winner.ID), uint64(winner.Kind)^0xd1b54a32d192ed03)
	case e.Browser != 0:
		rd.Client = tally.Fold(uint64(e.Browser)<<32^e.Agent, 0x517cc1b727220a95)
	}
	return rd
}

// charge counts what an event has read, and tells gateways who has to be checked. again says that the same was read at the
// address a moment ago.
func (p *Processor) charge(e *verdict.Event, r *rates, is verdict.Count, again bool) {
	addr := e.Subjects[e.N-1]
	if !p.cfg.Quota.Enabled || e.Partner || e.Paid || is == verdict.CountNothing || addr.Kind != identity.KindIP || p.spares(addr.ID) {
		return
	}
	rd := p.reader(e, r)
	_, parts := r.people.usual()
	site := quota.Site{Flat: !parts, Settled: r.people.settled(e.At, knownFrom)}
	if is == verdict.CountPart {
		p.tellQuota(e, &rd, p.quota.Subresource(&rd, e.At))
		return
	}
	worth, plain := float32(1), true
	switch {
	case is == verdict.CountMachine:
		worth = machineWorth
	case is == verdict.CountCall, is == verdict.CountAPI && (rd.Known || p.keeper.Paths().ReadByPrograms(e, r.Group)):
		worth = min(max(callWorth, float32(e.BytesOut)/pageBytes), callMost)
	case unproved(e, is):
		worth = unprovedPart
	case is == verdict.CountDocument:
		plain = false
	}
	if again {
		worth *= againWorth
	}
	p.tellQuota(e, &rd, p.quota.Page(&rd, site, e.At, worth, plain))
}

// chargeWrite counts what is read of the answer to a request that writes: what exceeds a page's bytes. A page in HTML is one
// that was read, whatever the method: services answer methods that they do not know like GET.
func (p *Processor) chargeWrite(e *verdict.Event, r *rates) {
	if e.Type == verdict.TypeHTML && e.BytesOut > acknowledged && e.Status/100 == 2 {
		p.charge(e, r, verdict.CountDocument, false)
		return
	}
	addr := e.Subjects[e.N-1]
	if !p.cfg.Quota.Enabled || e.Partner || e.Paid || e.BytesOut <= pageBytes || addr.Kind != identity.KindIP || p.spares(addr.ID) {
		return
	}
	rd := p.reader(e, r)
	worth := min(float32(e.BytesOut-pageBytes)/pageBytes, answerMost)
	p.tellQuota(e, &rd, p.quota.Page(&rd, quota.Site{}, e.At, worth, true))
}

// tellQuota tells gateways what a charge has led to.
func (p *Processor) tellQuota(e *verdict.Event, rd *quota.Reader, t quota.Told) {
	switch {
	case t.Record:
		p.keeper.KnowReader(e.Client, rd.Group, true, t.Near, e.At.Add(24*time.Hour))
	case t.Near:
		p.keeper.KnowReader(e.Client, rd.Group, t.Recorded, true, e.At.Add(nearLasts))
	}
	if t.Over && !e.Again {
		x := verdict.Excess{Excess: t.Excess}
		if !t.Excess.New {
			x.Client = e.Client
		}
		p.keeper.Exceeds(&x)
	}
}

// knownFrom is how many networks of returning visitors a site needs to know its people.
const knownFrom = 20
