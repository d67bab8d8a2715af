package standing

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/store/behind"
)

const (
	shards = 64
	prefix = "standing/"
	// candidatesPerPlace is how many subjects of one address may wait for their second day, per subject that may be
	// established there.
	candidatesPerPlace = 8
	// trustedPerPlace is how many may be trusted there, likewise.
	trustedPerPlace = 32
)

// Table knows which i, fuid and spravka subjects are established: they asked for pages as humans on two different
// days (UTC), as observed by this gateway. A ban on their address does not stop them. Nor does it stop a candidate that
// was seen as a human on an earlier day, even with a browser cookie that was still too young to be a subject, unless
// its address has more candidates than it may establish: then a second day is needed.
//
// At most perAddress subjects are established by one address, so a farm of cookies buys little; in an office of hundreds those who read
// as the site's people do count beyond that (Trust), though not for what the address is worth. A subject keeps its
// standing wherever it goes, so a phone in a banned carrier network is not stopped; and a ban on the subject itself
// takes its standing away. Candidates wait in the same table, and are evicted at random when it is full; established and
// trusted subjects are not. Safe for concurrent use; Established is for the request's path, the rest is not.
type Table struct {
	st         store.Store
	max        int64
	perAddress int
	keep       time.Duration
	now        func() time.Time
	seed       maphash.Seed
	n          atomic.Int64
	refused    atomic.Uint64 // candidates not admitted or evicted because a bound was reached
	behind     *behind.Writer[identity.Subject]
	shards     [shards]shard
	homes      [shards]homeShard
	nets       netCounts
	tell       func(s identity.Subject, record []byte)
}

type shard struct {
	mu sync.RWMutex
	m  map[identity.Subject]tenure
	_  [32]byte
}

// tenure is what is known of one subject.
type tenure struct {
	since       uint16   // day since the epoch on which a page was first seen, perhaps while its cookie was young
	first, last uint16   // days on which the subject itself was seen; first is 0 as long as its cookie is young
	home        [16]byte // the address that it is counted for
	established bool
	trusted     bool // it reads as the site's people do, and has no place
	proven      bool // it is established, and has read for longer; who is trusted has, too
}

// New makes a Table. Tell is told of what has become known of a subject, in a form that Merge takes; nil: nobody is told.
func New(st store.Store, cfg Config, now func() time.Time, tell func(s identity.Subject, record []byte)) *Table {
	t := &Table{
		st: st, max: int64(cfg.Max), perAddress: cfg.PerAddress, keep: cfg.Keep, now: now, seed: maphash.MakeSeed(), tell: tell,
	}
	for i := range t.shards {
		t.shards[i].m = make(map[identity.Subject]tenure)
		t.homes[i].m = make(map[[16]byte]homeCount)
	}
	t.behind = behind.New(t.write)
	return t
}

// Writes is what writes to the store, after the pages that were observed.
func (t *Table) Writes() *behind.Writer[identity.Subject] { return t.behind }

// Len returns how many subjects are known, including candidates.
func (t *Table) Len() int64 { return t.n.Load() }

// Refused returns how many candidates were not admitted, or were evicted, because a bound was reached.
func (t *Table) Refused() uint64 { return t.refused.Load() }

func (t *Table) shard(s identity.Subject) *shard {
	return &t.shards[maphash.Comparable(t.seed, s)%shards]
}

func (t *Table) home(a [16]byte) *homeShard {
	return &t.homes[maphash.Comparable(t.seed, a)%shards]
}

func dayOf(at time.Time) uint16 { return uint16(at.Unix() / 86400) }

// Earns reports whether subjects of this kind need standing: L and service cookies stand for themselves.
func Earns(k identity.Kind) bool {
	return k == identity.KindI || k == identity.KindFuid || k == identity.KindSpravka
}

// Established reports whether the subject is established.
func (t *Table) Established(s identity.Subject) bool {
	sh := t.shard(s)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.m[s].established
}

