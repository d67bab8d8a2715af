// Package identity identifies the client: it decides whose word to take for the address, verifies the cookies and
// lists the Subjects that a request may be judged by.
//
// Invariants:
//  1. An identity that does not verify is not an identity: the next kind is tried, and the address always comes last.
//  2. Nothing here allocates per request once the tokens of a client are in the cache.
package identity

import (
	"cmp"
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

	"antirobot/bounded"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/store"
)

// Revocations knows which passes were revoked. It is asked about every pass that verifies, on every request.
// *verdict.Cacher implements it.
type Revocations interface {
	Revoked(id [16]byte, born int64) bool
	// RevokedCampaign reports whether what a kind of browser in a network had earned by then was revoked; with network
	// 0, what machines of a shape had.
	RevokedCampaign(net, agent uint64, born int64) bool
}

// Visitors counts the well known visitors of an address (the ID of its Subject). *verdict.Cacher implements it.
type Visitors interface {
	KnownAt(addr [16]byte) int
}

// Deps is what a Resolver works with. Keys is required.
type Deps struct {
	Keys        *spravka.Keys
	Revocations Revocations      // nil: no pass is revoked
	Visitors    Visitors         // nil: no visitor is known
	Store       store.Store      // where fuids are kept, and whose clock cookies go by; nil: a restart forgets fuids
	Now         func() time.Time // by that clock; requests carry their own time; nil: time.Now
	Log         zerolog.Logger
	Metrics     *metrics.Set // nil: no metrics
	TokenCache  int          // bytes of opened cookies, about 350 each; 0: 64 MiB

	fuids, fuidsPerDay int64 // 0: fuidTable, fuidPerDay
}

// Resolver identifies clients. It is safe for concurrent use.
type Resolver struct {
	trust    atomic.Pointer[trust]
	iPerHour atomic.Int64
	keys     *spravka.Keys
	revoked  Revocations      // nil: none
	visitors Visitors         // nil: none
	cache    *freecache.Cache // verified cookies, can be emptied at any time
	fuids    *fuids
	mints    *bounded.Counts[uint64] // i cookies of a network in an hour

	credentials *credentials
	clock       *clock
	minted      atomic.Uint64
	crowded     atomic.Uint64
	keeper      *fuidKeeper // nil: fuids are not kept
	store       store.Store // nil: none
}

// The sizes of tables.
const (
	tokenCache = 64 << 20
	mintPlaces = 1 << 16 // networks with new i cookies
	fuidTable  = 500_000 // fuid values, about 60 bytes each
	fuidPerDay = 200     // new ones of one /24 or /48: what a farmer of cookies can plant
)

// New makes a Resolver, which can identify clients at once; Start lets it remember.
func New(c Config, d Deps) (*Resolver, error) {
	r := &Resolver{
		keys: d.Keys, revoked: d.Revocations, visitors: d.Visitors, store: d.Store,
		mints: bounded.NewCounts[uint64](time.Hour, mintPlaces),
	}
	commit, err := r.Prepare(c)
	if err != nil {
		return nil, err
	}
	commit()
	r.clock = new(clock)
	r.credentials = newCredentials(d.Keys.Ring().HashKey())
	r.cache = freecache.NewCacheCustomTimer(cmp.Or(d.TokenCache, tokenCache), r.clock)
	r.fuids = newFuids(cmp.Or(d.fuids, fuidTable), cmp.Or(d.fuidsPerDay, fuidPerDay))
	if d.Store != nil {
		r.keeper = newFuidKeeper(r.fuids, d)
	}
	if d.Metrics != nil {
		r.register(d.Metrics)
	}
	return r, nil
}

// Start reads the known fuids, and keeps new ones until Close. ctx is for the start only. Without its shared store,
// known fuids count as new.
func (r *Resolver) Start(ctx context.Context) error {
	if r.keeper == nil {
		return nil
	}
	return r.keeper.start(ctx)
}

// Close saves new fuids, and stops the work of Start. Resolve keeps working.
func (r *Resolver) Close() error {
	if r.keeper == nil {
		return nil
	}
	return r.keeper.close()
}

// clock gives the cache the time of the latest request: asking the system on each look-up costs more than the rest of
// it. It only ranks entries by their last use.
type clock struct{ unix atomic.Uint32 }

// Now implements freecache.Timer.
func (c *clock) Now() uint32 { return c.unix.Load() }

