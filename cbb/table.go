package cbb

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"antirobot/identity"
)

// The networks of all lists are flattened: the address space is cut where the answer changes, and each piece carries
// the number of its set. A search finds every covering entry, a network costs two cuts of eight bytes, and each level
// holds every sixteenth key of the level below, so a search reads one cache line per level. (A trie of the same
// million networks took four times the memory and, cold, three times as long.)

const fanout = 16

// table is the immutable look-up structure over all lists.
type table struct {
	v4       cuts4
	v6       cuts6
	sets     []set                       // 0 is empty
	subjects map[identity.Subject]uint32 // index into sets
	networks int                         // that the lists hold
}

// layer is one list of a table. Of two entries in one place, that of the earlier layer wins.
type layer struct {
	base Entry // List, Reason, Flag, Service, Own
	data *parsed
}

func (t *table) lookup(m *Match, id *identity.Identity, service string) {
	if len(t.subjects) > 0 {
		for i := 0; i < id.N && i < len(id.Subjects); i++ {
			if n, ok := t.subjects[id.Subjects[i]]; ok {
				t.sets[n].fill(m, service)
			}
		}
	}
	if n := t.find(id.Addr); n != 0 {
		t.sets[n].fill(m, service)
	}
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

func (k key4) compare(o key4) int { return cmp.Compare(k, o) }

func (k key4) last(bits uint8) key4 { return k | key4(uint64(1)<<(32-bits)-1) }

func (k key4) next() key4 { return k + 1 }

func (k key4) addr() netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(k))))
}

type key6 struct{ hi, lo uint64 }

func key6Of(a netip.Addr) key6 {
	b := a.As16()
	return key6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (k key6) compare(o key6) int { return cmp.Or(cmp.Compare(k.hi, o.hi), cmp.Compare(k.lo, o.lo)) }

func (k key6) after(o key6) bool { return k.hi > o.hi || k.hi == o.hi && k.lo > o.lo }

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

// cuts6 are the cuts of IPv6.
type cuts6 struct {
	levels [][]key6
	sets   []uint32
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

// cut says that from k on the set is s. Of two cuts at one position the later wins.
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

// tableBuilder interns sets: lists have few distinct entries, so a million networks share a handful of sets.
type tableBuilder struct {
	t       *table
	entries []*Entry
	next    map[uint64]uint32 // set<<32 | entry → set
	// the last transition, which the next prefix almost always repeats
	lastKey uint64
	lastSet uint32
}

// rec is a network and the index of its entry.
type rec[K key[K]] struct {
	addr  K
	entry uint32
	bits  uint8
}

func appendRecs[K key[K]](dst []rec[K], first uint32, nets []listed[K]) []rec[K] {
	for _, n := range nets {
		dst = append(dst, rec[K]{n.addr, first + uint32(n.label), n.bits})
	}
	return dst
}

// buildTable takes about a second for a million networks.
func buildTable(layers []layer) *table {
	b := &tableBuilder{t: &table{sets: make([]set, 1)}, next: map[uint64]uint32{}, lastKey: ^uint64(0)}
	n4, n6, ns := 0, 0, 0
	for _, l := range layers {
		n4, n6, ns = n4+len(l.data.v4), n6+len(l.data.v6), ns+len(l.data.subjects)
	}
	b.t.networks = n4 + n6
	v4, v6 := make([]rec[key4], 0, n4), make([]rec[key6], 0, n6)
	b.t.subjects = make(map[identity.Subject]uint32, ns)
	// From the last layer to the first, so that in one place the earlier layer is applied later and wins.
	for _, l := range slices.Backward(layers) {
		first := uint32(len(b.entries))
		for _, lab := range l.data.labels {
			e := l.base
			if lab.text != "" {
				e.Text = lab.text
			}
			if lab.reason != "" {
				e.Reason = lab.reason
			}
			b.entries = append(b.entries, &e)
		}
		v4, v6 = appendRecs(v4, first, l.data.v4), appendRecs(v6, first, l.data.v6)
		for _, s := range l.data.subjects {
			b.t.subjects[s.s] = b.step(b.t.subjects[s.s], first+uint32(s.label))
		}
	}
	b.t.v4.levels, b.t.v4.sets = cuts(b, v4)
	b.t.v6.levels, b.t.v6.sets = cuts(b, v6)
	return b.t
}

func (b *tableBuilder) step(from, entry uint32) uint32 {
	key := uint64(from)<<32 | uint64(entry)
	if key == b.lastKey {
		return b.lastSet
	}
	to, ok := b.next[key]
	if !ok {
		e := b.entries[entry]
		s := b.t.sets[from].with(e)
		if s.sameAs(&b.t.sets[from]) {
			to = from
		} else {
			to = uint32(len(b.t.sets))
			b.t.sets = append(b.t.sets, s)
		}
		b.next[key] = to
	}
	b.lastKey, b.lastSet = key, to
	return to
}

func (s *set) sameAs(o *set) bool {
	if s.all != o.all || len(s.own) != len(o.own) {
		return false
	}
	for i := range s.own {
		if s.own[i] != o.own[i] {
			return false
		}
	}
	return true
}

type cover[K any] struct {
	last K // its last address
	set  uint32
}

// cuts sweeps the networks in order, with a stack of those around the current one, and cuts where the set changes.
func cuts[K key[K]](b *tableBuilder, recs []rec[K]) (levels [][]K, sets []uint32) {
	slices.SortStableFunc(
		recs, func(x, y rec[K]) int { return cmp.Or(x.addr.compare(y.addr), cmp.Compare(x.bits, y.bits)) },
	)
	c := newCutter[K](2 * len(recs))
	var zero K
	end := zero.last(0)
	stack := []cover[K]{{last: end}}
	pop := func() {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if top.last != end {
			c.cut(top.last.next(), stack[len(stack)-1].set)
		}
	}
	for i := 0; i < len(recs); {
		r := recs[i]
		for stack[len(stack)-1].last.compare(r.addr) < 0 {
			pop()
		}
		n := stack[len(stack)-1].set
		for ; i < len(recs) && recs[i].addr == r.addr && recs[i].bits == r.bits; i++ {
			n = b.step(n, recs[i].entry)
		}
		c.cut(r.addr, n)
		stack = append(stack, cover[K]{last: r.addr.last(r.bits), set: n})
	}
	for len(stack) > 1 {
		pop()
	}
	return upper(slices.Clip(slices.Clone(c.keys))), slices.Clip(slices.Clone(c.sets))
}

func (l *layer) describe(e *Entry, addr netip.Addr) (netip.Prefix, bool) {
	b := l.base
	if !addr.IsValid() || b.List != e.List || b.Flag != e.Flag || b.Service != e.Service || b.Own != e.Own {
		return netip.Prefix{}, false
	}
	for bits := addr.BitLen(); bits >= 0; bits-- {
		p := netip.PrefixFrom(addr, bits).Masked()
		lab, ok := l.data.find(p)
		if x := l.data.labels[lab]; ok && (x.reason == e.Reason || x.reason == "" && b.Reason == e.Reason) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

func buildRanges(ds []*parsed) *bart.Lite {
	t := new(bart.Lite)
	for _, d := range ds {
		for i := range d.v4 {
			t.Insert(d.v4[i].prefix())
		}
		for i := range d.v6 {
			t.Insert(d.v6[i].prefix())
		}
	}
	return t
}
