package bans

import (
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"antirobot/identity"
)

// ErrFull is returned when a table has reached its bound and can't take what was asked.
var ErrFull = errors.New("the table is full")

const (
	shardCount = 256 // index.home leaves these eight bits out
	chunkSize  = 128 // records are allocated in chunks, so that growth copies nothing
	noRecord   = math.MaxUint32
)

// Table keeps the live bans in memory, at most max of them. A ban made when the table is full evicts the one of its
// shard that ends soonest, or is refused if it would itself end first. Safe for concurrent use.
type Table struct {
	seed    maphash.Seed
	max     int64
	n       atomic.Int64  // records, including those of lifted bans
	lifted  atomic.Int64  // how many of these are of lifted bans
	evicted atomic.Uint64 // evicted or refused because the table was full
	names   names
	gen     atomic.Uint32 // of the current or last scan; see Missing
	shards  [shardCount]shard
}

// shard guards its part of the subjects. The bans of one subject are a chain of records; heap orders all records by
// their end. A free record is not in the heap and is linked into the list that begins at free.
type shard struct {
	mu     sync.RWMutex
	index  index
	chunks [][]record
	used   uint32
	free   uint32
	heap   []uint32
	_      [32]byte
}

type record struct {
	subject          identity.Subject
	source           Source
	stored           bool // the store has it
	lifted           bool // the ban was lifted: it stops nobody, and keeps older bans with its key from coming back
	gen              uint8
	score, threshold float32
	only             uint32
	until, made      int64 // unix nanoseconds
	reason           unique.Handle[string]
	next, heapAt     uint32
	service, model   uint16 // numbers of names
	factorNames      [MaxFactors]uint16
	factors, amounts [MaxFactors]float32
}

// NewTable makes a table of at most this many bans.
func NewTable(most int) *Table {
	t := &Table{seed: maphash.MakeSeed(), max: int64(most)}
	for i := range t.shards {
		t.shards[i].free = noRecord
	}
	return t
}

func (t *Table) hash(s identity.Subject) uint64 { return maphash.Comparable(t.seed, s) }

func (t *Table) shard(hash uint64) *shard { return &t.shards[hash%shardCount] }

func (s *shard) at(i uint32) *record { return &s.chunks[i/chunkSize][i%chunkSize] }

// first returns a subject's slot in the index and its first record. The caller holds the lock.
func (s *shard) first(hash uint64, sub identity.Subject) (place int, i uint32, ok bool) {
	return s.index.find(hash, func(no uint32) bool { return s.at(no).subject == sub })
}

// Lookup sets dst to the ban that stops the subject for longest at a service with this threshold, and reports whether there
// is one. isClient says whether it is whom Ban.Only names.
func (t *Table) Lookup(dst *Ban, sub identity.Subject, service string, threshold float32, at int64, isClient func(only uint32) bool) bool {
	hash := t.hash(sub)
	sh := t.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	_, i, ok := sh.first(hash, sub)
	if !ok {
		return false
	}
	var best *record
	for ; i != noRecord; i = sh.at(i).next {
		r := sh.at(i)
		if r.until <= at || r.lifted || best != nil && r.until <= best.until {
			continue
		}
		if r.source == SourceProcessor && !(r.score > threshold) {
			continue
		}
		if r.service != 0 && t.names.text(r.service) != service || r.only != 0 && !isClient(r.only) {
			continue
		}
		best = r
	}
	if best == nil {
		return false
	}
	t.fill(dst, best)
	return true
}

// fill sets every field of dst from the record.
func (t *Table) fill(dst *Ban, r *record) {
	*dst = Ban{
		Subject: r.subject, Source: r.source, Score: r.score, Threshold: r.threshold,
		Until: time.Unix(0, r.until), Made: time.Unix(0, r.made), Reason: r.reason.Value(),
		Service: t.names.text(r.service), Model: t.names.text(r.model), Only: r.only, Lifted: r.lifted,
	}
	for i := range dst.Factors {
		dst.Factors[i] = Factor{Name: t.names.text(r.factorNames[i]), Value: r.factors[i], Amount: r.amounts[i]}
	}
}