// EstablishedAt returns how many subjects the address has established.
func (t *Table) EstablishedAt(addr [16]byte) int {
	return int(t.countAt(addr).established)
}

// Counts reports whether a ban on its address leaves the subject alone.
func (t *Table) Counts(s identity.Subject, at time.Time) bool {
	sh := t.shard(s)
	sh.mu.RLock()
	e, known := sh.m[s]
	sh.mu.RUnlock()
	if !known || e.established || e.trusted || e.since >= dayOf(at) {
		return known && (e.established || e.trusted)
	}
	n := t.countAt(e.home)
	return n.proves(dayOf(at), t.perAddress)
}

// Observe records a page that the subject received as a human, at an address.
func (t *Table) Observe(s identity.Subject, addr [16]byte, at time.Time) {
	t.observe(s, addr, at, false)
}

// ObserveYoung records such a page of a browser whose cookie is too young to be a subject.
func (t *Table) ObserveYoung(s identity.Subject, addr [16]byte, at time.Time) {
	t.observe(s, addr, at, true)
}

// above reports whether e says more than o.
func (e *tenure) above(o *tenure) bool {
	return e.established && (!o.established || e.proven && !o.proven) || e.trusted && !o.trusted && !o.established
}

// old reports whether a page on a given day adds nothing new.
func (e *tenure) old(day uint16, young bool) bool { return e.last >= day && (young || e.first != 0) }

