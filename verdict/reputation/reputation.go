// Package reputation knows which visitors a site has seen before. It has three grades:
//
//   - Known: asked for pages as a human on two different days (UTC). Bans on its address do not reach it.
//   - Returning: was seen as a human on an earlier day, even with a browser cookie that was too young to count. It is treated
//     like Known, unless more visitors of its address wait for their second day than may become Known there, or most of the
//     address's visitors turned out to be robots.
//   - New: everything else.
//
// At most perAddress subjects become Known at one address, so a farm of cookies buys little. A subject keeps its grade
// wherever it goes, so a phone in a banned carrier network is not stopped; a ban on the subject itself takes its grade away.
package reputation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/store/behind"
	"antirobot/verdict/replicate"
)

const (
	shards = 64
	prefix = "reputation/"
	// perAddress is how many subjects of an address may be Known.
	perAddress        = 32
	waitingPerAddress = 8 * perAddress // for their second day
)

// Grade is what the site knows of a visitor.
type Grade uint8

// The grades.
const (
	New Grade = iota
	Returning
	Known
)

// Earns reports whether subjects of this kind need a reputation: logins and service cookies stand for themselves.
func Earns(k identity.Kind) bool {
	return k == identity.KindI || k == identity.KindFuid || k == identity.KindSpravka
}

// Options are what a Table is made with. Store and Now are required.
type Options struct {
	Store store.Store
	Now   func() time.Time
	Keep  time.Duration // subjects that were not seen for so long are forgotten
	Most  int           // subjects, those that wait included
	// Publish is told of every change, in the form that Merge reads; nil: nobody is told.
	Publish func(record []byte)
}

// Table keeps the grades. When it is full, subjects that wait are evicted, the least recently seen of a few random ones
// first; Known ones are not. Safe for concurrent use; Grade is for the request's path, the rest is not.
type Table struct {
	Options
	seed    maphash.Seed
	n       atomic.Int64
	refused atomic.Uint64
	writes  *behind.Writer[identity.Subject]
	shards  [shards]shard
	places  [shards]places
}

type shard struct {
	mu sync.RWMutex
	m  map[identity.Subject]visitor
	_  [32]byte
}

// visitor is what is known of one subject. Days are counted from the epoch.
type visitor struct {
	since       uint16 // a page was first seen, perhaps while the cookie was young
	first, last uint16 // the subject itself was seen; first is 0 while its cookie is young
	known       bool
	home        [16]byte // the address that it is counted at
}

func (v *visitor) code(c *replicate.Codec) {
	for _, day := range [...]*uint16{&v.since, &v.first, &v.last} {
		replicate.Uint(c, day)
	}
	c.Bool(&v.known)
	c.Fixed(v.home[:])
}

// places counts subjects by the networks around their homes, from the single address up.
type places struct {
	mu sync.RWMutex
	m  map[identity.Prefix]count
	_  [32]byte
}

// count is of one network. Only addresses count those that wait, and those that bans took away; half of the latter are
// forgotten each day.
type count struct {
	waiting, known, lost int32
	lostDay              uint16
}

func (n *count) lostOn(day uint16) int32 {
	if day <= n.lostDay {
		return n.lost
	}
	return n.lost >> min(day-n.lostDay, 15)
}

// robots reports whether most visitors of the address turned out to be robots.
func (n *count) robots(day uint16) bool { return n.lostOn(day) > n.waiting+n.known }

// returning reports whether one page of an earlier day shows that a visitor of the address is a person.
func (n *count) returning(day uint16) bool {
	return n.waiting+n.lostOn(day) <= perAddress && !n.robots(day)
}

// NewTable makes an empty Table; Scan fills it.
func NewTable(o Options) *Table {
	t := &Table{Options: o, seed: maphash.MakeSeed()}
	for i := range shards {
		t.shards[i].m, t.places[i].m = map[identity.Subject]visitor{}, map[identity.Prefix]count{}
	}
	t.writes = behind.New(t.write)
	return t
}

// Writes writes to the store what was observed.
func (t *Table) Writes() *behind.Writer[identity.Subject] { return t.writes }

// Len returns how many subjects there are, those that wait included.
func (t *Table) Len() int64 { return t.n.Load() }

// Refused returns how many subjects were not admitted, or were evicted, because a bound was reached.
func (t *Table) Refused() uint64 { return t.refused.Load() }

func (t *Table) shard(s identity.Subject) *shard {
	return &t.shards[maphash.Comparable(t.seed, s)%shards]
}

func (t *Table) place(p identity.Prefix) *places {
	return &t.places[maphash.Comparable(t.seed, p)%shards]
}

