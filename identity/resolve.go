package identity

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/coocood/freecache"
	"github.com/rs/zerolog"

	"antirobot/request"
	"antirobot/spravka"
	"antirobot/store"
)

// Revocations knows which passes were taken back. It is asked about every pass that verifies, on every request.
// *verdict.Cacher is.
type Revocations interface {
	Revoked(id [16]byte, born int64) bool
}

// Deps is what a Resolver works with. Keys is required.
type Deps struct {
	Keys        *spravka.Keys
	Revocations Revocations      // nil: no pass is taken back
	Store       store.Store      // where fuids are kept; nil: a restart forgets them
	Now         func() time.Time // of Start and what it begins; requests have their own time; nil: time.Now
	Log         zerolog.Logger
	Metrics     *metrics.Set // nil: none are shown
}

// Resolver finds out who asks. It is safe for concurrent use.
type Resolver struct {
	trust    atomic.Pointer[trust]
	iPerHour atomic.Int64
	keys     *spravka.Keys
	revoked  Revocations      // nil: none
	cache    *freecache.Cache // opened cookies; holds only what was verified, and can be emptied at any time
	fuids    *fuids
	mints    *rates
	clock    *clock
	minted   atomic.Uint64
	crowded  atomic.Uint64
	keeper   *fuidKeeper // nil: fuids are not kept
}

// New makes a Resolver, which finds out at once; Start lets it remember.
func New(c Config, d Deps) (*Resolver, error) {
	r := &Resolver{keys: d.Keys, revoked: d.Revocations, mints: newRates()}
	commit, err := r.Prepare(c)
	if err != nil {
		return nil, err
	}
	commit()
	r.clock = new(clock)
	r.cache = freecache.NewCacheCustomTimer(int(c.TokenCacheBytes), r.clock)
	r.fuids = newFuids(c.FuidTable, c.FuidPerDay)
	if d.Store != nil {
		r.keeper = newFuidKeeper(r, d)
	}
	if d.Metrics != nil {
		r.register(d.Metrics)
	}
	return r, nil
}

// Start reads which fuids were seen, and keeps what is new until Close. ctx is that of the start. A shared store that is
// away is no error: the fuids that it knows count as new.
func (r *Resolver) Start(ctx context.Context) error {
	if r.keeper == nil {
		return nil
	}
	return r.keeper.start(ctx)
}

// Close keeps what is new for a last time, and ends what Start began. Resolve goes on to answer.
func (r *Resolver) Close() error {
	if r.keeper == nil {
		return nil
	}
	return r.keeper.close()
}

// clock tells the cache the time of the latest request: asking the system on each look-up costs more than the rest of
// it. Nothing in the cache expires by this clock; it only ranks entries by their last use.
type clock struct{ unix atomic.Uint32 }

// Now implements freecache.Timer.
func (c *clock) Now() uint32 { return c.unix.Load() }

// advance stores only what is new, so that requests do not fight over the cache line.
func (c *clock) advance(at int64) {
	if now := uint32(at); now > c.unix.Load() {
		c.unix.Store(now)
	}
}

// Prepare makes ready for the trusted proxies and the rate of i cookies of a new config, and returns what puts them into
// use for all requests that come after. The sizes of tables and the quota of fuids stay as they were made.
func (r *Resolver) Prepare(c Config) (commit func(), err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	t, err := newTrust(c)
	if err != nil {
		return nil, fmt.Errorf("trusted_proxies: %w", err)
	}
	return func() {
		r.trust.Store(t)
		r.iPerHour.Store(c.IPerHour)
	}, nil
}

// register adds the Resolver's gauges to the set.
func (r *Resolver) register(set *metrics.Set) {
	gauge := func(name string, f func() float64) { set.NewGauge(name, f) }
	gauge(`antirobot_identity_cache_entries`, func() float64 { return float64(r.cache.EntryCount()) })
	gauge(`antirobot_identity_cache_hits`, func() float64 { return float64(r.cache.HitCount()) })
	gauge(`antirobot_identity_cache_misses`, func() float64 { return float64(r.cache.MissCount()) })
	gauge(`antirobot_identity_cache_evictions`, func() float64 { return float64(r.cache.EvacuateCount()) })
	gauge(`antirobot_identity_i_minted{rate="within"}`, func() float64 { return float64(r.minted.Load()) })
	gauge(`antirobot_identity_i_minted{rate="above"}`, func() float64 { return float64(r.crowded.Load()) })
	gauge(`antirobot_identity_fuids`, func() float64 { return float64(r.fuids.size()) })
	gauge(`antirobot_identity_fuids_refused`, func() float64 { return float64(r.fuids.refused.Load()) })
	gauge(`antirobot_identity_fuids_evicted`, func() float64 { return float64(r.fuids.evicted.Load()) })
}

