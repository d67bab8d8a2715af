package cbb

import (
	"cmp"
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

// buildTable builds the table over all layers. It takes about a second for a million networks.
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

// cuts sweeps the networks in order, with a stack of those around the current one, and cuts where the set changes.
func cuts[K key[K]](b *tableBuilder, recs []rec[K]) (levels [][]K, sets []uint32) {
	slices.SortStableFunc(recs, func(x, y rec[K]) int { return cmp.Or(x.addr.compare(y.addr), cmp.Compare(x.bits, y.bits)) })
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
		return labelOf(d.v4, listed[key4]{addr: key4Of(p.Addr()), bits: uint8(p.Bits())})
	}
	return labelOf(d.v6, listed[key6]{addr: key6Of(p.Addr()), bits: uint8(p.Bits())})
}

func labelOf[K key[K]](nets []listed[K], n listed[K]) (uint16, bool) {
	i, ok := slices.BinarySearchFunc(nets, n, compareListed)
	if !ok {
		return 0, false
	}
	return nets[i].label, true
}

// buildRanges makes a table of networks that have no meaning of their own.
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
