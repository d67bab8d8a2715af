package cbb

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"

	"antirobot/identity"
	"antirobot/rules/texts"
)

// Listed reports whether the list called name contains addr or sub; one of the two may be zero. "api" means the entries
// made at run time, and "block", "ban" and "white" all lists with that flag. Entries for a service count for that one
// alone. It reads the snapshot and does not wait. Unlike Lookup it sees an entry that another list hides.
func (l *Lists) Listed(name string, addr netip.Addr, sub identity.Subject, service string, at time.Time) bool {
	q := namedQuery{name: name, service: service, at: at}
	q.flag, q.byFlag = flagOf(name)
	addr = addr.Unmap().WithZone("")
	if l.live.over.has(addr, sub, &q) {
		return true
	}
	s := l.snap.Load()
	for _, layers := range [...][]layer{s.layers, s.quiet} {
		for i := range layers {
			if q.fits(&layers[i].base) && layers[i].data.has(addr, sub) {
				return true
			}
		}
	}
	return false
}

// textList is a list of texts, and the one service that it is for; empty: all.
type textList struct {
	set     *texts.Set
	service string
}

// Texts returns the list of texts called name, if it is for the service; nil if there is none, or if no copy of it has been
// read yet. It does not wait; the list stays as it is when it is refreshed.
func (l *Lists) Texts(name, service string) *texts.Set {
	if t := l.snap.Load().texts[name]; t.service == "" || t.service == service {
		return t.set
	}
	return nil
}

// namedQuery says which entries are wanted.
type namedQuery struct {
	name, service string
	flag          Flag
	byFlag        bool
	at            time.Time
}

func (q *namedQuery) fits(e *Entry) bool {
	return (e.Service == "" || e.Service == q.service) && e.live(q.at) && (q.byFlag && e.Flag == q.flag || e.List == q.name)
}

func (q *namedQuery) any(c *cell) bool {
	for _, e := range c.entries {
		if q.fits(e) {
			return true
		}
	}
	return false
}

// flagOf reads the name of a flag.
func flagOf(name string) (Flag, bool) {
	for _, f := range [...]Flag{Block, Ban, White} {
		if name == f.String() {
			return f, true
		}
	}
	return 0, false
}

// Names returns the names of the lists that there are now, and what these are lists of.
func (l *Lists) Names() (names, of []string) { return l.config().Names() }

// Names returns the names of lists that Listed and Texts accept: the built-in ones, those in the configuration, and what
// these are lists of: words, domains, keys, or networks.
func (c *Config) Names() (names, of []string) {
	for _, own := range [...]string{listAPI, listInline, Block.String(), Ban.String(), White.String()} {
		names, of = append(names, own), append(of, ofNetworks)
	}
	for i := range c.Lists {
		names, of = append(names, c.Lists[i].Name), append(of, or(c.Lists[i].Of, ofNetworks))
	}
	return names, of
}

// Networks returns the names of those lists that may contain networks: lists of texts, and those that are switched off, do not.
func (c *Config) Networks() (names []string) {
	all, of := c.Names()
	for i, name := range all {
		off := slices.ContainsFunc(c.Lists, func(l ListConfig) bool { return l.Name == name && l.Enabled != nil && !*l.Enabled })
		if of[i] == ofNetworks && !off {
			names = append(names, name)
		}
	}
	return names
}

// has reports whether one of the networks around addr, or sub, is in the list.
func (d *parsed) has(addr netip.Addr, sub identity.Subject) bool {
	if sub.Kind != identity.KindNone {
		_, ok := slices.BinarySearchFunc(d.subjects, sub, func(l labelledSubject, s identity.Subject) int { return compareSubjects(l.s, s) })
		if ok {
			return true
		}
	}
	if !addr.IsValid() || addr.Is4() && len(d.v4) == 0 || addr.Is6() && len(d.v6) == 0 {
		return false
	}
	seen := &d.lengths.v6
	if addr.Is4() {
		seen = &d.lengths.v4
	}
	for bits := range addr.BitLen() + 1 {
		if !seen[bits] {
			continue
		}
		if _, ok := d.find(netip.PrefixFrom(addr, bits).Masked()); ok {
			return true
		}
	}
	return false
}

func compareSubjects(a, b identity.Subject) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.ID[:], b.ID[:]))
}

// lengths are the prefix lengths of the networks in a list: few, so that a search need not try them all.
type lengths struct{ v4, v6 [129]bool }

// has reports whether there is a suitable entry for sub, or for a network around addr.
func (o *overlay) has(addr netip.Addr, sub identity.Subject, q *namedQuery) bool {
	if sub.Kind != identity.KindNone && o.nsubj.Load() > 0 {
		if sh := o.shard(sub).Load(); sh != nil {
			if c, ok := (*sh)[sub]; ok && q.any(c) {
				return true
			}
		}
	}
	t := o.nets.Load()
	if !addr.IsValid() || t.Size() == 0 {
		return false
	}
	for p := netip.PrefixFrom(addr, addr.BitLen()); ; {
		around, c, ok := t.LookupPrefixLPM(p)
		if !ok {
			return false
		}
		if q.any(c) {
			return true
		}
		if around.Bits() == 0 {
			return false
		}
		p = netip.PrefixFrom(around.Addr(), around.Bits()-1)
	}
}