// Resolve fills id with who asks: the client's address, and the subjects that its cookies prove on this service,
// strongest first, the address last. It always finds at least one subject. It does not allocate once the client's
// cookies are in the cache.
func (r *Resolver) Resolve(id *Identity, v *request.View, s *CookieSettings) {
	id.reset()
	addr, https := r.trust.Load().client(v)
	id.setAddr(addr, https)

	var j jar
	j.collect(s, v)
	at := v.At.Unix()
	r.clock.advance(at)
	var scope uint64
	if j.n[KindSpravka]+j.n[KindI] > 0 {
		scope = s.Scope(v.Host)
	}
	if j.n[KindSpravka] > 0 {
		r.passes(id, &j, v, s, scope, 0, at)
	}
	if j.n[KindL] > 0 {
		r.login(id, &j, v, s, at)
	}
	if j.n[KindFuid] > 0 {
		r.fuid(id, &j, v, s, at)
	}
	if s.names[KindI] != "" {
		id.WantI = r.browser(id, &j, v, s, scope, at) && wantsPage(v)
	}
	if j.n[KindService] > 0 {
		r.service(id, &j, v, s, at)
	}
	id.add(AddrSubject(id.Addr), nil)
}

// ResolvePartner is Resolve for a request of a known XML partner, which names its user's address and may hand on the
// user's spravka: the pass must have been made for this partner (spravka.PartnerOf). No header and no other cookie of
// the request is the user's, so none is looked at.
func (r *Resolver) ResolvePartner(id *Identity, v *request.View, s *CookieSettings, partner uint64, user netip.Addr) {
	id.reset()
	id.Partner = true
	_, https := r.trust.Load().client(v)
	id.setAddr(user.Unmap().WithZone(""), https)
	var j jar
	only := CookieSettings{}
	only.names[KindSpravka] = s.names[KindSpravka]
	j.collect(&only, v)
	if j.n[KindSpravka] > 0 {
		r.passes(id, &j, v, &only, s.Scope(v.Host), partner, v.At.Unix())
	}
	id.add(AddrSubject(id.Addr), nil)
}

func (id *Identity) setAddr(a netip.Addr, https bool) {
	if !a.IsValid() {
		a = netip.IPv6Unspecified() // a peer without address, such as a socket in the file system
	}
	id.Addr, id.Net = a, NetOf(a)
	id.Proto = "http"
	if https {
		id.Proto = "https"
	}
}

// aged reports whether what was born at born is older than age: at the very border it is not yet.
func aged(born, at, age int64) bool { return at-born > age }

// cached returns the cached form of a cookie, which is copied to buf, or nil. The key is the whole cookie: a hash of
// it would let a collision pass for a proof. print stands for the keys that verified it.
func (r *Resolver) cached(id *Identity, k Kind, print uint64, cookie, buf []byte) []byte {
	id.key = append(id.key[:0], byte(k))
	id.key = binary.LittleEndian.AppendUint64(id.key, print)
	id.key = append(id.key, cookie...)
	b, err := r.cache.GetWithBuf(id.key, buf)
	if err != nil {
		return nil
	}
	return b
}

// remember caches what was verified, under the key of the last call of cached.
func (r *Resolver) remember(id *Identity, val []byte) {
	_ = r.cache.Set(id.key, val, 0) // an entry too large for the cache is opened anew each time
}

func (r *Resolver) passes(id *Identity, j *jar, v *request.View, s *CookieSettings, scope, partner uint64, at int64) {
	ring := r.keys.Ring()
	for t := triesOf(KindSpravka); id.NPasses < maxPasses && t.next(j, id, v, s); {
		token := t.value
		p, why := r.openPass(id, ring, token, at)
		switch {
		case why != RefusedNone:
		case p.Scope != scope || p.Partner != partner:
			why = RefusedDomain
		case r.revoked != nil && r.revoked.Revoked(p.ID, p.Born):
			why = RefusedRevoked
		case !p.Earned && !aged(p.Born, at, int64(day/time.Second)):
			why = RefusedUnearned
			id.NFresh++
		}
		if why != RefusedNone {
			id.refuse(KindSpravka, why)
			continue
		}
		if id.hasPass(p.ID) {
			continue // the same cookie twice
		}
		if id.NPasses == 0 {
			id.add(Subject{Kind: KindSpravka, ID: p.ID}, nil)
		}
		id.Passes[id.NPasses] = p
		id.NPasses++
	}
}

func (id *Identity) hasPass(pass [16]byte) bool {
	for i := range id.NPasses {
		if id.Passes[i].ID == pass {
			return true
		}
	}
	return false
}

