package bans

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"antirobot/identity"
)

// ErrFull is returned when a table has reached its bound and can't take what was asked.
var ErrFull = errors.New("the table is full")

const (
	shardCount = 256
	evictAmong = 64
)

// LiftedFor bounds how long a lifted ban is remembered. A gateway does not read a copy of the bans that is older.
const LiftedFor = 7 * 24 * time.Hour

// Table keeps the live bans in memory, at most max of them. A ban made when the table is full evicts the one of a sample
// of its shard that ends soonest, or is refused if it would itself end first. Safe for concurrent use.
//
// Gateways that share a store follow two rules: of the records with one key, the one made last stays; and a lifted ban
// leaves a record until it would have ended. So what the store lacks was lost, and not lifted.
type Table struct {
	seed    maphash.Seed
	max     int64
	n       atomic.Int64  // records, including those of lifted bans
	lifted  atomic.Int64  // how many of these are of lifted bans
	evicted atomic.Uint64 // evicted or refused because the table was full
	gen     atomic.Uint32 // of the current or last scan; see Missing
	shards  [shardCount]shard
}

type shard struct {
	mu sync.RWMutex
	m  map[identity.Subject]*record // the first of a subject
	_  [32]byte
}

// record is a ban without its subject, small enough that a million of them fit into memory.
type record struct {
	next        *record // of the same subject
	until, made int64   // unix nanoseconds
	texts       unique.Handle[texts]
	amounts     *[MaxFactors]float32 // of the factors; nil: none
	values      [MaxFactors]float32
	score       float32
	only        uint32
	source      Source
	gen         uint8 // the scan that last found it in the store; see Missing
	stored      bool  // the store has it
	lifted      bool  // the ban was lifted: it keeps older bans with its key from coming back
}

// texts are the parts of a ban that many bans share.
type texts struct {
	service, reason, model string
	factors                [MaxFactors]string
	threshold              float32
}

func recordOf(b *Ban) record {
	x := texts{service: b.Service, reason: b.Reason, model: b.Model, threshold: b.Threshold}
	r := record{
		until: b.Until.UnixNano(), made: b.Made.UnixNano(), score: b.Score, only: b.Only,
		source: b.Source, lifted: b.Lifted,
	}
	for i, f := range b.Factors {
		x.factors[i], r.values[i] = f.Name, f.Value
		if f.Amount != 0 && r.amounts == nil {
			r.amounts = new([MaxFactors]float32)
		}
		if r.amounts != nil {
			r.amounts[i] = f.Amount
		}
	}
	r.texts = unique.Make(x)
	return r
}

// fill sets every field of b.
func (r *record) fill(b *Ban, sub identity.Subject) {
	x := r.texts.Value()
	*b = Ban{
		Subject: sub, Until: time.Unix(0, r.until), Made: time.Unix(0, r.made), Service: x.service, Source: r.source,
		Score: r.score, Threshold: x.threshold, Reason: x.reason, Model: x.model, Only: r.only, Lifted: r.lifted,
	}
	for i := range b.Factors {
		b.Factors[i] = Factor{Name: x.factors[i], Value: r.values[i]}
		if r.amounts != nil {
			b.Factors[i].Amount = r.amounts[i]
		}
	}
}

func (r *record) key(sub identity.Subject) Key { return Key{sub, r.source, r.texts.Value().service} }

// holds is Ban.Holds.
func (r *record) holds(service string, threshold float32) bool {
	if of := r.texts.Value().service; of != "" && of != service {
		return false
	}
	return r.source == SourceAPI || r.score > threshold
}

// newer reports whether r stays when o arrives: the one made later stays, and of two made at the same time the lifted one.
func (r *record) newer(o *record) bool {
	return r.made > o.made || r.made == o.made && r.lifted && !o.lifted
}

// NewTable makes a table of at most this many bans.
func NewTable(most int) *Table {
	t := &Table{seed: maphash.MakeSeed(), max: int64(most)}
	for i := range t.shards {
		t.shards[i].m = map[identity.Subject]*record{}
	}
	return t
}

func (t *Table) shard(s identity.Subject) *shard {
	return &t.shards[maphash.Comparable(t.seed, s)%shardCount]
}

// Len returns how many bans there are, without those that were lifted.
func (t *Table) Len() int { return int(t.n.Load() - t.lifted.Load()) }

// Evicted returns how many bans were evicted or refused because the table was full.
func (t *Table) Evicted() uint64 { return t.evicted.Load() }

