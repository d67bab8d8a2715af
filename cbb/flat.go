package cbb

import (
	"cmp"
	"encoding/binary"
	"net/netip"
)

// The networks of all lists are flattened: the address space is cut where the answer changes, and each piece carries
// the number of its set. One search finds every covering entry, a network costs two cuts of eight bytes, and each level
// above holds every sixteenth key of the level below, so a search reads one cache line per level. (A trie of the same
// million networks took four times the memory and, cold, three times as long.)

const fanout = 16

// key is an address as a number: a key4 or a key6.
type key[K any] interface {
	comparable
	compare(K) int
	last(bits uint8) K // the last address of the network
	next() K
	addr() netip.Addr
}

type key4 uint32

func key4Of(a netip.Addr) key4 {
	b := a.As4()
	return key4(binary.BigEndian.Uint32(b[:]))
}

func (k key4) compare(o key4) int   { return cmp.Compare(k, o) }
func (k key4) last(bits uint8) key4 { return k | key4(uint64(1)<<(32-bits)-1) }
func (k key4) next() key4           { return k + 1 }

func (k key4) addr() netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(k))))
}

type key6 struct{ hi, lo uint64 }

func key6Of(a netip.Addr) key6 {
	b := a.As16()
	return key6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (k key6) compare(o key6) int { return cmp.Or(cmp.Compare(k.hi, o.hi), cmp.Compare(k.lo, o.lo)) }
func (k key6) after(o key6) bool  { return k.hi > o.hi || k.hi == o.hi && k.lo > o.lo }

func (k key6) last(bits uint8) key6 {
	if bits <= 64 {
		return key6{k.hi | (1<<(64-uint(bits)) - 1), ^uint64(0)}
	}
	return key6{k.hi, k.lo | (1<<(128-uint(bits)) - 1)}
}

func (k key6) next() key6 {
	if k.lo++; k.lo == 0 {
		k.hi++
	}
	return k
}

func (k key6) addr() netip.Addr {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, k.hi), k.lo)
	return netip.AddrFrom16([16]byte(b))
}

// cuts4 are the cuts of IPv4. The first is at 0.
type cuts4 struct {
	levels [][]key4 // levels[0] has the start of every piece
	sets   []uint32 // of the pieces
}

// cuts6 are the cuts of IPv6.
type cuts6 struct {
	levels [][]key6
	sets   []uint32
}

// find returns the set at an address.
func (c *cuts4) find(a key4) uint32 {
	i := 0
	for l := len(c.levels) - 1; l >= 0; l-- {
		keys := c.levels[l]
		keys = keys[i*fanout : min((i+1)*fanout, len(keys))]
		j := 1
		for j < len(keys) && keys[j] <= a {
			j++
		}
		i = i*fanout + j - 1
	}
	return c.sets[i]
}

func (c *cuts6) find(a key6) uint32 {
	i := 0
	for l := len(c.levels) - 1; l >= 0; l-- {
		keys := c.levels[l]
		keys = keys[i*fanout : min((i+1)*fanout, len(keys))]
		j := 1
		for j < len(keys) && !keys[j].after(a) {
			j++
		}
		i = i*fanout + j - 1
	}
	return c.sets[i]
}

// find returns the set at an address; 0, which is empty, for an invalid one.
func (t *table) find(a netip.Addr) uint32 {
	switch {
	case a.Is4():
		return t.v4.find(key4Of(a))
	case a.Is6():
		return t.v6.find(key6Of(a))
	default:
		return 0
	}
}

// upper builds the levels above the starts.
func upper[K any](keys []K) [][]K {
	levels := [][]K{keys}
	for len(keys) > fanout {
		next := make([]K, 0, (len(keys)+fanout-1)/fanout)
		for i := 0; i < len(keys); i += fanout {
			next = append(next, keys[i])
		}
		levels = append(levels, next)
		keys = next
	}
	return levels
}

// cutter makes cuts from starts that never decrease.
type cutter[K comparable] struct {
	keys []K
	sets []uint32
}

func newCutter[K comparable](n int) *cutter[K] {
	var zero K
	c := &cutter[K]{keys: make([]K, 0, n), sets: make([]uint32, 0, n)}
	c.keys, c.sets = append(c.keys, zero), append(c.sets, 0)
	return c
}

// cut says that from k on the set is s. Of two cuts at one position the later wins; one that changes nothing is left
// out.
func (c *cutter[K]) cut(k K, s uint32) {
	last := len(c.keys) - 1
	if c.keys[last] == k {
		c.sets[last] = s
		if last > 0 && c.sets[last-1] == s {
			c.keys, c.sets = c.keys[:last], c.sets[:last]
		}
		return
	}
	if c.sets[last] != s {
		c.keys, c.sets = append(c.keys, k), append(c.sets, s)
	}
}
