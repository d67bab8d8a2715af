package verdict

import (
	"net/netip"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/standing"
)

// Question says that everybody who comes from a network is asked for a captcha at the services of a group until a
// given time, because more has been read there than the site's people explain, or in place of a ban. It is not a ban: it is on nobody, it
// does not grow with repetition, and a pass answers it.
type Question struct {
	Prefix identity.Prefix
	Until  time.Time
	All    bool   // established visitors too; otherwise they are spared
	Young  bool   // instead of strangers: who has come back, but has not read here for long (Cacher.Company) …
	Both   bool   // … and strangers, too
	Only   uint32 // the one client that is asked (Event.Client), or OnlyBare; 0: everybody
	Read   uint32 // documents counted by the time it was asked …
	Most   uint32 // … and how many would have been acceptable
	Window string // the time over which they are counted
	Reason string // of the ban in whose place it is asked; empty: it is asked for what was read
}

// questions is the bounded table of questions.
type questions struct {
	*bounded.Expiring[identity.Prefix, Question]
}

func newQuestions(most int) questions {
	return questions{bounded.NewExpiring[identity.Prefix, Question](most)}
}

// put asks a question, or replaces it.
func (q questions) put(x *Question) {
	q.Expiring.Put(x.Prefix, x.Until, *x)
}

// find sets x to the question that applies to an address; spare says that a question for strangers, for the young or for both does not concern
// the visitor (Cacher.spares), isClient whether it is whom Question.Only names.
func (q questions) find(x *Question, addr [16]byte, group uint32, at int64, spare func(young, both bool) bool, isClient func(only uint32) bool) bool {
	if q.Len() == 0 {
		return false
	}
	var of [4]identity.Prefix
	back := false // the visitor has come back: no question for strangers concerns it
	for _, p := range of[:identity.Prefixes(&of, addr, group)] {
		a, _, ok := q.Expiring.Find(p, at)
		if !ok || a.Only != 0 && !isClient(a.Only) {
			continue
		}
		if !a.All && (back && !a.Young || spare(a.Young, a.Both)) {
			back = back || !a.Young
			continue
		}
		*x = a
		return true
	}
	return false
}

// Ask asks a question from now on.
func (c *Cacher) Ask(q *Question) {
	c.questions.put(q)
	if c.said.tells() {
		c.said.tell(saidQuestion, c.appendQuestion(nil, q))
	}
}

// Stands reports whether an event comes from a visitor who stands for themselves (a login, a signed service cookie) or
// is established: from people whom the site knows. An Authorization that is honoured is a program's.
func (c *Cacher) Stands(e *Event) bool {
	for i := range e.N {
		if e.Subjects[i].Kind != identity.KindAuth && c.stands(e.Subjects[i]) {
			return true
		}
	}
	return false
}

// Returns reports whether an event comes from a visitor who Stands, or was seen as a human on an earlier day: from somebody who is
// not asked for what others of its network read.
func (c *Cacher) Returns(e *Event) bool {
	for i := range e.N {
		if c.standsAlone(e.Subjects[i], e.At) {
			return true
		}
	}
	return false
}

// Company returns how many there are like the visitor of an event at the address that it belongs to, of whom little more is known than that
// they were here on an earlier day; 0 if it is not like that: it has not come back (Returns), or stands for itself, or has read here for
// longer with nothing against it.
func (c *Cacher) Company(e *Event) (n int) {
	for i := range e.N {
		sub := e.Subjects[i]
		switch {
		case c.proven(sub):
			return 0
		case standing.Earns(sub.Kind):
			n = max(n, c.standing.Company(sub, e.At))
		}
	}
	return n
}

// proven reports whether a subject is spared where those are asked who have not read for long.
func (c *Cacher) proven(sub identity.Subject) bool {
	switch {
	case sub.Kind.Vouched():
		return true
	case standing.Earns(sub.Kind):
		return c.standing.Proven(sub)
	}
	return false
}