// advance stores only changed values, so that requests do not contend for the cache line.
func (c *clock) advance(at int64) {
	if now := uint32(at); now > c.unix.Load() {
		c.unix.Store(now)
	}
}

// Prepare prepares the trusted proxies and the rate of i cookies of a new config, and returns a func that puts them
// into use.
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

func (r *Resolver) register(set *metrics.Set) {
	gauge := func(name string, f func() float64) { set.NewGauge(name, f) }
	gauge(`antirobot_identity_cache_entries`, func() float64 { return float64(r.cache.EntryCount()) })
	gauge(`antirobot_identity_cache_hits`, func() float64 { return float64(r.cache.HitCount()) })
	gauge(`antirobot_identity_cache_misses`, func() float64 { return float64(r.cache.MissCount()) })
	gauge(`antirobot_identity_cache_evictions`, func() float64 { return float64(r.cache.EvacuateCount()) })
	gauge(`antirobot_identity_i_minted{rate="within"}`, func() float64 { return float64(r.minted.Load()) })
	gauge(`antirobot_identity_i_minted{rate="above"}`, func() float64 { return float64(r.crowded.Load()) })
	gauge(`antirobot_identity_honoured_credentials`, func() float64 { return float64(r.credentials.honoured.Load()) })
	gauge(`antirobot_identity_fuids`, func() float64 { return float64(r.fuids.size()) })
	gauge(`antirobot_identity_fuids_refused`, func() float64 { return float64(r.fuids.refused.Load()) })
	gauge(`antirobot_identity_fuids_evicted`, func() float64 { return float64(r.fuids.evicted.Load()) })
}

// Resolve fills id with the client's address, and the subjects that its cookies prove on this service, strongest
// first, the address last. It does not allocate once the client's cookies are in the cache.
func (r *Resolver) Resolve(id *Identity, v *request.View, s *CookieSettings) {
	id.reset()
	addr, https := r.trust.Load().client(v)
	id.setAddr(addr, https)

	var j jar
	j.collect(s, v)
	at := r.at(v).Unix()
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
	if len(v.Client) > 0 && !id.has(KindL) {
		id.key = append(append(id.key[:0], "certificate:"...), v.Client...)
		id.add(TextSubject(KindL, id.key))
	}
	if r.credentials.honoured.Load() > 0 {
		r.authorized(id, v, s, at)
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
	id.add(AddrSubject(id.Addr))
}

// ResolvePartner is Resolve for a request of a known XML partner, which gives its user's address and may pass on the
// user's spravka: the pass must have been made for this partner (spravka.PartnerOf). No header and no other cookie of
// the request is the user's.
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
		r.passes(id, &j, v, &only, s.Scope(v.Host), partner, r.at(v).Unix())
	}
	id.add(AddrSubject(id.Addr))
}

// at is the time of a request by the clock of all gateways, which cookies go by.
func (r *Resolver) at(v *request.View) time.Time {
	if r.store == nil {
		return v.At
	}
	return store.Time(r.store, v.At)
}

func aged(born, at, age int64) bool { return at-born > age }

// cached returns the cached form of a cookie, copied to buf, or nil. The key is the whole cookie: with a hash of it,
// a collision could pass for a proof. print stands for the keys that verified it.
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

// remember caches a verified cookie under the key of the last call to cached.
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
		case r.revoked != nil && (r.revoked.Revoked(p.ID, p.Born) ||
			r.revoked.RevokedCampaign(p.Net, p.Agent, p.Born) ||
			p.Shape != 0 && r.revoked.RevokedCampaign(0, p.Shape, p.Born)):
			why = RefusedRevoked
		case !p.Earned && !aged(p.Born, at, int64(day/time.Second)):
			why = RefusedUnearned
			id.NFresh++
		case p.Away(id.NetKey()):
			why, id.Away = RefusedAway, p
		}
		if why != RefusedNone {
			id.refuse(KindSpravka, why)
			continue
		}
		if id.hasPass(p.ID) {
			continue // the same cookie twice
		}
		if id.NPasses == 0 {
			id.add(Subject{Kind: KindSpravka, ID: p.ID})
		}
		id.Passes[id.NPasses] = p
		id.NPasses++
	}
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
	case errors.Is(err, spravka.ErrKey):
		return RefusedKey
	case errors.Is(err, spravka.ErrSeal):
		return RefusedSeal
	default:
		return RefusedMalformed
	}
}
