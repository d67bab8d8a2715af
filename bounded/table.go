package bounded

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Shards is how many locks a Table has; its bound should not be smaller.
const Shards = 64

const tableChunk = 512 // records are allocated in chunks: growth copies nothing

// Table keeps a bounded number of records by key. The caller locks the shard of a key, finds or opens the record, uses it,
// and unlocks the shard; a record must not be used after that.
//
// A full shard evicts a record that was touched only in the second of its creation, if a few guesses find one: a flood of
// new keys evicts its own. Otherwise it evicts one that was not touched since the shard's hand last passed (CLOCK). The
// index holds numbers instead of keys, so the garbage collector has no pointers to follow. Safe for concurrent use.
type Table[K comparable, R any] struct {
	hash    func(K) uint64
	each    uint32 // most records in one shard
	live    atomic.Int64
	evicted atomic.Uint64
	shards  [Shards]Shard[K, R]
}

// Shard is a lock and its share of a Table's records.
type Shard[K comparable, R any] struct {
	mu     sync.Mutex
	index  []uint32 // see entry; 0 is empty. Linear probing, at most three quarters full
	number uint32   // the bits of an entry that are a number
	n      uint32   // records in the index
	chunks [][]slot[K, R]
	used   uint32 // slots of chunks that were ever used
	free   []uint32
	hand   uint32
	chance uint32         // a random number: see victim
	clock  *atomic.Uint32 // the second of the events; nil: each touch counts
}

type slot[K comparable, R any] struct {
	key  K
	born uint16 // the second of its creation, without its upper bits
	live bool
	use  use
	r    R
}

// use is how a record has been used.
type use uint8

const (
	unused  use = iota // in the second of its creation alone
	wasUsed            // later, but not since the hand passed it
	inUse
)

// NewTable makes a table of at most so many records. hash must spread keys over all bits in a way that no client can
// foresee. clock is the second of the events, by which later use is told from a record's creation; nil: each touch counts.
func NewTable[K comparable, R any](most int, hash func(K) uint64, clock *atomic.Uint32) *Table[K, R] {
	t := &Table[K, R]{hash: hash, each: uint32((most + Shards - 1) / Shards)}
	for i := range t.shards {
		t.shards[i].number = 1<<bits.Len32(t.each) - 1
		t.shards[i].clock = clock
	}
	return t
}

// Len is how many records there are.
func (t *Table[K, R]) Len() int { return int(t.live.Load()) }

// Evicted is how many records had to make room.
func (t *Table[K, R]) Evicted() uint64 { return t.evicted.Load() }

// Lock locks the shard of a key, and returns it with the key's hash.
func (t *Table[K, R]) Lock(k K) (*Shard[K, R], uint64) {
	h := t.hash(k)
	sh := &t.shards[h%Shards]
	sh.mu.Lock()
	return sh, h
}

// Unlock unlocks the shard.
func (sh *Shard[K, R]) Unlock() { sh.mu.Unlock() }

// Get returns a copy of a record, and whether there is one.
func (t *Table[K, R]) Get(k K) (r R, ok bool) {
	sh, h := t.Lock(k)
	defer sh.mu.Unlock()
	if p := sh.Find(h, k); p != nil {
		return *p, true
	}
	return r, false
}

// second is that of the clock, without its upper bits.
func (sh *Shard[K, R]) second() uint16 {
	if sh.clock == nil {
		return 0
	}
	return uint16(sh.clock.Load()) //nolint:gosec // enough to tell it from others
}

// far is the largest distance from its home that an entry of the index can state; an entry may be farther away.
const (
	farBits = 4
	far     = 1<<farBits - 1
)

// entry is an index entry: the record's number plus one; above it the distance from the first place where its key is looked
// for; above that as much of the key's hash as fits. Neither a probe nor a removal needs to read the records of other keys.
func (sh *Shard[K, R]) entry(h uint64, i, away uint32) uint32 {
	return sh.like(h) + away*(sh.number+1) + (i + 1)
}

// like is an entry at its home, without its number.
func (sh *Shard[K, R]) like(h uint64) uint32 {
	return uint32(h>>32) &^ ((sh.number+1)<<farBits - 1)
}

func (sh *Shard[K, R]) at(i uint32) *slot[K, R] { return &sh.chunks[i/tableChunk][i%tableChunk] }

// Find returns the record with a key, nil if there is none. The caller holds the lock.
func (sh *Shard[K, R]) Find(h uint64, k K) *R {
	if len(sh.index) == 0 {
		return nil
	}
	mask, like, one := uint64(len(sh.index)-1), sh.like(h), sh.number+1
	for at, away := h>>6&mask, uint32(0); ; at, away = (at+1)&mask, min(away+1, far) {
		i := sh.index[at]
		if i == 0 {
			return nil
		}
		if i&^sh.number != like+away*one {
			continue
		}
		if s := sh.at(i&sh.number - 1); s.key == k {
			if s.use != inUse && (sh.clock == nil || s.born != sh.second()) {
				s.use = inUse
			}
			return &s.r
		}
	}
}