// Lookup sets dst to the ban that stops the subject for longest at a service with this threshold, and reports whether
// there is one. isClient says whether a client is the one that Ban.Only names.
func (t *Table) Lookup(
	dst *Ban, sub identity.Subject, service string, threshold float32, at int64, isClient func(only uint32) bool,
) bool {
	sh := t.shard(sub)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	var best *record
	for r := sh.m[sub]; r != nil; r = r.next {
		if r.until > at && !r.lifted && r.holds(service, threshold) && (r.only == 0 || isClient(r.only)) &&
			(best == nil || r.until > best.until) {
			best = r
		}
	}
	if best != nil {
		best.fill(dst, sub)
	}
	return best != nil
}

// find returns the record with a key; nil if there is none. The caller holds the lock.
func (sh *shard) find(k Key) *record {
	for r := sh.m[k.Subject]; r != nil; r = r.next {
		if r.source == k.Source && r.texts.Value().service == k.Service {
			return r
		}
	}
	return nil
}

// Put makes or replaces the ban with b's key; of the two, the one made later stays.
func (t *Table) Put(b *Ban, at int64) error {
	_, err := t.put(b, false, false, at)
	return err
}

// PutNew is Put for a ban that is made now: it replaces the existing one even if a clock ahead of this one stamped that.
func (t *Table) PutNew(b *Ban, at int64) error {
	_, err := t.put(b, false, true, at)
	return err
}

// Merge is Put for a ban that the store has. It reports whether the table has a newer one, and whether it had another one
// or none.
func (t *Table) Merge(b *Ban, at int64) (newer, changed bool) {
	was, err := t.put(b, true, false, at)
	return was == putNewer, err == nil && was == putDone
}

// What put found in the table.
const (
	putDone  = iota // another ban or none: it has b now
	putSame         // b
	putNewer        // a newer ban, which stays
)

func (t *Table) put(b *Ban, stored, fresh bool, at int64) (was int, err error) {
	r := recordOf(b)
	if r.until <= at {
		return putSame, nil
	}
	r.stored, r.gen = stored, uint8(t.gen.Load()) //nolint:gosec // generations are told apart by a part of them
	sh := t.shard(b.Subject)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if old := sh.find(b.Key()); old != nil {
		if fresh && old.made >= r.made {
			r.made = old.made + 1
		}
		if old.newer(&r) {
			if stored {
				old.gen = r.gen // the scan has come across the key
			}
			return putNewer, nil
		}
		same := old.made == r.made && old.lifted == r.lifted
		if same && old.until == r.until {
			was = putSame
		}
		r.stored = stored || old.stored && same
		t.tally(&r, 1)
		t.tally(old, -1)
		r.next = old.next
		*old = r
		return was, nil
	}
	if !t.room(sh, &r, at) {
		t.evicted.Add(1)
		return putSame, ErrFull
	}
	r.next = sh.m[b.Subject]
	sh.m[b.Subject] = &r
	t.n.Add(1)
	t.tally(&r, 1)
	return putDone, nil
}

// tally changes the number of lifted bans if r is one.
func (t *Table) tally(r *record, by int64) {
	if r.lifted {
		t.lifted.Add(by)
	}
}

// room makes room for r in the shard. The caller holds the lock.
func (t *Table) room(sh *shard, r *record, at int64) bool {
	for t.n.Load() >= t.max {
		var first *record
		var key Key
		tried := 0
		for sub, r := range sh.m {
			for ; r != nil; r = r.next {
				if first == nil || r.until < first.until {
					first, key = r, r.key(sub)
				}
			}
			if tried++; tried >= evictAmong {
				break
			}
		}
		switch {
		case first == nil, first.until > at && first.until > r.until:
			return false
		case first.until > at:
			t.evicted.Add(1)
		}
		t.dropIf(sh, key.Subject, func(r *record) bool { return r.key(key.Subject) == key })
	}
	return true
}

// dropIf removes the records of a subject that f selects. The caller holds the lock.
func (t *Table) dropIf(sh *shard, sub identity.Subject, f func(r *record) bool) {
	first := sh.m[sub]
	for p := &first; *p != nil; {
		if r := *p; f(r) {
			t.n.Add(-1)
			t.tally(r, -1)
			*p = r.next
		} else {
			p = &r.next
		}
	}
	if first == nil {
		delete(sh.m, sub)
	} else {
		sh.m[sub] = first
	}
}

// change calls f with the record of a key, if there is one, and returns what f does.
func (t *Table) change(k Key, f func(sh *shard, r *record) bool) bool {
	sh := t.shard(k.Subject)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.find(k)
	return r != nil && f(sh, r)
}