// spares reports whether a question does not concern a request: as of a visitor who Returns, and where it is for the young, as of one who
// has read for longer, or, unless it is for both, of a stranger.
func (c *Cacher) spares(id *identity.Identity, at time.Time, young, both bool) bool {
	if !young {
		return c.returns(id, at)
	}
	for i := range id.N {
		if c.proven(id.Subjects[i]) {
			return true
		}
	}
	return !both && !c.returns(id, at)
}

// returns is Returns for a request.
func (c *Cacher) returns(id *identity.Identity, at time.Time) bool {
	for i := range id.N {
		if c.standsAlone(id.Subjects[i], at) {
			return true
		}
	}
	return false
}

// known is Stands for a request.
func (c *Cacher) known(id *identity.Identity) bool {
	for i := range id.N {
		if c.stands(id.Subjects[i]) {
			return true
		}
	}
	return false
}

func (c *Cacher) stands(sub identity.Subject) bool {
	switch {
	case sub.Kind.Vouched():
		return true
	case standing.Earns(sub.Kind):
		return c.standing.Established(sub)
	}
	return false
}

// questioned looks for a question that applies to the request's network. Parts of pages are not stopped: whoever has
// answered gets them anyway, and a page that is stopped needs none. What claims to be a part must be known to be one.
func (c *Cacher) questioned(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	if id.N == 0 || id.Partner || id.Winner().Kind == identity.KindAuth { // a program can't answer for its neighbours
		return false
	}
	at := v.At.UnixNano()
	reads := id.Subjects[0].Kind == identity.KindAuth && c.paths.proved(c.pathKey(s, v)) == readingDocument // pages that anybody may read
	if !c.questions.find(&d.Question, id.Subjects[id.N-1].ID, s.Group, at, func(young, both bool) bool { return !reads && c.spares(id, v.At, young, both) }, func(only uint32) bool { return c.isClient(only, v, id) }) {
		return false
	}
	if c.paths.read(c.pathKey(s, v)) == readingPart {
		d.Question = Question{}
		return false
	}
	return true
}

// Paths returns what is known about the paths of all services.
func (c *Cacher) Paths() *Paths { return &c.paths }

// StoryAsked is a Question as JSON shows it.
type StoryAsked struct {
	Network     string    `json:"network"`
	Until       time.Time `json:"until"`
	Read        uint32    `json:"read"` // documents within the window, weighted
	Most        uint32    `json:"most"`
	Window      string    `json:"window"`
	Established bool      `json:"established"` // established visitors are asked, too
	Young       bool      `json:"young"`       // those are asked who have come back, but have not read here for long
	Strangers   bool      `json:"strangers"`   // strangers are asked
	OneClient   bool      `json:"one_client"`  // only one client of the network is asked, which has read most of it

	Reason string `json:"reason,omitempty"` // of the ban in whose place it is asked; empty: it is asked for what was read
}

// Short says in short whom a question is for, as words.Reason reads it.
func (q *StoryAsked) Short() string {
	if q.Reason != "" {
		return "in place of a ban: " + q.Reason
	}
	if n, err := netip.ParsePrefix(q.Network); err == nil && (n.IsSingleIP() || n.Addr().Is6() && n.Bits() >= 64) {
		return "budget: address"
	}
	return "budget: network"
}

// story returns the question as JSON shows it.
func (q *Question) story() *StoryAsked {
	addr, bits := netip.AddrFrom16(q.Prefix.ID), int(q.Prefix.Bits)
	if addr.Is4In6() && bits >= 96 {
		addr, bits = addr.Unmap(), bits-96
	}
	return &StoryAsked{
		Network: netip.PrefixFrom(addr, bits).String(), Until: q.Until.UTC(), Read: q.Read, Most: q.Most, Window: q.Window, Established: q.All, Young: q.Young, Strangers: !q.Young || q.Both, OneClient: q.Only != 0, Reason: q.Reason,
	}
}
