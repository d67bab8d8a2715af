// Package quota counts what is read at a service, by client and by the scopes around it, and says who has to be checked.
//
// The scopes of a page are its client, its address (an IPv6 /64), the networks around that (/24; /56, /48, /32), and all new
// visitors of the service together. Each has a quota: an hour's and a day's, in pages. Counts fade exponentially.
//
// Rules:
//  1. A page that comes with its subresources weighs one, one without them bareWeight. A client that has loaded
//     subresources has loaded them for a day: a cache is no sin.
//  2. Each use is counted by the class of its client. A class is checked for its own use alone: what strangers read leads
//     to no check of a client with a record.
//  3. Over the quota of a scope the client that has read more than half of it is checked. Only if the others together
//     have read a quarter of the quota, too, are all of the class.
//  4. The quota of a scope follows its usual use: base plus usualMargin times what the class read there on earlier days.
//  5. Nothing here bans, and an excess says nothing about who the client is.
package quota

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
)

// Config is the section processor.quota.
type Config struct {
	Enabled bool    `mapstructure:"enabled"`
	Hour    float64 `mapstructure:"hour"` // pages of a client or an address within an hour
	Day     float64 `mapstructure:"day"`  // and within a day
	// Newcomers is the pages without subresources that all new visitors of a service may read in a day together, after the
	// first of each, weighed; half of it in an hour.
	Newcomers float64 `mapstructure:"newcomers"`
}

// DefaultConfig returns quotas by which one address reads less than a hundredth of 20,000 pages in a day: what has faded
// within the day included, 1.63 times Day.
func DefaultConfig() Config { return Config{Enabled: true, Hour: 80, Day: 95, Newcomers: 1000} }

// Grade is how usual a visitor is for the site.
type Grade uint8

// The grades.
const (
	GradeUsual Grade = iota // or no opinion
	GradeKnown
	GradeUnusual
)

// times is the multiple of the base that a client of the grade may read.
var times = [...]float32{GradeUsual: 1, GradeKnown: 4, GradeUnusual: 0.25}

// Class is what is known about a client's way of loading pages; each class has its own use of a scope.
type Class uint8

// The classes.
const (
	Single   Class = iota // no page whose subresources could be missed yet: a first page
	Bare                  // reads pages without their subresources
	Recorded              // has loaded subresources in the past day, or came back from an earlier day
	Known                 // the site knows who it is: a login, a label
	classes
)

// The constants of the quota.
const (
	bareWeight  = 4    // pages that a page without subresources weighs
	flatWeight  = 2    // where pages have none
	waiting     = 2    // first pages without a cookie whose cookies may still come back: people behind one address
	othersShare = 0.25 // of a quota; see rule 3
	usualMargin = 3
	usualFades  = 0.75 // of the usual use after a day
	fadedTo     = 0.9  // an excess ends when the use has faded to this share of the quota
	recordLasts = 86400

	// A scope's restriction of new clients lasts as long after the last charge beyond its quota.
	scopeLasts = time.Minute
	leastLast  = time.Minute
	mostLast   = 12 * time.Hour
	bareLasts  = 6 * time.Hour // of a client without a record, for the quota of a scope around it
)

var spans = [...]struct {
	seconds float64
	name    string
}{{3600, "1h"}, {86400, "24h"}}

// Reader is the client of a page or subresource.
type Reader struct {
	Client    uint64 // names it: its login, or its address, fields, handshake and cookie
	Nameless  uint64 // names it without its cookie; the same as Client if it brings none
	Addr      [16]byte
	Group     uint32 // of the service
	Cookie    bool   // it brings our cookie
	Returning bool   // it came back from an earlier day
	Known     bool
	Grade     Grade
}

// Site is what is known about the service.
type Site struct {
	Flat    bool // its pages have no subresources
	Settled bool // it knows its people: only then clients with a record share the quotas of their networks
}