func dayOf(at time.Time) uint16 { return uint16(at.Unix() / 86400) } //nolint:gosec // wraps in 2149

// Grade returns the grade of a subject.
func (t *Table) Grade(s identity.Subject, at time.Time) Grade {
	sh := t.shard(s)
	sh.mu.RLock()
	v, seen := sh.m[s]
	sh.mu.RUnlock()
	switch {
	case !seen:
		return New
	case v.known:
		return Known
	}
	if day := dayOf(at); v.since < day {
		if n := t.at(identity.HouseholdOf(v.home, 0)); n.returning(day) {
			return Returning
		}
	}
	return New
}

func (t *Table) at(p identity.Prefix) count {
	pl := t.place(p)
	pl.mu.RLock()
	defer pl.mu.RUnlock()
	return pl.m[p]
}

// KnownAt returns how many Known subjects an address has, given by the ID of its Subject.
func (t *Table) KnownAt(addr [16]byte) int { return int(t.at(identity.HouseholdOf(addr, 0)).known) }

// KnownIn returns how many Known subjects a network has: an address, a /24, or an IPv6 /64, /56, /48 or /32. Of any other
// it is 0.
func (t *Table) KnownIn(net netip.Prefix) int {
	if !net.IsValid() {
		return 0
	}
	bits := uint8(net.Bits()) //nolint:gosec // at most 128
	if net.Addr().Is4() {
		bits += 96
	}
	return int(t.at(identity.Prefix{ID: net.Masked().Addr().As16(), Bits: bits}).known)
}

// change changes the count of a network; if f refuses, it stays as it was.
func (t *Table) change(p identity.Prefix, f func(n *count) bool) bool {
	pl := t.place(p)
	pl.mu.Lock()
	defer pl.mu.Unlock()
	n := pl.m[p]
	if !f(&n) {
		return false
	}
	if n.waiting+n.known+n.lost == 0 {
		delete(pl.m, p)
	} else {
		pl.m[p] = n
	}
	return true
}

// count adds subjects to the counts around an address; if a bound is reached, it changes nothing and returns false.
func (t *Table) count(addr [16]byte, waiting, known int32) bool {
	var around [4]identity.Prefix
	nets := around[:identity.Prefixes(&around, addr, 0)]
	ok := t.change(nets[0], func(n *count) bool {
		if waiting > 0 && n.waiting+waiting > waitingPerAddress || known > 0 && n.known+known > perAddress {
			return false
		}
		n.waiting, n.known = max(n.waiting+waiting, 0), max(n.known+known, 0)
		return true
	})
	if ok && known != 0 {
		for _, p := range nets[1:] {
			t.change(p, func(n *count) bool {
				n.known = max(n.known+known, 0)
				return true
			})
		}
	}
	return ok
}

// recount adds a visitor to the counts of its home, or takes it away.
func (t *Table) recount(v *visitor, by int32) bool {
	if v.known {
		return t.count(v.home, 0, by)
	}
	return t.count(v.home, by, 0)
}