func (r *Resolver) openPass(id *Identity, ring *spravka.Ring, token []byte, at int64) (spravka.Pass, RefusalReason) {
	if len(token) > maxToken {
		return spravka.Pass{}, RefusedMalformed
	}
	var buf [spravka.PackedPassSize]byte
	if p, ok := spravka.UnpackPass(r.cached(id, KindSpravka, ring.Fingerprint(), token, buf[:])); ok {
		if at >= p.Expires {
			return spravka.Pass{}, RefusedExpired
		}
		return p, RefusedNone
	}
	p, err := ring.OpenPass(token, time.Unix(at, 0))
	if err != nil {
		return spravka.Pass{}, whyRefused(err)
	}
	r.remember(id, p.AppendPacked(buf[:0]))
	return p, RefusedNone
}

// maxToken bounds the cookies spravka and i; ours have about 200 bytes.
const maxToken = 512

func whyRefused(err error) RefusalReason {
	switch {
	case errors.Is(err, spravka.ErrExpired):
		return RefusedExpired
	case errors.Is(err, spravka.ErrSeal):
		return RefusedSeal
	default:
		return RefusedMalformed
	}
}

func (r *Resolver) login(id *Identity, j *jar, v *request.View, s *CookieSettings, at int64) {
	for t := triesOf(KindL); t.next(j, id, v, s); {
		cookie := t.value
		var buf [sessionSize + maxLoginText]byte
		ses, why := r.openLogin(id, s.login, cookie, buf[:])
		if why == RefusedNone {
			why = s.login.check(&ses, at)
		}
		if why != RefusedNone {
			id.refuse(KindL, why)
			continue
		}
		id.add(Subject{Kind: KindL, ID: ses.id}, id.keep("", ses.text))
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

// keep copies a text to memory that lasts until the next Resolve.
func (id *Identity) keep(name string, text []byte) []byte {
	n := len(id.text)
	id.text = append(id.text, name...)
	id.text = append(id.text, text...)
	return id.text[n:len(id.text):len(id.text)]
}

func (r *Resolver) fuid(id *Identity, j *jar, v *request.View, s *CookieSettings, at int64) {
	for t := triesOf(KindFuid); t.next(j, id, v, s); {
		value := t.value
		born, ok := fuidBirth(value)
		if !ok || !spravka.ValidCookieValue(value) {
			id.refuse(KindFuid, RefusedMalformed)
			continue
		}
		if !aged(born, at, int64(day/time.Second)) {
			id.refuse(KindFuid, RefusedYoung)
			continue
		}
		sub := textSubject(KindFuid, value)
		if !s.fuidTrusted {
			first, known := r.fuids.see(sub.ID, NetKey(id.Net), at)
			if !known || !aged(first, at, int64(day/time.Second)) {
				id.refuse(KindFuid, RefusedUnseen)
				continue
			}
		}
		id.add(sub, value)
		return
	}
}

// browser looks at the i cookies, and reports whether the client lacks one that is good for long.
func (r *Resolver) browser(id *Identity, j *jar, v *request.View, s *CookieSettings, scope uint64, at int64) (want bool) {
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
		id.i, id.IBirth = c, c.born
		switch {
		case c.crowded:
			id.refuse(KindI, RefusedCrowded)
			return false // it lives for a day; then there is another chance
		case !aged(c.born, at, s.iMinAge):
			id.refuse(KindI, RefusedYoung)
		default:
			id.add(Subject{Kind: KindI, ID: c.id}, nil)
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
		born, n, sub, why := r.openService(id, s, cookie)
		if why == RefusedNone && !aged(born, at, s.serviceMinAge) {
			why = RefusedYoung
		}
		if why != RefusedNone {
			id.refuse(KindService, why)
			continue
		}
		id.add(sub, id.keep(s.serviceText, cookie[:n]))
		return
	}
}

// openService returns when the cookie was made, how long its value is, and whom it stands for.
func (r *Resolver) openService(id *Identity, s *CookieSettings, cookie []byte) (born int64, n int, sub Subject, why RefusalReason) {
	if len(cookie) > maxLogin {
		return 0, 0, Subject{}, RefusedMalformed
	}
	sub.Kind = KindService
	var buf [8 + 8 + 16]byte
	if b := r.cached(id, KindService, s.servicePrint, cookie, buf[:]); len(b) == len(buf) {
		copy(sub.ID[:], b[16:])
		return int64(binary.BigEndian.Uint64(b)), int(binary.BigEndian.Uint64(b[8:])), sub, RefusedNone
	}
	value, at, err := spravka.VerifyService(s.names[KindService], cookie, s.serviceKeys...)
	if err != nil {
		return 0, 0, Subject{}, whyRefused(err)
	}
	sub = textSubject(KindService, append([]byte(s.serviceText), value...))
	b := binary.BigEndian.AppendUint64(buf[:0], uint64(at.Unix()))
	b = binary.BigEndian.AppendUint64(b, uint64(len(value)))
	r.remember(id, append(b, sub.ID[:]...))
	return at.Unix(), len(value), sub, RefusedNone
}