// Excess says that a client, or the new clients of a network, have read more than the quota.
type Excess struct {
	Scope  Scope
	Prefix identity.Prefix // the network whose quota is exceeded; of ScopeClient its address
	New    bool            // it concerns clients of Prefix without a record; otherwise the reader
	Bare   bool            // the reader loads no subresources …
	Jar    bool            // … but keeps our cookie
	Until  time.Time
	Read   uint32 // pages, weighed
	Most   uint32 // and how many are allowed
	Window string
}

// Scope is what an excess was counted on.
type Scope uint8

// The scopes.
const (
	ScopeClient Scope = iota
	ScopeAddress
	ScopeNetwork
	ScopeNewcomers
	ScopeGrade // its own quota, which is smaller because the client is unusual for the site
)

var scopeNames = [...]string{"client", "address", "network", "newcomers", "unusual"}

// String returns the name that JSON and metrics use.
func (s Scope) String() string { return scopeNames[s] }

// client is what is counted for one client.
type client struct {
	at      int64 // unix milliseconds to which the counts have faded
	use     [2]float32
	pages   uint16 // without subresources, since the last cookie came back
	shared  bool   // cookies came back: several people may have this name
	loaded  uint32 // unix seconds of the last subresource
	known   uint32 // unix seconds until which its record is published …
	near    uint32 // … and that it has used half of its quota
	hold           // its excess
	pending float32
}

// Quota is safe for concurrent use; made by New.
type Quota struct {
	cfg     Config
	seed    maphash.Seed
	clients *bounded.Table[clientKey, client]
	scopes  *bounded.Table[identity.Prefix, scope]
}

type clientKey struct {
	id    uint64
	group uint32
}

// New makes a Quota of at most so many clients, and as many scopes. clock is the second of the events.
func New(cfg Config, most int, clock *atomic.Uint32) *Quota {
	q := &Quota{cfg: cfg, seed: maphash.MakeSeed()}
	most = max(most, bounded.Shards)
	q.clients = bounded.NewTable[clientKey, client](most, func(k clientKey) uint64 { return maphash.Comparable(q.seed, k) }, clock)
	q.scopes = bounded.NewTable[identity.Prefix, scope](most, func(p identity.Prefix) uint64 { return maphash.Comparable(q.seed, p) }, clock)
	return q
}

// Len is how many clients are known.
func (q *Quota) Len() int { return q.clients.Len() }

// Evicted is how many clients had to make room.
func (q *Quota) Evicted() uint64 { return q.clients.Evicted() }

// Sweep forgets what has faded at a time.
func (q *Quota) Sweep(at time.Time) {
	const idle = 2 * 86400_000
	ms := at.UnixMilli()
	q.clients.Sweep(func(_ clientKey, c *client) bool { return ms-c.at > idle })
	q.scopes.Sweep(func(_ identity.Prefix, s *scope) bool { return ms-s.at > 7*idle })
}

// limit is the quota of one client or address in the window i.
func (q *Quota) limit(i int) float32 {
	if i == 0 {
		return float32(q.cfg.Hour)
	}
	return float32(q.cfg.Day)
}

// Told is what a charge leads to; its parts are news, to be told once.
type Told struct {
	Excess   Excess
	Over     bool // there is an Excess
	Record   bool // the reader has a record from now on, for a day
	Near     bool // the reader has used half of its quota
	Recorded bool // the reader has a record
}

// Subresource counts a subresource: its client has a record from now on.
func (q *Quota) Subresource(r *Reader, at time.Time) (t Told) {
	key := clientKey{r.Client, r.Group}
	var claimed float32
	if r.Cookie && r.Client != r.Nameless && !q.knows(key) {
		claimed = q.claim(r, at)
	}
	sh, h := q.clients.Lock(key)
	c, _ := q.clients.Open(sh, h, key)
	c.fade(at.UnixMilli())
	c.add(claimed)
	pending := c.pending + claimed
	now := uint32(at.Unix()) //nolint:gosec // until 2106
	c.loaded, c.pending, c.pages, c.hold = now, 0, 0, hold{}
	t.Record = c.tells(now)
	sh.Unlock()
	if pending > 0 {
		q.move(r, at, pending)
	}
	t.Recorded = true
	return t
}

