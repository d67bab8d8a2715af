package cbb

import (
	"encoding/binary"
	"net/netip"
)

// The networks of all lists are flattened: the address space is cut where the answer changes, and each piece carries
// the number of its set. One search finds every covering entry, a network costs two cuts of eight bytes, and each level
// above holds every sixteenth key of the level below, so a search reads one cache line per level. (A trie of the same
// million networks took four times the memory and, cold, three times as long.)

const fanout = 16

// cuts4 are the cuts of IPv4. The first is at 0.
type cuts4 struct {
	levels [][]uint32 // levels[0] has the start of every piece
	sets   []uint32   // of the pieces
}

// cuts6 are the cuts of IPv6.
type cuts6 struct {
	levels [][]key6
	sets   []uint32
}

type key6 struct{ hi, lo uint64 }

func (k key6) after(o key6) bool { return k.hi > o.hi || k.hi == o.hi && k.lo > o.lo }

// find returns the set at an address.
func (c *cuts4) find(a uint32) uint32 {
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
		b := a.As4()
		return t.v4.find(binary.BigEndian.Uint32(b[:]))
	case a.Is6():
		b := a.As16()
		return t.v6.find(key6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])})
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
