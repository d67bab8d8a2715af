package identity

import (
	"encoding/binary"
	"math"
	"time"

	"antirobot/request"
	"antirobot/spravka"
)

// hostPrefix begins the name of a cookie that browsers keep only if this very host set it over https (RFC 6265bis).
const hostPrefix = "__Host-"

// jar holds the relevant cookies of one request, by kind and in order; a pass whose name has the hostPrefix comes
// first. A sibling domain can set cookies with the same names, which may come before the real ones: so all that bear
// our seal or the service's are tried, and those that don't fit here are looked up again.
type jar struct {
	values [numCookies][jarPlaces][]byte
	n      [numCookies]uint8
	over   [numCookies]bool // there were more
}

const (
	jarPlaces = 4
	// maxTried bounds the cookies of one kind that are tried, in bytes: browsers send about that much in total. A
	// client that hides its identity behind more is judged without it.
	maxTried = 16 << 10
	minTried = 200 // the least that one counts for: ours have about this size
)

// places is how many cookies of each kind the jar holds. A session is expensive to verify and a fuid costs a table
// entry: no more of these are tried.
var places = [numCookies]uint8{KindSpravka: jarPlaces, KindL: 2, KindFuid: 2, KindI: 2, KindService: 2}

func (j *jar) collect(s *CookieSettings, v *request.View) {
	for c := v.Cookies(); c.Next(); {
		for k := KindSpravka; k <= KindService; k++ {
			if name := s.names[k]; name != "" && string(c.Name) == name {
				j.put(k, c.Value)
			}
		}
		if len(c.Name) > len(hostPrefix) && string(c.Name) == s.hostSpravka {
			j.putFirst(KindSpravka, c.Value)
		}
	}
}

func (j *jar) put(k Kind, value []byte) {
	if j.n[k] == places[k] {
		j.over[k] = true
		return
	}
	j.values[k][j.n[k]] = value
	j.n[k]++
}

func (j *jar) putFirst(k Kind, value []byte) {
	if j.n[k] == places[k] {
		j.over[k] = true
		j.n[k]--
	}
	copy(j.values[k][1:], j.values[k][:j.n[k]])
	j.values[k][0] = value
	j.n[k]++
}

type tries struct {
	value []byte

	kind  Kind
	i     uint8
	left  int // bytes
	again bool
	all   request.Cookies
}

func triesOf(k Kind) tries { return tries{kind: k, left: maxTried} }

// next goes to the next cookie, and notes in id if more remain than are tried.
func (t *tries) next(j *jar, id *Identity, v *request.View, s *CookieSettings) bool {
	if t.i < j.n[t.kind] {
		t.value = j.values[t.kind][t.i]
		t.i++
		t.left -= max(len(t.value), minTried)
		return true
	}
	if !j.over[t.kind] {
		return false
	}
	if !t.kind.cheap() {
		id.refuse(t.kind, RefusedTooMany)
		return false
	}
	if !t.again {
		t.again, t.all = true, v.Cookies()
	}
	for t.all.Next() {
		if string(t.all.Name) != s.names[t.kind] || j.holds(t.kind, t.all.Value) {
			continue
		}
		if t.left -= max(len(t.all.Value), minTried); t.left < 0 {
			id.refuse(t.kind, RefusedTooMany)
			return false
		}
		t.value = t.all.Value
		return true
	}
	return false
}

// holds reports whether a value is in the jar, by its bytes' address.
func (j *jar) holds(k Kind, value []byte) bool {
	for _, kept := range j.values[k][:j.n[k]] {
		if len(kept) > 0 && len(value) > 0 && &kept[0] == &value[0] {
			return true
		}
	}
	return false
}

func (r *Resolver) login(id *Identity, j *jar, v *request.View, s *CookieSettings, at int64) {
	for t := triesOf(KindL); t.next(j, id, v, s); {
		cookie := t.value
		var buf [sessionSize]byte
		ses, why := r.openLogin(id, s.login, cookie, buf[:])
		if why == RefusedNone {
			why = s.login.check(&ses, at)
		}
		if why != RefusedNone {
			id.refuse(KindL, why)
			continue
		}
		id.add(Subject{Kind: KindL, ID: ses.id})
		return
	}
}

func (r *Resolver) openLogin(id *Identity, l *login, cookie, buf []byte) (session, RefusalReason) {
	if len(cookie) > maxLogin {
		return session{}, RefusedMalformed
	}
	if ses, ok := unpackSession(r.cached(id, KindL, l.print, cookie, buf)); ok {
		return ses, RefusedNone
	}
	ses, why := l.open(cookie)
	if why == RefusedNone {
		r.remember(id, ses.append(nil))
	}
	return ses, why
}