// hold is a restriction that is published; one that is needed again at once lasts twice as long as the last.
type hold struct{ end, length uint32 } // unix seconds, seconds

// until begins a restriction of a length, or of twice the last one.
func (h *hold) until(now uint32, d time.Duration) {
	length := uint32(d / time.Second) //nolint:gosec // hours
	if h.length > 0 && now >= h.end && now-h.end < h.length {
		length = max(length, min(2*h.length, uint32(mostLast/time.Second)))
	}
	h.length, h.end = length, now+length
}

// tells reports whether the client's record has to be told now.
func (c *client) tells(now uint32) bool {
	if c.known > now+recordLasts/2 {
		return false
	}
	c.known = now + recordLasts
	return true
}

// knows reports whether a client is known.
func (q *Quota) knows(k clientKey) bool {
	sh, h := q.clients.Lock(k)
	defer sh.Unlock()
	return sh.Find(h, k) != nil
}

// claim takes a page over that the client loaded before it had its cookie.
func (q *Quota) claim(r *Reader, at time.Time) (pending float32) {
	k := clientKey{r.Nameless, r.Group}
	sh, h := q.clients.Lock(k)
	if c := sh.Find(h, k); c != nil && c.pages > 0 && c.pending > 0 {
		c.fade(at.UnixMilli())
		pending = c.pending / float32(c.pages)
		c.pages--
		c.shared = true
		c.pending -= pending
		for i := range c.use {
			c.use[i] = max(c.use[i]-pending, 0)
		}
	}
	sh.Unlock()
	return pending
}

// Page counts what is worth so many pages. Plain use has no subresources to miss: data, downloads.
func (q *Quota) Page(r *Reader, s Site, at time.Time, worth float32, plain bool) (t Told) {
	ms, now := at.UnixMilli(), uint32(at.Unix()) //nolint:gosec // until 2106
	key := clientKey{r.Client, r.Group}
	var claimed float32
	if r.Cookie && r.Client != r.Nameless && !q.knows(key) {
		claimed = q.claim(r, at)
	}
	sh, h := q.clients.Lock(key)
	c, _ := q.clients.Open(sh, h, key)
	c.fade(ms)
	if claimed > 0 {
		c.pages, c.pending = 1, c.pending+claimed
		c.add(claimed)
	}
	ch := charge{reader: *r, at: at, class: c.class(r, s, now), weight: worth}
	bare := float32(bareWeight)
	if s.Flat {
		bare = flatWeight
	}
	switch {
	case ch.class >= Recorded:
		ch.settled, c.pending, c.pages = c.pending, 0, 0
	case plain:
		if ch.class == Single && c.use[1] > 0 { // it has read before
			ch.class = Bare
		}
	default:
		inc(&c.pages)
		c.pending += worth
		ch.class = Single
		if c.pages > 1 && (r.Cookie || c.pages > waiting || !c.shared && q.wave(r.Group, ms) && !q.Shared(r.Addr, r.Group, r.Client, at)) {
			ch.class, ch.weight = Bare, bare*c.pending
			ch.settled = c.pending - worth // were counted as first pages
			c.pending = 0
		}
	}
	c.add(ch.weight)
	if ch.class == Bare {
		c.add(-ch.settled)
	}
	t.Recorded = ch.class >= Recorded
	if c.loaded != 0 && now-c.loaded < recordLasts && !r.Known {
		t.Record = c.tells(now)
	}
	t.Near = c.nears(q, r.Grade, now)
	told := c.end > now+uint32(leastLast/time.Second)/2
	use := c.use
	ch.use = use[1]
	sh.Unlock()

	x, around := q.around(&ch, s)
	over := !ch.minor && q.own(&ch, use, &t.Excess)
	if around && !over {
		t.Excess, over = x, true
	}
	if !over || told && !t.Excess.New {
		return t
	}
	t.Over = true
	t.Excess.Bare, t.Excess.Jar = !t.Recorded, r.Cookie
	if !t.Excess.New {
		sh, h := q.clients.Lock(key)
		if c := sh.Find(h, key); c != nil {
			c.hold.until(now, t.Excess.Until.Sub(at))
			t.Excess.Until = time.Unix(int64(c.end), 0)
		}
		sh.Unlock()
	}
	return t
}

