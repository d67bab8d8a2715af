package quota

import (
	"time"

	"antirobot/identity"
)

// scope is what is counted for an address, a network, or all new visitors of a service.
type scope struct {
	at    int64 // unix milliseconds to which the counts have faded
	use   [classes][2]float32
	today [2]float32 // use of this day by strangers, and by clients with a record
	usual [2]float32 // and of the days before
	day   uint32
	hold  // of new clients
	heavy [classes]heavy
}

// heavy is the client with the largest use, as in the algorithm of Boyer and Moore: by is a lower bound of its use in a day.
type heavy struct {
	client uint64
	by     float32
}

// charge is one use on its way through the scopes.
type charge struct {
	reader  Reader // by value: a pointer would let it escape
	at      time.Time
	class   Class
	weight  float32
	settled float32 // of that, what was counted as Single before
	shared  bool    // clients with a record read at its address: its cookie may still come back
	use     float32 // of the client in a day
	minor   bool    // it has no name, and others with a record read as much at its address: it may be several people
	usual   float32 // of a client without a name, which may be several people: what clients with a record usually read at its address
}

// multiple is how many addresses a network may read like.
func multiple(bits uint8) float32 {
	switch bits {
	case 120, 32:
		return 8
	case 48:
		return 4
	case 56:
		return 2
	}
	return 1
}

// scopesOf sets dst to the scopes around a reader, the smallest first, and returns how many there are. The last one is that
// of all new visitors, if the reader is one.
func scopesOf(dst *[5]identity.Prefix, r *Reader) int {
	var of [4]identity.Prefix
	n := identity.Prefixes(&of, r.Addr, r.Group)
	copy(dst[:], of[:n])
	if !r.Known && !r.Returning {
		dst[n] = identity.Prefix{Group: r.Group}
		n++
	}
	return n
}

func (s *scope) fade(at int64) {
	day := uint32(at / 86400_000) //nolint:gosec // days
	if day != s.day && at > s.at {
		for i := range s.usual {
			switch {
			case s.day == 0:
			case s.usual[i] == 0:
				s.usual[i] = s.today[i]
			default:
				s.usual[i] = usualFades*s.usual[i] + (1-usualFades)*s.today[i]
			}
			for d := s.day + 1; s.day != 0 && d < day && d < s.day+8; d++ {
				s.usual[i] *= usualFades
			}
			s.today[i] = 0
		}
		s.day = day
	}
	if at <= s.at {
		return
	}
	if s.at != 0 {
		for i, span := range spans {
			f := fading(at-s.at, span.seconds)
			for k := range s.use {
				s.use[k][i] *= f
			}
			if i == len(spans)-1 {
				for k := range s.heavy {
					s.heavy[k].by *= f
				}
			}
		}
	}
	s.at = at
}

// add counts a charge.
func (s *scope) add(ch *charge) {
	for i := range spans {
		s.use[Single][i] = max(s.use[Single][i]-ch.settled, 0)
		s.use[ch.class][i] += ch.weight
		if ch.class == Recorded {
			s.use[Recorded][i] += ch.settled
		}
	}
	kind := 0
	if ch.class >= Recorded {
		kind = 1
	}
	s.today[kind] += ch.weight
	h := &s.heavy[ch.class]
	switch {
	case h.client == ch.reader.Client:
		h.by += ch.weight
	case h.by < ch.weight:
		*h = heavy{ch.reader.Client, ch.weight - h.by}
	default:
		h.by -= ch.weight
	}
}

// move makes first pages of a client those of one with a record.
func (q *Quota) move(r *Reader, at time.Time, pending float32) {
	var of [5]identity.Prefix
	for _, p := range of[:scopesOf(&of, r)] {
		sh, h := q.scopes.Lock(p)
		if s := sh.Find(h, p); s != nil {
			s.fade(at.UnixMilli())
			for i := range spans {
				s.use[Single][i] = max(s.use[Single][i]-pending, 0)
				s.use[Recorded][i] += pending
			}
			s.today[0], s.today[1] = max(s.today[0]-pending, 0), s.today[1]+pending
		}
		sh.Unlock()
	}
}

// wave reports whether the new visitors of a service read more without subresources than they usually do.
func (q *Quota) wave(group uint32, at int64) bool {
	p := identity.Prefix{Group: group}
	sh, h := q.scopes.Lock(p)
	defer sh.Unlock()
	s := sh.Find(h, p)
	if s == nil {
		return false
	}
	s.fade(at)
	_, over := q.strangers(s)
	return over
}