// Open returns the record with a key, an empty one if there is none. The caller holds the lock.
func (t *Table[K, R]) Open(sh *Shard[K, R], h uint64, k K) (r *R, fresh bool) {
	if r = sh.Find(h, k); r != nil {
		return r, false
	}
	var i uint32
	switch {
	case len(sh.free) > 0:
		i = sh.free[len(sh.free)-1]
		sh.free = sh.free[:len(sh.free)-1]
		t.live.Add(1)
	case sh.used < t.each:
		i = sh.used
		sh.used++
		if int(i/tableChunk) == len(sh.chunks) {
			sh.chunks = append(sh.chunks, make([]slot[K, R], min(tableChunk, t.each-i)))
		}
		t.live.Add(1)
	default:
		i = sh.victim()
		t.unlink(sh, i)
		t.evicted.Add(1)
	}
	s := sh.at(i)
	*s = slot[K, R]{key: k, live: true, born: sh.second()} // not used yet: a flood of new keys evicts its own first
	t.link(sh, h, i)
	return &s.r, true
}

// guesses is how many random records are tried for one that was never used again.
const guesses = 16

// victim finds the record to evict; every slot of a full shard is taken.
func (sh *Shard[K, R]) victim() uint32 {
	if sh.at(sh.hand).use == unused {
		return sh.next()
	}
	for range guesses {
		sh.chance = sh.chance*1664525 + 1013904223 // Numerical Recipes' generator
		i := uint32(uint64(sh.chance) * uint64(sh.used) >> 32)
		if sh.at(i).use == unused {
			sh.next()
			return i
		}
	}
	for {
		i := sh.next()
		s := sh.at(i)
		if s.use != inUse {
			return i
		}
		s.use = wasUsed
	}
}

// next returns the hand's place and moves it on.
func (sh *Shard[K, R]) next() uint32 {
	i := sh.hand
	if sh.hand++; sh.hand == sh.used {
		sh.hand = 0
	}
	return i
}

func (t *Table[K, R]) link(sh *Shard[K, R], h uint64, i uint32) {
	if int(sh.n+1)*4 > len(sh.index)*3 {
		old := sh.index
		sh.index = make([]uint32, max(16, 2*len(old)))
		for _, j := range old {
			if j != 0 {
				j = j&sh.number - 1
				sh.put(t.hash(sh.at(j).key), j)
			}
		}
	}
	sh.put(h, i)
	sh.n++
}

func (sh *Shard[K, R]) put(h uint64, i uint32) {
	mask := uint64(len(sh.index) - 1)
	at, away := h>>6&mask, uint32(0)
	for sh.index[at] != 0 {
		at, away = (at+1)&mask, min(away+1, far)
	}
	sh.index[at] = sh.entry(h, i, away)
}

// unlink removes a record from the index and moves up the entries behind it, so that no probe ends early.
func (t *Table[K, R]) unlink(sh *Shard[K, R], i uint32) {
	mask := uint64(len(sh.index) - 1)
	at := t.hash(sh.at(i).key) >> 6 & mask
	for sh.index[at]&sh.number != i+1 {
		at = (at + 1) & mask
	}
	hole := at
	for {
		at = (at + 1) & mask
		j := sh.index[at]
		if j == 0 {
			break
		}
		away, gap := t.away(sh, j, at), (at-hole)&mask
		if away < gap { // its home is behind the hole
			continue
		}
		one := sh.number + 1
		sh.index[hole] = j&^(far*one) | uint32(min(away-gap, far))*one //nolint:gosec // at most far
		hole = at
	}
	sh.index[hole] = 0
	sh.n--
}

// away is the distance of the entry at a place from its home.
func (t *Table[K, R]) away(sh *Shard[K, R], entry uint32, at uint64) uint64 {
	if a := entry / (sh.number + 1) & far; a < far {
		return uint64(a)
	}
	return (at - t.hash(sh.at(entry&sh.number-1).key)>>6) & uint64(len(sh.index)-1)
}

// All calls f with each record, under the lock of its shard.
func (t *Table[K, R]) All(f func(k K, r *R)) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for j := range sh.used {
			if s := sh.at(j); s.live {
				f(s.key, &s.r)
			}
		}
		sh.mu.Unlock()
	}
}

// Sweep drops the records for which done reports that they are no longer needed.
func (t *Table[K, R]) Sweep(done func(k K, r *R) bool) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for j := range sh.used {
			s := sh.at(j)
			if !s.live || !done(s.key, &s.r) {
				continue
			}
			t.unlink(sh, j)
			var none slot[K, R]
			*s = none
			sh.free = append(sh.free, j)
			t.live.Add(-1)
		}
		sh.mu.Unlock()
	}
}
