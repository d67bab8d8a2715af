package verdict

import (
	"net/netip"
	"time"

	"antirobot/identity"
	"antirobot/verdict/standing"
)

// Observe learns from an event of the slow half: pages that a subject received as a human give it standing. It is not
// for the request's path.
func (c *Cacher) Observe(e *Event) {
	if e.Kind != EventRequest || e.Verdict != Human || e.Cause != CauseNone || e.Paid || e.N == 0 || !e.seen() {
		return
	}
	addr := e.Subjects[e.N-1]
	if addr.Kind != identity.KindIP {
		return
	}
	for i := range e.N - 1 {
		if s := e.Subjects[i]; standing.Earns(s.Kind) {
			c.standing.Observe(s, addr.ID, e.At)
		}
	}
	if e.Young.Kind != identity.KindNone {
		c.standing.ObserveYoung(e.Young, addr.ID, e.At)
	}
}

// Trust learns that the subject of an event has read since an earlier day with nothing against it, and whether as the site's people do, with the
// parts of its pages.
func (c *Cacher) Trust(e *Event, since time.Time, parts bool) {
	if s, addr := e.Subjects[0], e.Subjects[e.N-1]; standing.Earns(s.Kind) && addr.Kind == identity.KindIP {
		c.standing.Trust(s, addr.ID, since, e.At, parts)
	}
}

// seen reports whether e is a page that somebody received. Where a balancer answers, the answer is unknown, so the
// request has to say itself that it is a navigation. It can lie about that, just as it can ask for a page that exists.
func (e *Event) seen() bool {
	if e.Advised {
		return e.Page && e.Method == 'G' && !e.Static
	}
	return (!e.Static || e.Document) && e.Status >= 200 && e.Status < 400
}

// EstablishedAt returns how many subjects the address (the ID of its Subject) has established.
func (c *Cacher) EstablishedAt(addr [16]byte) int { return c.standing.EstablishedAt(addr) }

// TrustedAt returns how many subjects of the address are trusted beyond those that it has established; see Trust.
func (c *Cacher) TrustedAt(addr [16]byte) int { return c.standing.TrustedAt(addr) }

// EstablishedIn returns how many subjects a network has established: an address, a /24, or an IPv6 /64, /56, /48 or /32. Of
// any other it is 0.
func (c *Cacher) EstablishedIn(net netip.Prefix) int { return c.standing.EstablishedIn(net) }

// ReturnedAt returns how many subjects of the address are established or have come back from an earlier day.
func (c *Cacher) ReturnedAt(addr [16]byte, at time.Time) int { return c.standing.ReturnedAt(addr, at) }

// Established reports whether a subject is established: known as a person from another day.
func (c *Cacher) Established(s identity.Subject) bool { return c.standing.Established(s) }

// Forget forgets all that is known of a subject here beside its bans: that it is, or may become, established, that it may be a robot,
// and the last decisions about it. It looks at everybody, so it is for operators.
func (c *Cacher) Forget(s identity.Subject) {
	c.standing.Forget(s)
	c.doubts.Drop(func(k doubtKey) bool { return k.subject == s })
	c.recent.forget(s)
}