func (t *Table) observe(s identity.Subject, addr [16]byte, at time.Time, young bool) {
	day := dayOf(at)
	sh := t.shard(s)
	sh.mu.RLock()
	e, known := sh.m[s]
	sh.mu.RUnlock()
	if known && e.old(day, young) {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, known = sh.m[s]
	switch {
	case known && e.old(day, young):
		return
	case !known:
		if !t.admit(sh, addr, young) {
			t.refused.Add(1)
			return
		}
		t.freshAt(addr, day)
		e = tenure{since: day, first: day, home: addr}
		if young {
			e.first = 0
		}
	case e.established || young:
	case e.first == 0:
		e.first = day
	default:
		// A candidate moves to the address where it was last seen: it is established by one address, and counted there.
		if n := t.countAt(addr); !n.robots(day) && t.count(addr, change{established: 1, proven: one(e.trusted)}) {
			t.count(e.home, e.counted(-1))
			e.home, e.established, e.trusted, e.proven = addr, true, false, e.trusted
		}
	}
	e.last = max(e.last, day)
	t.put(sh, s, &e)
}

// put replaces what is known of a subject, and says so. The caller holds the shard's lock.
func (t *Table) put(sh *shard, s identity.Subject, e *tenure) {
	sh.m[s] = *e
	t.behind.Add(s)
	if t.tell != nil {
		t.tell(s, e.value())
	}
}

// admit makes room for a candidate at an address; young ones, which cost nothing to create, get half of it. The caller
// holds the shard's lock.
func (t *Table) admit(sh *shard, addr [16]byte, young bool) bool {
	if young && 2*int(t.countAt(addr).candidates) >= t.perAddress*candidatesPerPlace {
		return false
	}
	if !t.count(addr, change{candidates: 1}) {
		return false
	}
	if t.n.Load() >= t.max && !t.pushOut(sh) {
		t.count(addr, change{candidates: -1})
		return false
	}
	t.n.Add(1)
	return true
}

// count changes the numbers of an address; if a bound is reached, it changes nothing and returns false.
func (t *Table) count(addr [16]byte, by change) bool {
	h := t.home(addr)
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.m[addr]
	c, e, w := int(n.candidates)+by.candidates, int(n.established)+by.established, int(n.trusted)+by.trusted
	if by.candidates > 0 && c > t.perAddress*candidatesPerPlace || by.established > 0 && e > t.perAddress || by.trusted > 0 && w > t.perAddress*trustedPerPlace {
		return false
	}
	c, e, w = max(c, 0), max(e, 0), max(w, 0)
	if e != int(n.established) {
		t.nets.add(addr, e-int(n.established))
	}
	n.candidates, n.established, n.trusted = uint16(c), uint16(e), uint16(w) //nolint:gosec // at most 32 times perAddress
	n.proven = uint16(min(max(int(n.proven)+by.proven, 0), e))               //nolint:gosec // as above
	if c+e+w+int(n.lost) == 0 {
		delete(h.m, addr)
		return true
	}
	h.m[addr] = n
	return true
}

// pushOut evicts the one not seen for longest of a few random candidates of a shard. The caller holds its lock.
func (t *Table) pushOut(sh *shard) bool {
	var worst identity.Subject
	var last uint16
	tried, found := 0, false
	for s, e := range sh.m {
		if tried++; tried > 32 {
			break
		}
		if !e.established && !e.trusted && (!found || e.last < last) {
			worst, last, found = s, e.last, true
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
	e := sh.m[s]
	delete(sh.m, s)
	t.n.Add(-1)
	t.count(e.home, e.counted(-1))
	t.behind.Add(s)
}

// Forget forgets a subject.
func (t *Table) Forget(s identity.Subject) {
	sh := t.shard(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, known := sh.m[s]; known {
		t.drop(sh, s)
	}
}

// Sweep forgets subjects that were not seen for keep.
func (t *Table) Sweep(at time.Time) {
	oldest := dayOf(at.Add(-t.keep))
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for s, e := range sh.m {
			if e.last < oldest {
				t.drop(sh, s)
			}
		}
		sh.mu.Unlock()
	}
	for i := range t.homes {
		t.homes[i].sweep(dayOf(at))
	}
}

func key(s identity.Subject) []byte {
	k := append([]byte(prefix), byte(s.Kind))
	return append(k, s.ID[:]...)
}

// write writes a subject to the store as memory has it.
func (t *Table) write(ctx context.Context, s identity.Subject) error {
	sh := t.shard(s)
	sh.mu.RLock()
	e, known := sh.m[s]
	sh.mu.RUnlock()
	var err error
	if known {
		err = t.st.Put(ctx, key(s), e.value(), t.keep)
	} else {
		err = t.st.Delete(ctx, key(s))
	}
	if err != nil {
		return fmt.Errorf("write standing: %w", err)
	}
	return nil
}

var errRecord = errors.New("malformed standing")

// Scan merges in what the store knows.
func (t *Table) Scan(ctx context.Context) error {
	err := store.ScanKept(ctx, t.st, []byte(prefix), func(k, v []byte, _ time.Duration) error {
		k = k[len(prefix):]
		if len(k) != 17 || len(v) != recordSize {
			return errRecord
		}
		s := identity.Subject{Kind: identity.Kind(k[0]), ID: [16]byte(k[1:])}
		if !t.behind.Pending(s) {
			t.merge(s, readTenure(v))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read standings: %w", err)
	}
	return nil
}

// Merge takes what another node was told of a subject, and reports whether it can be read.
func (t *Table) Merge(s identity.Subject, record []byte) bool {
	if !Earns(s.Kind) || len(record) != recordSize {
		return false
	}
	t.merge(s, readTenure(record))
	return true
}

func (t *Table) merge(s identity.Subject, e tenure) {
	sh := t.shard(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old, known := sh.m[s]
	if known && e.last > old.last { // others have seen it since: it is not forgotten here
		old.last = e.last
		sh.m[s] = old
	}
	if known && !e.above(&old) || !known && t.n.Load() >= t.max {
		return
	}
	switch {
	case known && e.established && old.established && e.home == old.home:
		t.count(e.home, change{proven: 1})
	case !t.count(e.home, e.counted(1)):
		return
	case known:
		t.count(old.home, old.counted(-1))
	default:
		t.n.Add(1)
	}
	if !e.established {
		t.freshAt(e.home, e.since)
	}
	sh.m[s] = e
}
