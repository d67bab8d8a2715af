package processor

import (
	"sync/atomic"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

const maxOffences = 16

// role says whose pace it is.
type role uint8

const (
	roleSubject role = iota
	roleCrowd        // of an address, over all requests that brought cookies
)

// paceKey identifies what the limits of a service count.
type paceKey struct {
	role    role
	kind    identity.Kind
	calls   bool // of scripts and apps, not pages
	service uint16
	id      [16]byte
}

// window counts in the current stretch of its length and in the previous one; the sliding count includes the part of
// the latter that the window still covers, as if its events had been spread evenly.
type window struct {
	no        uint32 // number of the current stretch since the epoch
	cur, prev uint32
}

// roll advances the window to stretch no. Events that come slightly late count as if they were on time.
func (w *window) roll(no uint32) {
	switch {
	case no == w.no || no+1 == w.no:
	case no == w.no+1:
		w.no, w.prev, w.cur = no, w.cur, 0
	default:
		*w = window{no: no}
	}
}

func (w *window) estimate(part float32) float32 { return float32(w.cur) + float32(w.prev)*(1-part) }

// stretch returns the number of the stretch of a window's length that a time falls into, and how much of it has passed.
func stretch(at time.Time, length time.Duration) (no uint32, part float32) {
	ms, l := at.UnixMilli(), length.Milliseconds()
	return uint32(ms / l), float32(ms%l) / float32(l)
}

// pace is what is counted for the limits of one service.
type pace struct {
	total   uint32
	last    uint32 // unix seconds of the last page
	lastBan lastBan
	windows [verdict.MaxLimits]window
}

// paces keeps a bounded number of them.
type paces struct{ *bounded.Table[paceKey, pace] }

func newPaces(most int, hash func(paceKey) uint64, clock *atomic.Uint32) paces {
	return paces{bounded.NewTable[paceKey, pace](most, hash, clock)}
}

// add counts a page for the key, sets seen to the sliding counts including it, and returns how many there were and the key's
// last ban. If the key is new, before is how many pages there already were, from first on: windows that began before then
// count them.
func (t paces) add(k paceKey, at time.Time, limits []limit, before, first uint32, seen *[verdict.MaxLimits]float32) (total uint32, last lastBan) {
	sh, h := t.Lock(k)
	defer sh.Unlock()
	p, fresh := t.Open(sh, h, k)
	if fresh {
		p.total = before
		for i := range limits {
			p.windows[i].no, _ = stretch(at, limits[i].Window)
			if no, _ := stretch(time.Unix(int64(first), 0), limits[i].Window); no == p.windows[i].no {
				p.windows[i].cur = before
			}
		}
	}
	p.total++
	p.last = uint32(at.Unix())
	for i := range limits {
		no, part := stretch(at, limits[i].Window)
		w := &p.windows[i]
		w.roll(no)
		w.cur++
		if w.no != no {
			part = 0 // late: the stretch has only just begun
		}
		seen[i] = w.estimate(part)
	}
	return p.total, p.lastBan
}

// read sets seen to the sliding counts of a key at a given time.
func (t paces) read(k paceKey, at time.Time, limits []limit, seen *[verdict.MaxLimits]float32) (total uint32, ok bool) {
	sh, h := t.Lock(k)
	defer sh.Unlock()
	p := sh.Find(h, k)
	if p == nil {
		return 0, false
	}
	for i := range limits {
		no, part := stretch(at, limits[i].Window)
		w := p.windows[i]
		w.roll(no)
		seen[i] = w.estimate(part)
	}
	return p.total, true
}

// nextBan returns for how long the key is banned now; false if more than half of the last ban is still left.
func (t paces) nextBan(k paceKey, at time.Time, rule banGrowth) (time.Duration, bool) {
	sh, h := t.Lock(k)
	defer sh.Unlock()
	p := sh.Find(h, k)
	if p == nil { // it was evicted in the meantime
		return min(rule.first, rule.most), true
	}
	return p.lastBan.next(at, rule)
}

func (t paces) setBanned(k paceKey, until uint32) {
	sh, h := t.Lock(k)
	defer sh.Unlock()
	if p := sh.Find(h, k); p != nil {
		p.lastBan.until = until
	}
}

// sweep drops entries that no window covers any more and whose offences are forgotten.
func (t paces) sweep(at time.Time, longest, forget time.Duration) {
	now := at.Unix()
	t.Table.Sweep(func(_ paceKey, p *pace) bool {
		return now-int64(p.last) > int64(2*longest/time.Second) && p.lastBan.over(now, forget)
	})
}

// lastBan is the last ban of a subject or crowd.
type lastBan struct {
	until    uint32 // unix seconds; 0: there was none
	length   uint32 // seconds
	offences uint8
}

// banGrowth is how bans grow: each lasts twice as long as the previous one, up to the maximum, and after some time
// without a ban they start over. Flat ones keep their length.
type banGrowth struct {
	first, most, forget time.Duration
	flat                bool
}

// next returns the length of the ban that is due now; false if more than half of the last one is still left.
func (s *lastBan) next(at time.Time, rule banGrowth) (time.Duration, bool) {
	now := uint32(at.Unix())
	if s.holds(now) {
		return 0, false
	}
	if s.until < now && now-s.until > uint32(rule.forget/time.Second) {
		s.offences = 0
	}
	length := min(rule.first, rule.most)
	if !rule.flat {
		for range s.offences {
			length = min(2*length, rule.most)
		}
		s.offences = min(s.offences+1, maxOffences)
	}
	s.length = uint32(length / time.Second)
	s.until = now + s.length
	return length, true
}

// holds reports whether more than half of the last ban is still left.
func (s *lastBan) holds(now uint32) bool { return s.until > now && s.until-now > s.length/2 }

// ahead returns how much of the last ban is left.
func (s *lastBan) ahead(at time.Time) time.Duration {
	return time.Duration(int64(s.until)-at.Unix()) * time.Second
}

// over reports whether the last ban no longer has any effect.
func (s *lastBan) over(now int64, forget time.Duration) bool {
	return s.until == 0 || now-int64(s.until) > int64(forget/time.Second)
}

// pace adds the event to what the limits count: its subject, and the crowd of its address. Calls of scripts and apps
// have limits of their own; of a call repeated again and again, as by a page that polls for news, only one in a few
// counts.
func (p *Processor) pace(e *verdict.Event, r *rates, s *session, called bool) {
	winner, addr := e.Subjects[0], e.Subjects[e.N-1]
	k := paceKey{role: roleSubject, kind: winner.Kind, service: e.Service, id: winner.ID, calls: called}
	if s.pages > r.from {
		p.judgePace(k, winner, e, r, s)
	}
	if winner.Kind != identity.KindIP && addr.Kind == identity.KindIP && !(e.Verdict == verdict.Robot && e.Own) {
		p.judgePace(paceKey{role: roleCrowd, service: e.Service, id: addr.ID, calls: k.calls}, addr, e, r, s)
	}
}

// called reports whether an event is a call of a script or an app: by what was delivered, or else by what it claims.
func called(e *verdict.Event, is verdict.Count) bool {
	if is == verdict.CountNothing {
		return !e.Page && !e.Static
	}
	return is.Called()
}

func (r *rates) limitsOf(k paceKey) []limit {
	if k.calls {
		return r.calls
	}
	return r.limits
}

// judgePace adds the event to a pace, and bans the subject if that exceeds a limit.
func (p *Processor) judgePace(k paceKey, sub identity.Subject, e *verdict.Event, r *rates, s *session) {
	limits := r.limitsOf(k)
	if len(limits) == 0 {
		return
	}
	var seen [verdict.MaxLimits]float32
	var before uint32
	if k.role == roleSubject && s.pages <= r.from+1 {
		before = s.pages - 1
	}
	total, last := p.paces.add(k, e.At, limits, before, s.first, &seen)
	if total <= 2 {
		return
	}
	for i := range limits {
		l := &limits[i]
		if seen[i] <= float32(l.Requests) {
			continue
		}
		addr := e.Subjects[e.N-1].ID
		if times := p.times(k, s.agentCount(), addr); seen[i] > float32(l.Requests)*times {
			p.convict(k, sub, e, r, l, &last, seen[i], times)
			return
		}
	}
}

// times is the multiplier of a subject's limits (invariant 5).
func (p *Processor) times(k paceKey, agents int, addr [16]byte) float32 {
	switch {
	case k.role == roleCrowd:
		return float32(p.cfg.CrowdFactor + p.keeper.KnownAt(addr))
	case k.kind == identity.KindIP:
		return float32(min(max(agents, 1), p.cfg.AddressAgents) + p.keeper.KnownAt(addr))
	}
	return 1
}

// convict bans for pace, unless more than half of a ban is still left. Each ban of a subject lasts twice as long as the
// previous one; in mode observe, where nobody could have reacted, the length stays the same.
func (p *Processor) convict(k paceKey, sub identity.Subject, e *verdict.Event, r *rates, l *limit, last *lastBan, seen, times float32) {
	if p.spares(e.Subjects[e.N-1].ID) {
		p.spare(sub, e.At)
		return
	}
	length, ok := p.banForPace(k, sub, e, r, l, last)
	if !ok {
		return
	}
	p.ban(bans.Ban{
		Subject: sub, Until: e.At.Add(length), Made: e.At, Service: r.Name, Source: bans.SourceProcessor,
		Score: 1, Threshold: r.Threshold, Reason: l.reason,
		Factors: [bans.MaxFactors]bans.Factor{
			{Name: l.factor, Value: seen},
			{Name: "limit", Value: float32(l.Requests) * times},
		},
	}, e)
}

// banForPace returns the length of the ban that is due now; false if none is. Bans for pace and by the formula grow
// together: what counts is how often a subject was banned, not why. A crowd's bans are those of its address. last is the key's
// last ban here: who stays above a limit while it holds costs no further look-up.
func (p *Processor) banForPace(k paceKey, sub identity.Subject, e *verdict.Event, r *rates, l *limit, last *lastBan) (time.Duration, bool) {
	rule := p.growth(l.Ban, e)
	if k.role == roleCrowd {
		if last.holds(uint32(e.At.Unix())) {
			return 0, false
		}
		return p.paces.nextBan(k, e.At, rule)
	}
	sh, h := p.sessions.Lock(sub)
	s := sh.Find(h, sub)
	if s == nil { // it was evicted in the meantime
		sh.Unlock()
		return p.paces.nextBan(k, e.At, rule)
	}
	length, ok := s.lastBan.next(e.At, rule)
	if ahead := s.lastBan.ahead(e.At); !ok && last.until != s.lastBan.until && !(s.bannedScore > r.Threshold) {
		length, ok = ahead, true // the ban that is left holds elsewhere
	} else if ok {
		s.bannedScore = 0 // it holds at this service only
	}
	until := s.lastBan.until
	sh.Unlock()
	if ok {
		p.paces.setBanned(k, until)
	}
	return length, ok
}