func (r *Resolver) fuid(id *Identity, j *jar, v *request.View, s *CookieSettings, at int64) {
	for t := triesOf(KindFuid); t.next(j, id, v, s); {
		value := t.value
		born, ok := fuidBirth(value)
		if !ok || !spravka.ValidCookieValue(value) {
			id.refuse(KindFuid, RefusedMalformed)
			continue
		}
		if born > at {
			id.refuse(KindFuid, RefusedYoung)
			continue
		}
		sub := TextSubject(KindFuid, value)
		if why := r.fuidAge(id, s, sub, born, at); why != RefusedNone {
			id.refuse(KindFuid, why)
			continue
		}
		id.add(sub)
		return
	}
}

// fuidAge says why a fuid created at born does not count yet. If it will, id keeps the future subject.
func (r *Resolver) fuidAge(id *Identity, s *CookieSettings, sub Subject, born, at int64) RefusalReason {
	first := born
	if !s.fuidTrusted {
		var remembered bool
		if first, remembered = r.fuids.see(sub.ID, NetKey(id.Net), at); !remembered {
			return RefusedUnseen
		}
	}
	why := RefusedUnseen
	if !aged(born, at, int64(day/time.Second)) {
		why = RefusedYoung
	} else if aged(first, at, int64(day/time.Second)) {
		return RefusedNone
	}
	if id.fuid.Kind == KindNone {
		id.fuid = sub
	}
	return why
}

// browser examines the i cookies, and reports whether the client lacks a long valid one.
func (r *Resolver) browser(
	id *Identity, j *jar, v *request.View, s *CookieSettings, scope uint64, at int64,
) (want bool) {
	if j.n[KindI] == 0 {
		return true
	}
	ring := r.keys.Ring()
	for t := triesOf(KindI); t.next(j, id, v, s); {
		token := t.value
		c, why := r.openI(id, ring, token, at)
		if why == RefusedNone && c.scope != scope {
			why = RefusedDomain
		}
		if why != RefusedNone {
			id.refuse(KindI, why)
			continue
		}
		id.i, id.IBirth = c, c.born+v.At.Unix()-at
		switch {
		case c.crowded:
			id.refuse(KindI, RefusedCrowded)
			return time.Duration(c.expires-at)*time.Second <= iCrowded-iChance
		case !aged(c.born, at, s.iMinAge):
			id.refuse(KindI, RefusedYoung)
		default:
			id.add(Subject{Kind: KindI, ID: c.id})
		}
		return !ring.SealedByNewest(token) || c.expires-at < int64(iLifetime/time.Second)/2
	}
	return true
}

func (r *Resolver) openI(id *Identity, ring *spravka.Ring, token []byte, at int64) (iCookie, RefusalReason) {
	if len(token) > maxToken {
		return iCookie{}, RefusedMalformed
	}
	var buf [iSize + 8]byte
	if b := r.cached(id, KindI, ring.Fingerprint(), token, buf[:]); len(b) == len(buf) {
		if c, ok := parseICookie(b[:iSize]); ok {
			c.expires = int64(binary.BigEndian.Uint64(b[iSize:]))
			if at >= c.expires {
				return iCookie{}, RefusedExpired
			}
			return c, RefusedNone
		}
	}
	payload, expires, err := ring.OpenUntil(nil, spravka.PurposeICookie, nil, token, time.Unix(at, 0))
	if err != nil {
		return iCookie{}, whyRefused(err)
	}
	c, ok := parseICookie(payload)
	if !ok {
		return iCookie{}, RefusedMalformed
	}
	c.expires = expires.Unix()
	r.remember(id, binary.BigEndian.AppendUint64(payload, uint64(c.expires)))
	return c, RefusedNone
}

func (r *Resolver) service(id *Identity, j *jar, v *request.View, s *CookieSettings, at int64) {
	for t := triesOf(KindService); t.next(j, id, v, s); {
		cookie := t.value
		born, sub, why := r.openService(id, s, cookie)
		if why == RefusedNone && !aged(born, at, s.serviceMinAge) {
			why = RefusedYoung
		}
		if why != RefusedNone {
			id.refuse(KindService, why)
			continue
		}
		id.add(sub)
		return
	}
}