// find returns the record with the key, or noRecord. The caller holds the lock.
func (s *shard) find(hash uint64, sub identity.Subject, source Source, service uint16) uint32 {
	_, i, ok := s.first(hash, sub)
	if !ok {
		return noRecord
	}
	for ; i != noRecord; i = s.at(i).next {
		if r := s.at(i); r.source == source && r.service == service {
			return i
		}
	}
	return noRecord
}

// Len returns how many bans there are, without those that were lifted.
func (t *Table) Len() int { return int(t.n.Load() - t.lifted.Load()) }

// Evicted returns how many bans were evicted or refused because the table was full.
func (t *Table) Evicted() uint64 { return t.evicted.Load() }

// Put makes or replaces the ban with b's key; of the two, the one made later stays.
func (t *Table) Put(b *Ban, at int64) error {
	_, err := t.put(b, false, false, at)
	return err
}

// PutNew is Put for a ban that is made now: it replaces the existing one even if a clock ahead of this one stamped
// that.
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
	if b.Until.UnixNano() <= at {
		return putSame, nil
	}
	service, ok := t.names.number(b.Service)
	if !ok {
		return putSame, ErrFull // a ban of one service must not become a ban for all
	}
	r := record{
		subject: b.Subject, source: b.Source, stored: stored, lifted: b.Lifted, gen: uint8(t.gen.Load()), score: b.Score, threshold: b.Threshold,
		until: b.Until.UnixNano(), made: b.Made.UnixNano(), reason: unique.Make(b.Reason), service: service, only: b.Only,
	}
	r.model, _ = t.names.number(b.Model)
	for i := range b.Factors {
		r.factorNames[i], _ = t.names.number(b.Factors[i].Name)
		r.factors[i], r.amounts[i] = b.Factors[i].Value, b.Factors[i].Amount
	}
	hash := t.hash(b.Subject)
	sh := t.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i := sh.find(hash, b.Subject, b.Source, service); i != noRecord {
		old := sh.at(i)
		if fresh && old.made >= r.made {
			r.made = old.made + 1
		}
		if old.newer(&r) {
			if stored {
				old.gen = r.gen // the scan has come across the key
			}
			return putNewer, nil
		}
		if old.made == r.made && old.lifted == r.lifted && old.until == r.until {
			was = putSame
		}
		r.next, r.heapAt = old.next, old.heapAt
		r.stored = stored || old.stored && old.made == r.made && old.lifted == r.lifted
		t.tally(&r, 1)
		t.tally(old, -1)
		*old = r
		sh.fix(r.heapAt)
		return was, nil
	}
	if !t.room(sh, &r, at) {
		t.evicted.Add(1)
		return putSame, ErrFull
	}
	t.insert(sh, hash, r)
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

// newer reports whether r stays when o arrives: the one made later stays, and of two made at the same time the lifted
// one.
func (r *record) newer(o *record) bool {
	return r.made > o.made || r.made == o.made && r.lifted && !o.lifted
}

// room makes room for r in the shard. The caller holds the lock.
func (t *Table) room(sh *shard, r *record, at int64) bool {
	for t.n.Load() >= t.max || len(sh.heap) >= indexMost {
		if len(sh.heap) == 0 {
			return false
		}
		first := sh.at(sh.heap[0])
		if first.until > at {
			if first.until > r.until {
				return false
			}
			t.evicted.Add(1)
		}
		t.drop(sh, sh.heap[0])
	}
	return true
}

func (t *Table) insert(s *shard, hash uint64, r record) {
	i := s.free
	if i != noRecord {
		s.free = s.at(i).next
	} else {
		i = s.used
		s.used++
		if int(i/chunkSize) == len(s.chunks) {
			s.chunks = append(s.chunks, make([]record, chunkSize))
		}
	}
	r.next, r.heapAt = noRecord, uint32(len(s.heap))
	if place, first, ok := s.first(hash, r.subject); ok {
		r.next = first
		s.index.set(place, i)
	} else {
		s.index.put(hash, i, func(no uint32) uint64 { return t.hash(s.at(no).subject) })
	}
	s.heap = append(s.heap, i)
	*s.at(i) = r
	s.up(r.heapAt)
}