// Remove drops the ban with the key if it was made at or before the given time, and reports whether it did.
func (t *Table) Remove(k Key, made int64) bool {
	return t.change(k, func(sh *shard, r *record) bool {
		if r.made > made {
			return false
		}
		t.dropIf(sh, k.Subject, func(r *record) bool { return r.key(k.Subject) == k })
		return true
	})
}

// Lift lifts the ban with the key if it was made at or before the given time, and reports whether it did. stored means
// that the store has that already.
func (t *Table) Lift(k Key, made int64, stored bool) bool {
	return t.change(k, func(_ *shard, r *record) bool {
		if r.made > made {
			return false
		}
		was := r.lifted
		r.lifted, r.stored, r.made, r.gen = true, stored, made, uint8(t.gen.Load()) //nolint:gosec // as in put
		if !was {
			t.lifted.Add(1)
		}
		r.until = min(r.until, made+int64(LiftedFor))
		return !was
	})
}

// MarkStored notes that the store has the record with the key as it was made at the given time.
func (t *Table) MarkStored(k Key, made int64) {
	t.change(k, func(_ *shard, r *record) bool {
		if r.made == made {
			r.stored, r.gen = true, uint8(t.gen.Load()) //nolint:gosec // a running scan may have passed this place already
		}
		return true
	})
}

// BeginScan starts a generation: what is put with stored from now on counts as found by the scan.
func (t *Table) BeginScan() { t.gen.Add(1) }

// Missing returns the keys of the records that the store once had, that the scan did not find, and that do not end before
// the given time: the store has lost them.
func (t *Table) Missing(before int64) (lost []Key) {
	gen := uint8(t.gen.Load()) //nolint:gosec // as in put
	t.all(func(sub identity.Subject, r *record) bool {
		if r.stored && r.gen != gen && r.until > before {
			lost = append(lost, r.key(sub))
		}
		return true
	})
	return lost
}

// Get returns the ban with the key if it has not ended; it may be a lifted one.
func (t *Table) Get(k Key, at int64) (b Ban, ok bool) {
	sh := t.shard(k.Subject)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if r := sh.find(k); r != nil && r.until > at {
		r.fill(&b, k.Subject)
		return b, true
	}
	return Ban{}, false
}

// all calls f with every record until f returns false; f may change it.
func (t *Table) all(f func(sub identity.Subject, r *record) bool) {
	for i := range t.shards {
		if !t.shards[i].each(f) {
			return
		}
	}
}

func (sh *shard) each(f func(sub identity.Subject, r *record) bool) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for sub, r := range sh.m {
		for ; r != nil; r = r.next {
			if !f(sub, r) {
				return false
			}
		}
	}
	return true
}

// Each calls f with every live ban until f returns false. f must not call the table.
func (t *Table) Each(at int64, f func(*Ban) bool) {
	t.EachRecord(at, func(b *Ban) bool { return b.Lifted || f(b) })
}

// EachRecord is Each including lifted bans.
func (t *Table) EachRecord(at int64, f func(*Ban) bool) {
	var b Ban
	t.all(func(sub identity.Subject, r *record) bool {
		if r.until <= at {
			return true
		}
		r.fill(&b, sub)
		return f(&b)
	})
}

// EachOf calls f with every live ban of one subject. f must not call the table.
func (t *Table) EachOf(sub identity.Subject, at int64, f func(*Ban) bool) {
	sh := t.shard(sub)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	var b Ban
	for r := sh.m[sub]; r != nil; r = r.next {
		if r.until <= at || r.lifted {
			continue
		}
		if r.fill(&b, sub); !f(&b) {
			return
		}
	}
}

// Sweep drops the bans that have ended.
func (t *Table) Sweep(at int64) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for sub := range sh.m {
			t.dropIf(sh, sub, func(r *record) bool { return r.until <= at })
		}
		sh.mu.Unlock()
	}
}

// Settle makes bans begin at the given time if they were made later than that by more than jump, and returns their keys:
// the clock went back.
func (t *Table) Settle(at int64, jump time.Duration) (moved []Key) {
	t.all(func(sub identity.Subject, r *record) bool {
		if late := r.made - at; late > int64(jump) {
			r.until, r.made = r.until-late, at
			moved = append(moved, r.key(sub))
		}
		return true
	})
	return moved
}

// Move converts the times of all bans to a clock that is d ahead of the previous one.
func (t *Table) Move(d time.Duration) {
	t.all(func(_ identity.Subject, r *record) bool {
		r.until, r.made = r.until+int64(d), r.made+int64(d)
		return true
	})
}