func (r *Resolver) openService(
	id *Identity, s *CookieSettings, cookie []byte,
) (born int64, sub Subject, why RefusalReason) {
	if len(cookie) > maxLogin {
		return 0, Subject{}, RefusedMalformed
	}
	sub.Kind = KindService
	var buf [8 + 16]byte
	if b := r.cached(id, KindService, s.servicePrint, cookie, buf[:]); len(b) == len(buf) {
		copy(sub.ID[:], b[8:])
		return int64(binary.BigEndian.Uint64(b)), sub, RefusedNone
	}
	value, at, err := spravka.VerifyService(s.names[KindService], cookie, s.serviceKeys...)
	if err != nil {
		return 0, Subject{}, whyRefused(err)
	}
	sub = TextSubject(KindService, append([]byte(s.serviceText), value...))
	b := binary.BigEndian.AppendUint64(buf[:0], uint64(at.Unix()))
	r.remember(id, append(b, sub.ID[:]...))
	return at.Unix(), sub, RefusedNone
}

const (
	iLifetime = 400 * day // the longest that browsers keep a cookie
	iCrowded  = day       // life of a cookie made above the rate,
	iChance   = time.Hour // of which the client gets another chance after this long

	crowdedMost = 16 // times the rate: beyond it a network receives no cookies at all until the hour is over

	iVersion = 1
	iSize    = 1 + 1 + 16 + 8 + 8
)

type iCookie struct {
	id      [16]byte
	born    int64 // unix seconds
	scope   uint64
	crowded bool  // made above its network's rate: it doesn't count
	expires int64 // unix seconds; the seal's own expiry
}

func (c *iCookie) append(dst []byte) []byte {
	var flags byte
	if c.crowded {
		flags = 1
	}
	dst = append(dst, iVersion, flags)
	dst = append(dst, c.id[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.born))
	return binary.BigEndian.AppendUint64(dst, c.scope)
}

func parseICookie(b []byte) (c iCookie, ok bool) {
	if len(b) != iSize || b[0] != iVersion || b[1] > 1 {
		return iCookie{}, false
	}
	c.crowded = b[1] == 1
	copy(c.id[:], b[2:18])
	c.born = int64(binary.BigEndian.Uint64(b[18:]))
	c.scope = binary.BigEndian.Uint64(b[26:])
	return c, true
}

// MintI appends the value of a Set-Cookie field that gives the client an i cookie, or returns nil: Resolve, which
// must have filled id from the same View, found no page load of a browser, or a long valid cookie. A cookie that is
// near its end, or sealed by an older key, is renewed as the same identity. A new one beyond the rate of its /24 or
// /48, plus one for each visitor known at its address, is given but doesn't count; an hour later it is made again, as
// the same identity.
func (r *Resolver) MintI(dst []byte, id *Identity, v *request.View, s *CookieSettings) []byte {
	if !id.WantI || s.names[KindI] == "" {
		return nil
	}
	c, life, at := id.i, iLifetime, r.at(v)
	if c.born == 0 || c.crowded {
		if c.born == 0 {
			c.id = spravka.NewID()
		}
		c.born, c.crowded = at.Unix(), false
		net, rate := NetKey(id.Net), r.iPerHour.Load()
		n := int64(r.mints.Count(net, at)) + 1
		if most := int(min(crowdedMost*max(rate, 1), math.MaxUint16-1)); !r.mints.Take(net, at, most) {
			r.crowded.Add(1)
			return nil // clients that keep no cookies are not worth a seal each
		}
		if n > rate && (rate == 0 || n > rate+r.trustedAt(id)) {
			c.crowded, life = true, iCrowded
			r.crowded.Add(1)
		} else {
			r.minted.Add(1)
		}
	}
	c.scope = s.Scope(v.Host)
	var buf [iSize]byte
	token := r.keys.Ring().Seal(make([]byte, 0, 256), spravka.PurposeICookie, nil, c.append(buf[:0]), at.Add(life))
	cookie := spravka.Cookie{
		Name: s.names[KindI], Value: token, Domain: s.CookieDomain(v.Host), MaxAge: life, Secure: id.Proto == "https",
		SameSite: "Lax",
	}
	return cookie.Append(dst)
}

func (r *Resolver) trustedAt(id *Identity) int64 {
	if r.visitors == nil || id.N == 0 || id.Subjects[id.N-1].Kind != KindIP {
		return 0
	}
	return int64(r.visitors.KnownAt(id.Subjects[id.N-1].ID))
}

// wantsPage reports whether a browser loads a page: only such requests receive a cookie.
func wantsPage(v *request.View) bool {
	if string(v.Method) != "GET" {
		return false
	}
	if mode := v.Get("Sec-Fetch-Mode"); len(mode) > 0 {
		return string(mode) == "navigate"
	}
	return v.Accept().WantsHTML()
}
