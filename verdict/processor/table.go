package processor

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	tableShards = 64
	tableChunk  = 512 // records are allocated in chunks, so that growth copies nothing
)

// table keeps a bounded number of records by key. A full shard evicts one that was touched in the second of its creation alone, if one is
// soon found (an event touches its records again and again, and a flood of new keys is to evict its own), or else one that has not been
// touched since the shard's hand last passed it. Its index holds numbers instead of keys, and the garbage collector has no pointers to follow.
// Safe for concurrent use.
type table[K comparable, R any] struct {
	hash    func(K) uint64
	each    uint32 // most records in one shard
	live    atomic.Int64
	evicted atomic.Uint64
	shards  [tableShards]tableShard[K, R]
}

type tableShard[K comparable, R any] struct {
	mu     sync.Mutex
	index  []uint32 // see entry; 0 is empty. Linear probing, at most three quarters full. Written atomically
	number uint32   // the bits of an entry that are a number
	n      uint32   // records in the index
	chunks [][]slot[K, R]
	seen   atomic.Pointer[layout[K, R]] // where these are, for approach
	used   uint32                       // slots of chunks that were ever used
	free   []uint32
	hand   uint32
	chance uint32         // a random number: see guess
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

// newTable makes a table of at most so many records. hash spreads keys over all bits, and no client can foresee how.
func newTable[K comparable, R any](most int, hash func(K) uint64) *table[K, R] {
	t := &table[K, R]{hash: hash, each: uint32((most + tableShards - 1) / tableShards)}
	for i := range t.shards {
		t.shards[i].number = 1<<bits.Len32(t.each) - 1
	}
	return t
}

// by has the table count by a clock what is used again.
func (t *table[K, R]) by(clock *atomic.Uint32) *table[K, R] {
	for i := range t.shards {
		t.shards[i].clock = clock
	}
	return t
}

// second is that of the clock, without its upper bits.
func (sh *tableShard[K, R]) second() uint16 {
	if sh.clock == nil {
		return 0
	}
	return uint16(sh.clock.Load()) //nolint:gosec // they are enough to tell it from others
}

// far is the most places that an entry of the index says it is away from its home; then it may be more.
const (
	farBits = 4
	far     = 1<<farBits - 1
)

// entry is what the index has for a record: its number plus one; in the bits above, how many places it is away from its home, the first that its
// key is looked for at; and above these as much of the hash of its key as there is room for. So neither a probe nor what moves up when another
// record goes needs to look at the records of other keys, which are seldom in the processor's cache.
func (sh *tableShard[K, R]) entry(h uint64, i, away uint32) uint32 {
	return sh.like(h) + away*(sh.number+1) + (i + 1)
}

// like is what an entry at its home is, without its number.
func (sh *tableShard[K, R]) like(h uint64) uint32 {
	return uint32(h>>32) &^ ((sh.number+1)<<farBits - 1)
}

// lock returns the shard of a key, locked, and the hash.
func (t *table[K, R]) lock(k K) (*tableShard[K, R], uint64) {
	h := t.hash(k)
	sh := &t.shards[h%tableShards]
	sh.mu.Lock()
	return sh, h
}

func (sh *tableShard[K, R]) at(i uint32) *slot[K, R] { return &sh.chunks[i/tableChunk][i%tableChunk] }

// find returns the record with a key, nil if there is none. The caller holds the lock.
func (sh *tableShard[K, R]) find(h uint64, k K) *R {
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

// open returns the record with a key, an empty one if there is none. The caller holds the lock.
func (t *table[K, R]) open(sh *tableShard[K, R], h uint64, k K) (r *R, fresh bool) {
	if r = sh.find(h, k); r != nil {
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
			sh.show()
		}
		t.live.Add(1)
	default:
		i = sh.victim()
		t.unlink(sh, i)
		t.evicted.Add(1)
		t.fetchHand(sh)
	}
	s := sh.at(i)
	*s = slot[K, R]{key: k, live: true, born: sh.second()} // not used yet: a flood of new keys evicts its own first
	t.link(sh, h, i)
	return &s.r, true
}

// guesses is among how many records at random one is sought that was never used again, if that at the hand was.
const guesses = 16

// victim finds the record to evict; every slot of a full shard is taken.
func (sh *tableShard[K, R]) victim() uint32 {
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

// next returns where the hand is, and moves it on.
func (sh *tableShard[K, R]) next() uint32 {
	i := sh.hand
	if sh.hand++; sh.hand == sh.used {
		sh.hand = 0
	}
	return i
}

func (t *table[K, R]) link(sh *tableShard[K, R], h uint64, i uint32) {
	if int(sh.n+1)*4 > len(sh.index)*3 {
		old := sh.index
		sh.index = make([]uint32, max(16, 2*len(old)))
		for _, j := range old {
			if j != 0 {
				j = j&sh.number - 1
				sh.put(t.hash(sh.at(j).key), j)
			}
		}
		sh.show()
	}
	sh.put(h, i)
	sh.n++
}

func (sh *tableShard[K, R]) put(h uint64, i uint32) {
	mask := uint64(len(sh.index) - 1)
	at, away := h>>6&mask, uint32(0)
	for sh.index[at] != 0 {
		at, away = (at+1)&mask, min(away+1, far)
	}
	atomic.StoreUint32(&sh.index[at], sh.entry(h, i, away))
}

// unlink takes a record out of the index, and moves up those behind it so that no probe ends too early.
func (t *table[K, R]) unlink(sh *tableShard[K, R], i uint32) {
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
		atomic.StoreUint32(&sh.index[hole], j&^(far*one)|uint32(min(away-gap, far))*one) //nolint:gosec // at most far
		hole = at
	}
	atomic.StoreUint32(&sh.index[hole], 0)
	sh.n--
}

// away is how many places the entry that stands at a place is away from its home.
func (t *table[K, R]) away(sh *tableShard[K, R], entry uint32, at uint64) uint64 {
	if a := entry / (sh.number + 1) & far; a < far {
		return uint64(a)
	}
	return (at - t.hash(sh.at(entry&sh.number-1).key)>>6) & uint64(len(sh.index)-1)
}

// all calls f with each record, under the lock of its shard.
func (t *table[K, R]) all(f func(k K, r *R)) {
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

// sweep drops the records for which done reports that they are no longer needed.
func (t *table[K, R]) sweep(done func(k K, r *R) bool) {
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