// strangers reports whether clients without a record have read more than all new visitors may, and in which window.
func (q *Quota) strangers(s *scope) (i int, over bool) {
	for i := range spans {
		if s.use[Single][i]+s.use[Bare][i] > q.newcomers(s, i) {
			return i, true
		}
	}
	return 0, false
}

// newcomers is what clients without a record may read together in the window i.
func (q *Quota) newcomers(s *scope, i int) float32 {
	most := float32(q.cfg.Newcomers) + usualMargin*s.usual[0]
	if i == 0 {
		most /= 2
	}
	return most
}

// around counts a charge in the scopes around its client, and returns the excess of the smallest one that has any.
func (q *Quota) around(ch *charge, site Site) (x Excess, over bool) {
	var of [5]identity.Prefix
	for _, p := range of[:scopesOf(&of, &ch.reader)] {
		sh, h := q.scopes.Lock(p)
		s, _ := q.scopes.Open(sh, h, p)
		s.fade(ch.at.UnixMilli())
		s.add(ch)
		if !over && !(p.Bits == 0 && ch.class == Single && ch.shared) {
			x, over = q.judge(s, p, ch, site)
		}
		if p.Household() {
			ch.shared = s.use[Recorded][1]+s.use[Known][1] >= 1
		}
		if p.Household() && ch.reader.Client == ch.reader.Nameless {
			ch.usual = s.usual[1]
			ch.minor = ch.class == Recorded && 2*ch.use <= s.use[Recorded][1]
		}
		sh.Unlock()
	}
	return x, over
}

// judge returns the excess that a charge leads to at a scope.
func (q *Quota) judge(s *scope, p identity.Prefix, ch *charge, site Site) (x Excess, over bool) {
	switch {
	case ch.class == Known, ch.class == Recorded && !site.Settled:
		return x, false
	case p.Bits == 0 && ch.class < Recorded:
		i, over := q.strangers(s)
		if !over {
			return x, false
		}
		return Excess{
			Scope: ScopeNewcomers, Prefix: p, Until: ch.at.Add(bareLasts), Read: uint32(s.use[Single][i] + s.use[Bare][i]), Most: uint32(q.newcomers(s, i)),
			Window: spans[i].name,
		}, true
	}
	for i := range spans {
		most := q.limit(i) * multiple(p.Bits)
		if p.Bits == 0 {
			most = 4 * float32(q.cfg.Newcomers)
		}
		known := s.use[Known][i]
		if ch.class == Recorded {
			known += explained(s.usual[1], i)
		}
		most += known
		use := s.use[ch.class][i]
		if use <= most {
			continue
		}
		if hv := &s.heavy[ch.class]; hv.client != ch.reader.Client && 2*hv.by > use && use-hv.by <= othersShare*most {
			continue // another one reads most of it
		}
		x = Excess{Scope: ScopeNetwork, Prefix: p, Until: ch.at.Add(lasts(i, use, most)), Read: uint32(use), Most: uint32(most), Window: spans[i].name}
		if ch.class == Bare {
			x.Until = ch.at.Add(bareLasts)
		}
		switch {
		case p.Household():
			x.Scope = ScopeAddress
		case p.Bits == 0:
			x.Scope = ScopeNewcomers
		}
		if ch.class == Single {
			if !s.restrict(ch.at) {
				return Excess{}, false // it was told a moment ago
			}
			x.New, x.Until = true, time.Unix(int64(s.end), 0)
		}
		return x, true
	}
	return x, false
}

// restrict has new clients checked for scopeLasts, or twice as long as before if it is needed again at once; false if they are
// already.
func (s *scope) restrict(at time.Time) bool {
	now := uint32(at.Unix()) //nolint:gosec // until 2106
	if s.end > now {
		return false
	}
	s.hold.until(now, scopeLasts)
	return true
}

// Shared reports whether other clients with a record read at an address.
func (q *Quota) Shared(addr [16]byte, group uint32, client uint64, at time.Time) bool {
	p := identity.HouseholdOf(addr, group)
	sh, h := q.scopes.Lock(p)
	defer sh.Unlock()
	s := sh.Find(h, p)
	if s == nil {
		return false
	}
	s.fade(at.UnixMilli())
	others := s.use[Recorded][1] + s.use[Known][1]
	if hv := &s.heavy[Recorded]; hv.client == client {
		others -= hv.by
	}
	return others >= 1
}
