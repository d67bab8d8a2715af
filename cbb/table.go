package cbb

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"antirobot/identity"
)

// table is the immutable look-up structure over all lists.
type table struct {
	v4       cuts4
	v6       cuts6
	sets     []set                       // 0 is empty
	subjects map[identity.Subject]uint32 // index into sets
	networks int                         // that the lists hold
}

// layer is one list from which a table is built. Of two entries in one place, that of the earlier layer wins.
type layer struct {
	base Entry // List, Reason, Flag, Service, Own
	data *parsed
}

// lookup fills m with what the lists say about an address and the verified subjects.
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

// tableBuilder interns sets: lists have few distinct entries, so a million networks share a handful of sets.
type tableBuilder struct {
	t       *table
	entries []*Entry
	next    map[uint64]uint32 // set<<32 | entry → set
	// the last transition, which the next prefix almost always repeats
	lastKey uint64
	lastSet uint32
}

type rec4 struct {
	addr  uint32
	entry uint32
	bits  uint8
}

type rec6 struct {
	hi, lo uint64
	entry  uint32
	bits   uint8
}

// buildTable builds the table over all layers. It takes about a second for a million networks.
func buildTable(layers []layer) *table {
	b := &tableBuilder{t: &table{sets: make([]set, 1)}, next: map[uint64]uint32{}, lastKey: ^uint64(0)}
	n4, n6, ns := 0, 0, 0
	for _, l := range layers {
		n4, n6, ns = n4+len(l.data.v4), n6+len(l.data.v6), ns+len(l.data.subjects)
	}
	b.t.networks = n4 + n6
	v4, v6 := make([]rec4, 0, n4), make([]rec6, 0, n6)
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
		for _, n := range l.data.v4 {
			v4 = append(v4, rec4{n.addr, first + uint32(n.label), n.bits})
		}
		for _, n := range l.data.v6 {
			v6 = append(v6, rec6{n.hi, n.lo, first + uint32(n.label), n.bits})
		}
		for _, s := range l.data.subjects {
			b.t.subjects[s.s] = b.step(b.t.subjects[s.s], first+uint32(s.label))
		}
	}
	b.insert4(v4)
	b.insert6(v6)
	return b.t
}

// step returns the set that results from adding an entry to from.
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

// sameAs reports whether two sets, one of which was made from the other by with, are equal.
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

// cover is a network around the current position of the sweep.
type cover[K any] struct {
	last K // its last address
	set  uint32
}

// insert4 sweeps the networks in order, with a stack of those around the current one, and cuts where the set changes.
func (b *tableBuilder) insert4(recs []rec4) {
	slices.SortStableFunc(recs, func(x, y rec4) int {
		if x.addr != y.addr {
			return cmp.Compare(x.addr, y.addr)
		}
		return cmp.Compare(x.bits, y.bits)
	})
	c := newCutter[uint32](2 * len(recs))
	stack := []cover[uint32]{{last: ^uint32(0)}}
	pop := func() {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if top.last != ^uint32(0) {
			c.cut(top.last+1, stack[len(stack)-1].set)
		}
	}
	for i := 0; i < len(recs); {
		r := recs[i]
		for stack[len(stack)-1].last < r.addr {
			pop()
		}
		n := stack[len(stack)-1].set
		for ; i < len(recs) && recs[i].addr == r.addr && recs[i].bits == r.bits; i++ {
			n = b.step(n, recs[i].entry)
		}
		c.cut(r.addr, n)
		stack = append(stack, cover[uint32]{last: r.addr | uint32(1<<(32-uint(r.bits))-1), set: n})
	}
	for len(stack) > 1 {
		pop()
	}
	b.t.v4 = cuts4{levels: upper(slices.Clip(slices.Clone(c.keys))), sets: slices.Clip(slices.Clone(c.sets))}
}

func (b *tableBuilder) insert6(recs []rec6) {
	slices.SortStableFunc(recs, func(x, y rec6) int {
		return cmp.Or(cmp.Compare(x.hi, y.hi), cmp.Compare(x.lo, y.lo), cmp.Compare(x.bits, y.bits))
	})
	c := newCutter[key6](2 * len(recs))
	end := key6{^uint64(0), ^uint64(0)}
	stack := []cover[key6]{{last: end}}
	pop := func() {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if top.last == end {
			return
		}
		next := key6{top.last.hi, top.last.lo + 1}
		if next.lo == 0 {
			next.hi++
		}
		c.cut(next, stack[len(stack)-1].set)
	}
	for i := 0; i < len(recs); {
		r := recs[i]
		at := key6{r.hi, r.lo}
		for at.after(stack[len(stack)-1].last) {
			pop()
		}
		n := stack[len(stack)-1].set
		for ; i < len(recs) && recs[i].hi == r.hi && recs[i].lo == r.lo && recs[i].bits == r.bits; i++ {
			n = b.step(n, recs[i].entry)
		}
		c.cut(at, n)
		stack = append(stack, cover[key6]{last: lastOf6(at, r.bits), set: n})
	}
	for len(stack) > 1 {
		pop()
	}
	b.t.v6 = cuts6{levels: upper(slices.Clip(slices.Clone(c.keys))), sets: slices.Clip(slices.Clone(c.sets))}
}

// lastOf6 returns the last address of a network.
func lastOf6(k key6, bits uint8) key6 {
	if bits <= 64 {
		return key6{k.hi | (1<<(64-uint(bits)) - 1), ^uint64(0)}
	}
	return key6{k.hi, k.lo | (1<<(128-uint(bits)) - 1)}
}

// describe returns the longest network around addr that a list has with the label of e. It searches; not for the hot
// path.
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

// find returns the label of a network if the list contains exactly that network.
func (d *parsed) find(p netip.Prefix) (uint16, bool) {
	if p.Addr().Is4() {
		a := p.Addr().As4()
		n := net4{addr: binary.BigEndian.Uint32(a[:]), bits: uint8(p.Bits())}
		i, ok := slices.BinarySearchFunc(d.v4, n, func(x, y net4) int {
			return cmp.Or(cmp.Compare(x.addr, y.addr), cmp.Compare(x.bits, y.bits))
		})
		if !ok {
			return 0, false
		}
		return d.v4[i].label, true
	}
	a := p.Addr().As16()
	n := net6{hi: binary.BigEndian.Uint64(a[:8]), lo: binary.BigEndian.Uint64(a[8:]), bits: uint8(p.Bits())}
	i, ok := slices.BinarySearchFunc(d.v6, n, func(x, y net6) int {
		return cmp.Or(cmp.Compare(x.hi, y.hi), cmp.Compare(x.lo, y.lo), cmp.Compare(x.bits, y.bits))
	})
	if !ok {
		return 0, false
	}
	return d.v6[i].label, true
}

// buildRanges makes a table of networks that have no meaning of their own.
func buildRanges(ds []*parsed) *bart.Lite {
	t := new(bart.Lite)
	for _, d := range ds {
		for _, n := range d.v4 {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], n.addr)
			t.Insert(netip.PrefixFrom(netip.AddrFrom4(a), int(n.bits)))
		}
		for _, n := range d.v6 {
			var a [16]byte
			binary.BigEndian.PutUint64(a[:8], n.hi)
			binary.BigEndian.PutUint64(a[8:], n.lo)
			t.Insert(netip.PrefixFrom(netip.AddrFrom16(a), int(n.bits)))
		}
	}
	return t
}
