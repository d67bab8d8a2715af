package counter

import (
	"sync"
	"sync/atomic"

	"antirobot/store"
)

// shards of the buffer; a power of two.
const shards = 64

// name is a store.Counter without pointers for the garbage collector.
type name struct {
	shingle uint64
	prefix  uint16
	typ     uint16
}

// hash spreads names that may not be hashes; its high bits are the better ones.
func (n name) hash() uint64 {
	x := n.shingle ^ uint64(n.typ)<<48 ^ uint64(n.prefix)<<32
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	return x * 0xbf58476d1ce4e5b9
}

func (n name) shard() int { return int(n.hash() >> (64 - 6)) }

// entry is a counter's sum in one ten-minute period. A counter's entries form a list, newest first.
type entry struct {
	n    uint64
	slot uint32
	next int32 // index of the counter's next entry, or -1
	name name
}

// table sums updates. It is emptied by a flush and reused.
type table struct {
	heads   map[name]int32
	entries []entry
}

func newTable() *table { return &table{heads: make(map[name]int32)} }

func (t *table) add(k name, slot uint32, n uint64, limit int) bool {
	head, ok := t.heads[k]
	if !ok {
		head = -1
	}
	for i := head; i >= 0; i = t.entries[i].next {
		if e := &t.entries[i]; e.slot == slot {
			e.n = store.AddCounts(e.n, n)
			return true
		}
	}
	if len(t.entries) >= limit {
		return false
	}
	t.entries = append(t.entries, entry{n: min(n, store.MaxCount), slot: slot, next: head, name: k})
	t.heads[k] = int32(len(t.entries) - 1)
	return true
}

// sum returns a counter's sum in the periods from..to of a unit.
func (t *table) sum(k name, u store.Unit, from, to uint32) (sum uint64) {
	head, ok := t.heads[k]
	if !ok {
		return 0
	}
	for i := head; i >= 0; i = t.entries[i].next {
		number := t.entries[i].slot
		if u == store.Day {
			number /= store.SlotsPerDay
		}
		if number >= from && number <= to {
			sum = store.AddCounts(sum, t.entries[i].n)
		}
	}
	return sum
}

func (t *table) clear() {
	clear(t.heads)
	t.entries = t.entries[:0]
}

// shard is a part of the buffer. An update is in active, in flushing, or only in the store.
type shard struct {
	// commit is held for writing while updates move from flushing into the store, and for reading while the store is
	// read: nothing is read twice or missed. It is taken before mu, and in the order of the shards.
	commit sync.RWMutex
	lost   atomic.Uint64

	mu       sync.Mutex
	active   *table
	flushing *table
	_        [64]byte // shards do not share a cache line
}

// unflushed returns the sum that is not in the store yet. The caller holds mu.
func (s *shard) unflushed(k name, q *store.Query) uint64 {
	n := s.active.sum(k, q.Unit, q.From, q.To)
	if len(s.flushing.entries) > 0 {
		n = store.AddCounts(n, s.flushing.sum(k, q.Unit, q.From, q.To))
	}
	return n
}

// maxPrefixes bounds the prefixes, which are for services, not for data.
const maxPrefixes = 4096

// prefixes assigns a number to each prefix. Look-ups take no lock.
type prefixes struct {
	mu    sync.Mutex
	table atomic.Pointer[prefixTable]
}

type prefixTable struct {
	numbers map[string]uint16
	names   []string
}

// number returns the number of a prefix, assigning one if necessary; false if there are too many, or it is invalid.
func (p *prefixes) number(prefix string) (uint16, bool) {
	if t := p.table.Load(); t != nil {
		if n, ok := t.numbers[prefix]; ok {
			return n, true
		}
	}
	if !ValidPrefix(prefix) {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &prefixTable{numbers: make(map[string]uint16)}
	if t := p.table.Load(); t != nil {
		if n, ok := t.numbers[prefix]; ok {
			return n, true
		}
		if len(t.names) == maxPrefixes {
			return 0, false
		}
		next.names = append(next.names, t.names...)
		for s, n := range t.numbers {
			next.numbers[s] = n
		}
	}
	prefix = string(append([]byte(nil), prefix...)) // it may be part of a larger string
	n := uint16(len(next.names))
	next.numbers[prefix] = n
	next.names = append(next.names, prefix)
	p.table.Store(next)
	return n, true
}

func (p *prefixes) counter(k name) store.Counter {
	return store.Counter{Prefix: p.table.Load().names[k.prefix], Shingle: k.shingle, Type: k.typ}
}
