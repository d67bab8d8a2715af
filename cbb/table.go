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
	nets     bart.Table[uint32] // index into sets
	sets     []set
	subjects map[identity.Subject]uint32 // index into sets
	networks int                         // that lists hold, before those that say nothing new are left out
}

// layer is one list as a table is built from it. Of two entries in one place the one of the earlier layer stands.
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
	if n, ok := t.nets.Lookup(id.Addr); ok {
		t.sets[n].fill(m, service)
	}
}

// tableBuilder interns sets: as lists have few distinct entries, a million prefixes share a handful of sets.
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
	// From the last layer to the first, so that in one place the earlier layer is applied later and stands.
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

// step returns the set that is from with an entry added.
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

// sameAs reports whether two sets, one of which was made from the other by with, say the same.
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

// cover is a prefix on the path from the root to where the sweep is.
type cover struct {
	last4  uint32
	hi, lo uint64 // last address, IPv6
	set    uint32
}

// insert4 sweeps the prefixes in order with a stack of those that cover the present one. A prefix that says what its
// parent says is left out.
func (b *tableBuilder) insert4(recs []rec4) {
	slices.SortStableFunc(recs, func(x, y rec4) int {
		if x.addr != y.addr {
			return cmp.Compare(x.addr, y.addr)
		}
		return cmp.Compare(x.bits, y.bits)
	})
	var stack []cover
	for i := 0; i < len(recs); {
		r := recs[i]
		for len(stack) > 0 && stack[len(stack)-1].last4 < r.addr {
			stack = stack[:len(stack)-1]
		}
		parent := uint32(0)
		if len(stack) > 0 {
			parent = stack[len(stack)-1].set
		}
		n := parent
		for ; i < len(recs) && recs[i].addr == r.addr && recs[i].bits == r.bits; i++ {
			n = b.step(n, recs[i].entry)
		}
		if n == parent {
			continue
		}
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], r.addr)
		b.t.nets.Insert(netip.PrefixFrom(netip.AddrFrom4(a), int(r.bits)), n)
		if r.bits < 32 {
			stack = append(stack, cover{last4: r.addr | uint32(uint64(1)<<(32-r.bits)-1), set: n})
		}
	}
}

func (b *tableBuilder) insert6(recs []rec6) {
	slices.SortStableFunc(recs, func(x, y rec6) int {
		return cmp.Or(cmp.Compare(x.hi, y.hi), cmp.Compare(x.lo, y.lo), cmp.Compare(x.bits, y.bits))
	})
	var stack []cover
	for i := 0; i < len(recs); {
		r := recs[i]
		for len(stack) > 0 && stack[len(stack)-1].before(r.hi, r.lo) {
			stack = stack[:len(stack)-1]
		}
		parent := uint32(0)
		if len(stack) > 0 {
			parent = stack[len(stack)-1].set
		}
		n := parent
		for ; i < len(recs) && recs[i].hi == r.hi && recs[i].lo == r.lo && recs[i].bits == r.bits; i++ {
			n = b.step(n, recs[i].entry)
		}
		if n == parent {
			continue
		}
		var a [16]byte
		binary.BigEndian.PutUint64(a[:8], r.hi)
		binary.BigEndian.PutUint64(a[8:], r.lo)
		p := netip.PrefixFrom(netip.AddrFrom16(a), int(r.bits))
		b.t.nets.Insert(p, n)
		if r.bits < 128 {
			l := lastOf(p).As16()
			stack = append(stack, cover{hi: binary.BigEndian.Uint64(l[:8]), lo: binary.BigEndian.Uint64(l[8:]), set: n})
		}
	}
}

// before reports whether the cover ends before the address.
func (c *cover) before(hi, lo uint64) bool { return c.hi < hi || c.hi == hi && c.lo < lo }

// describe returns the widest network around addr that is in the table because of e.
func (t *table) describe(e *Entry, addr netip.Addr) (netip.Prefix, bool) {
	var found netip.Prefix
	for p, n := range t.nets.Supernets(netip.PrefixFrom(addr, addr.BitLen())) {
		if !t.sets[n].has(e) {
			break
		}
		found = p
	}
	return found, found.IsValid()
}

func (s *set) has(e *Entry) bool {
	if s.all[e.slot()] == e {
		return true
	}
	for i := range s.own {
		if s.own[i].e[e.slot()] == e {
			return true
		}
	}
	return false
}

// rangeTable holds networks without any meaning of their own.
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
