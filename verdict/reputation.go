package verdict

import (
	"net/netip"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/verdict/replicate"
	"antirobot/verdict/reputation"
)

// Reputation is what is known of visitors from earlier days, and of addresses at which people were met. Safe for
// concurrent use.
type Reputation struct {
	*feed
	grades *reputation.Table
	people *bounded.Expiring[[16]byte, metAt]
}

// Visitors without cookies need not be new: in an office, at the exits of an anonymizing network, and at home with a
// browser that forgets cookies, people come again and again from an address at which new visitors have turned out to be
// people. They are not challenged for arriving as a campaign does, from metFirst after the first of them until metFor after
// the last.
const (
	metPlaces = 1 << 14
	metFirst  = time.Hour
	metFor    = 72 * time.Hour
	metAgain  = 6 * time.Hour // how often it is published again
)

// metAt is when people were met at an address.
type metAt struct{ since, last time.Time }

// place is an address at which people were met, or are no longer known: at is zero.
type place struct {
	addr [16]byte
	at   time.Time
}

func (p *place) code(c *replicate.Codec) {
	c.Fixed(p.addr[:])
	c.Time(&p.at)
}

// Observe learns from an event: pages that a subject received as a human earn it a reputation.
func (r *Reputation) Observe(e *Event) {
	if e.Kind != EventRequest || e.Verdict != Human || e.Cause != CauseNone || e.Paid || e.N == 0 || !e.seen() {
		return
	}
	addr := e.Subjects[e.N-1]
	if addr.Kind != identity.KindIP {
		return
	}
	for _, s := range e.Subjects[:e.N-1] {
		if reputation.Earns(s.Kind) {
			r.grades.Observe(s, addr.ID, e.At, false)
		}
	}
	if e.Young.Kind != identity.KindNone {
		r.grades.Observe(e.Young, addr.ID, e.At, true)
	}
}

// seen reports whether e is a page that was received. Where a balancer answers, the answer is unknown, so the request has
// to say itself that it is a navigation.
func (e *Event) seen() bool {
	if e.Advised {
		return e.Page && e.Method == 'G' && !e.Static
	}
	return (!e.Static || e.Document) && e.Status >= 200 && e.Status < 400
}

// KnownAt returns how many Known subjects an address has, given by the ID of its Subject.
func (r *Reputation) KnownAt(addr [16]byte) int { return r.grades.KnownAt(addr) }

// KnownIn returns how many Known subjects a network has; see reputation.Table.
func (r *Reputation) KnownIn(net netip.Prefix) int { return r.grades.KnownIn(net) }

// grade returns the grade of an identity: of those that vouch for themselves (a login, a signed service cookie), Known.
func (r *Reputation) grade(s identity.Subject, at time.Time) reputation.Grade {
	switch {
	case s.Kind.Vouched():
		return reputation.Known
	case reputation.Earns(s.Kind):
		return r.grades.Grade(s, at)
	}
	return reputation.New
}

// IsKnown reports whether an event comes from a Known person. An Authorization that is honoured is a program's.
func (r *Reputation) IsKnown(e *Event) bool {
	for _, s := range e.Subjects[:e.N] {
		if s.Kind != identity.KindAuth && r.grade(s, e.At) == reputation.Known {
			return true
		}
	}
	return false
}

// Returns reports whether an event comes from a visitor that is Known or Returning.
func (r *Reputation) Returns(e *Event) bool {
	return r.best(e.Subjects[:e.N], e.At) >= reputation.Returning
}

// best returns the best grade of some identities.
func (r *Reputation) best(list []identity.Subject, at time.Time) (best reputation.Grade) {
	for _, s := range list {
		best = max(best, r.grade(s, at))
	}
	return best
}

// Meet records that a new visitor at an address (the ID of its Subject) has turned out to be a person.
func (r *Reputation) Meet(addr [16]byte, at time.Time) {
	old, _, ok := r.people.Find(addr, at.UnixNano())
	if ok && at.Sub(old.last) < metAgain {
		return
	}
	r.meet(addr, at)
	r.publish(recordPlace, &place{addr, at})
}

func (r *Reputation) meet(addr [16]byte, at time.Time) {
	m, _, ok := r.people.Find(addr, at.UnixNano())
	if !ok {
		m.since = at
	}
	m.last = at
	r.people.Put(addr, at.Add(metFor), m)
}

// Mistrust takes back that people were met at an address: a robot is there.
func (r *Reputation) Mistrust(addr [16]byte) {
	if r.people.Remove(addr) {
		r.publish(recordPlace, &place{addr: addr})
	}
}

func (r *Reputation) applyPlace(p *place) {
	if p.at.IsZero() {
		r.people.Remove(p.addr)
	} else {
		r.meet(p.addr, p.at)
	}
}

// KnowsPlace reports whether people are known at an address: Known ones, or new visitors of an earlier visit.
func (r *Reputation) KnowsPlace(addr [16]byte, at time.Time) bool {
	m, _, ok := r.people.Find(addr, at.UnixNano())
	return ok && at.Sub(m.since) >= metFirst || r.KnownAt(addr) > 0
}