// Observe records a page that a subject received as a human at an address. young says that its cookie is too young to be a
// subject yet.
func (t *Table) Observe(s identity.Subject, addr [16]byte, at time.Time, young bool) {
	day, sh := dayOf(at), t.shard(s)
	isOld := func(v visitor) bool { return v.last >= day && (young || v.first != 0) }
	sh.mu.RLock()
	v, seen := sh.m[s]
	sh.mu.RUnlock()
	if seen && isOld(v) {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	v, seen = sh.m[s]
	switch {
	case seen && isOld(v):
		return
	case !seen:
		if !t.admit(sh, addr, young) {
			t.refused.Add(1)
			return
		}
		v = visitor{since: day, first: day, home: addr}
		if young {
			v.first = 0
		}
	case v.known || young:
	case v.first == 0:
		v.first = day
	default: // its second day: it moves to the address where it becomes Known
		if n := t.at(identity.HouseholdOf(addr, 0)); !n.robots(day) && t.count(addr, 0, 1) {
			t.recount(&v, -1)
			v.home, v.known = addr, true
		}
	}
	v.last = max(v.last, day)
	sh.m[s] = v
	t.writes.Add(s)
	if t.Publish != nil {
		c := replicate.Writer(nil, 0)
		c.Subject(&s)
		v.code(c)
		t.Publish(c.Bytes())
	}
}

// admit makes room for a subject that waits; young ones, which cost nothing to create, get half of it. The caller holds
// the shard's lock.
func (t *Table) admit(sh *shard, addr [16]byte, young bool) bool {
	if young && 2*t.at(identity.HouseholdOf(addr, 0)).waiting >= waitingPerAddress || !t.count(addr, 1, 0) {
		return false
	}
	if t.n.Load() >= int64(t.Most) && !t.evict(sh) {
		t.count(addr, -1, 0)
		return false
	}
	t.n.Add(1)
	return true
}

// evict evicts one subject that waits. The caller holds the shard's lock.
func (t *Table) evict(sh *shard) bool {
	var worst identity.Subject
	var last uint16
	tried, found := 0, false
	for s, v := range sh.m {
		if tried++; tried > 32 {
			break
		}
		if !v.known && (!found || v.last < last) {
			worst, last, found = s, v.last, true
		}
	}
	if found {
		t.refused.Add(1)
		t.drop(sh, worst)
	}
	return found
}

// drop forgets a subject. The caller holds the shard's lock.
func (t *Table) drop(sh *shard, s identity.Subject) {
	v := sh.m[s]
	delete(sh.m, s)
	t.n.Add(-1)
	t.recount(&v, -1)
	t.writes.Add(s)
}

// Forget forgets a subject.
func (t *Table) Forget(s identity.Subject) { t.remove(s, func(*visitor) {}) }

// Ban takes the grade away of a subject that is banned.
func (t *Table) Ban(s identity.Subject, at time.Time) {
	day := dayOf(at)
	t.remove(s, func(v *visitor) {
		t.change(identity.HouseholdOf(v.home, 0), func(n *count) bool {
			n.lost, n.lostDay = min(n.lostOn(day)+1, waitingPerAddress), max(n.lostDay, day)
			return true
		})
	})
}

func (t *Table) remove(s identity.Subject, before func(v *visitor)) {
	sh := t.shard(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if v, seen := sh.m[s]; seen {
		before(&v)
		t.drop(sh, s)
	}
}

// Sweep forgets subjects that were not seen for Keep.
func (t *Table) Sweep(at time.Time) {
	oldest, day := dayOf(at.Add(-t.Keep)), dayOf(at)
	for i := range shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for s, v := range sh.m {
			if v.last < oldest {
				t.drop(sh, s)
			}
		}
		sh.mu.Unlock()
	}
	for i := range shards {
		pl := &t.places[i]
		pl.mu.Lock()
		for p, n := range pl.m {
			if n.waiting+n.known+n.lostOn(day) == 0 {
				delete(pl.m, p)
			}
		}
		pl.mu.Unlock()
	}
}

func key(s identity.Subject) []byte {
	c := replicate.Writer([]byte(prefix), 0)
	c.Subject(&s)
	return c.Bytes()
}

// write writes a subject to the store as memory has it.
func (t *Table) write(ctx context.Context, s identity.Subject) (err error) {
	sh := t.shard(s)
	sh.mu.RLock()
	v, seen := sh.m[s]
	sh.mu.RUnlock()
	if seen {
		c := replicate.Writer(nil, 0)
		v.code(c)
		err = t.Store.Put(ctx, key(s), c.Bytes(), t.Keep)
	} else {
		err = t.Store.Delete(ctx, key(s))
	}
	if err != nil {
		return fmt.Errorf("write reputation: %w", err)
	}
	return nil
}

var errRecord = errors.New("malformed reputation")

// Scan merges in what the store knows.
func (t *Table) Scan(ctx context.Context) error {
	err := store.ScanKept(ctx, t.Store, []byte(prefix), func(k, v []byte, _ time.Duration) error {
		s, x, ok := read(append(bytes.Clone(k[len(prefix):]), v...))
		if !ok {
			return errRecord
		}
		if !t.writes.Pending(s) {
			t.merge(s, &x)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read reputations: %w", err)
	}
	return nil
}

func read(record []byte) (s identity.Subject, v visitor, ok bool) {
	c := replicate.Reader(record, 0)
	c.Subject(&s)
	v.code(c)
	return s, v, c.OK() && Earns(s.Kind)
}

// Merge takes what another node observed, and reports whether the record is well-formed.
func (t *Table) Merge(record []byte) bool {
	s, v, ok := read(record)
	if ok {
		t.merge(s, &v)
	}
	return ok
}

func (t *Table) merge(s identity.Subject, v *visitor) {
	sh := t.shard(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old, seen := sh.m[s]
	if seen && v.last > old.last { // others have seen it since: it is not forgotten here
		old.last = v.last
		sh.m[s] = old
	}
	switch {
	case seen && (old.known || !v.known), !seen && t.n.Load() >= int64(t.Most), !t.recount(v, 1):
		return
	case seen:
		t.recount(&old, -1)
	default:
		t.n.Add(1)
	}
	sh.m[s] = *v
}