func inc(n *uint16) {
	if *n < math.MaxUint16 {
		*n++
	}
}

func (c *client) add(w float32) {
	for i := range c.use {
		c.use[i] = max(c.use[i]+w, 0)
	}
}

// class returns the class of a client before its next page.
func (c *client) class(r *Reader, s Site, now uint32) Class {
	switch {
	case r.Known:
		return Known
	case r.Returning, c.loaded != 0 && now-c.loaded < recordLasts, s.Flat && r.Cookie:
		return Recorded
	case c.pages == 0:
		return Single
	}
	return Bare
}

func (c *client) nears(q *Quota, g Grade, now uint32) bool {
	const again = 600 // seconds
	if c.near > now {
		return false
	}
	for i := range spans {
		if c.use[i] > q.limit(i)*times[g]/2 {
			c.near = now + again
			return true
		}
	}
	return false
}

func (c *client) fade(at int64) {
	if at <= c.at {
		return
	}
	if c.at != 0 {
		for i := range c.use {
			c.use[i] *= fading(at-c.at, spans[i].seconds)
		}
	}
	c.at = at
}

// fading is the share of a count that is left after so many milliseconds.
func fading(ms int64, span float64) float32 {
	x := float64(ms) / 1000 / span
	if x < 1.0/1024 {
		return float32(1 - x*(1-x/2))
	}
	return float32(math.Exp(-x))
}

// own sets x to the excess of a client over its own quota.
func (q *Quota) own(ch *charge, use [2]float32, x *Excess) bool {
	r := &ch.reader
	g := r.Grade
	if r.Known {
		g = GradeKnown
	}
	for i := range spans {
		most := q.limit(i)*times[g] + explained(ch.usual, i)
		if use[i] <= most {
			continue
		}
		*x = Excess{Scope: ScopeClient, Prefix: identity.HouseholdOf(r.Addr, r.Group), Read: uint32(use[i]), Most: uint32(most), Window: spans[i].name}
		if g == GradeUnusual && use[i] <= q.limit(i)+explained(ch.usual, i) {
			x.Scope = ScopeGrade
		}
		x.Until = ch.at.Add(lasts(i, use[i], most))
		return true
	}
	return false
}

// explained is the use in the window i that a usual use in a day explains: within an hour half of it.
func explained(usual float32, i int) float32 { return usualMargin * usual / float32(2-i) }

// lasts is how long a use takes to fade to the share of its quota at which the excess ends.
func lasts(i int, use, most float32) time.Duration {
	d := time.Duration(spans[i].seconds * math.Log(float64(use/(most*fadedTo))) * float64(time.Second))
	return min(max(d, leastLast), mostLast)
}

// Validate returns every problem at once.
func (c *Config) Validate() error {
	var errs []error
	for _, f := range [...]struct {
		key         string
		v           float64
		least, most float64
	}{{"hour", c.Hour, 10, 1e6}, {"day", c.Day, 10, 1e7}, {"newcomers", c.Newcomers, 10, 1e9}} {
		if !(f.v >= f.least && f.v <= f.most) {
			errs = append(errs, fmt.Errorf("quota.%s: %v is not between %v and %v", f.key, f.v, f.least, f.most))
		}
	}
	return errors.Join(errs...)
}