// drop removes record i. The caller holds the lock.
func (t *Table) drop(s *shard, i uint32) {
	r := s.at(i)
	if place, first, _ := s.first(t.hash(r.subject), r.subject); first == i {
		if r.next == noRecord {
			s.index.remove(place, func(no uint32) uint64 { return t.hash(s.at(no).subject) })
		} else {
			s.index.set(place, r.next)
		}
	} else {
		p := s.at(first)
		for p.next != i {
			p = s.at(p.next)
		}
		p.next = r.next
	}
	h, last := r.heapAt, uint32(len(s.heap)-1)
	s.swap(h, last)
	s.heap = s.heap[:last]
	if h < last {
		s.fix(h)
	}
	t.tally(r, -1)
	*r = record{next: s.free}
	s.free = i
	t.n.Add(-1)
}

// locate locks the shard of a key, which the caller unlocks, and finds the key's record there; noRecord: there is none.
func (t *Table) locate(k Key) (sh *shard, i uint32) {
	hash := t.hash(k.Subject)
	sh, i = t.shard(hash), noRecord
	sh.mu.Lock()
	if service, ok := t.names.known(k.Service); ok {
		i = sh.find(hash, k.Subject, k.Source, service)
	}
	return sh, i
}

// Remove drops the ban with the key if it was made at or before the given time, and reports whether it did.
func (t *Table) Remove(k Key, made int64) bool {
	sh, i := t.locate(k)
	defer sh.mu.Unlock()
	if i == noRecord || sh.at(i).made > made {
		return false
	}
	t.drop(sh, i)
	return true
}

// Get returns the ban with the key if it has not ended; it may be a lifted one.
func (t *Table) Get(k Key, at int64) (b Ban, ok bool) {
	service, ok := t.names.known(k.Service)
	if !ok {
		return Ban{}, false
	}
	hash := t.hash(k.Subject)
	sh := t.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	i := sh.find(hash, k.Subject, k.Source, service)
	if i == noRecord || sh.at(i).until <= at {
		return Ban{}, false
	}
	t.fill(&b, sh.at(i))
	return b, true
}

// Each calls f with every live ban until f returns false. f must not call the table.
func (t *Table) Each(at int64, f func(*Ban) bool) {
	t.EachRecord(at, func(b *Ban) bool { return b.Lifted || f(b) })
}

// EachRecord is Each including lifted bans.
func (t *Table) EachRecord(at int64, f func(*Ban) bool) {
	var b Ban
	for i := range t.shards {
		if !t.eachOf(&t.shards[i], at, &b, f) {
			return
		}
	}
}

// EachOf calls f with every live ban of one subject. f must not call the table.
func (t *Table) EachOf(sub identity.Subject, at int64, f func(*Ban) bool) {
	var b Ban
	hash := t.hash(sub)
	sh := t.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	_, i, ok := sh.first(hash, sub)
	for ok && i != noRecord {
		r := sh.at(i)
		if r.until > at && !r.lifted {
			if t.fill(&b, r); !f(&b) {
				return
			}
		}
		i = r.next
	}
}

func (t *Table) eachOf(sh *shard, at int64, b *Ban, f func(*Ban) bool) bool {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	for _, i := range sh.heap {
		if r := sh.at(i); r.until > at {
			if t.fill(b, r); !f(b) {
				return false
			}
		}
	}
	return true
}

// Sweep drops the bans that have ended.
func (t *Table) Sweep(at int64) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for len(sh.heap) > 0 && sh.at(sh.heap[0]).until <= at {
			t.drop(sh, sh.heap[0])
		}
		sh.mu.Unlock()
	}
}
