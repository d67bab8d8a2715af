package cbb

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"antirobot/identity"
)

func list(name string, f Flag, entries ...string) ListConfig {
	return ListConfig{Name: name, Flag: f.String(), Entries: entries}
}

// fetched is a layer as if it came from a URL.
func fetched(name string, f Flag, service string, entries ...string) layer {
	p := newParser(limits{maxEntries: 1 << 20, maxBadShare: 1, allowWide: true})
	d, err := p.read(strings.NewReader(strings.Join(entries, "\n")), formatLines, 0)
	if err != nil {
		panic(err)
	}
	return layer{Entry{List: name, Flag: f, Service: service}, d}
}

func own(l layer) layer {
	l.base.Own = true
	return l
}

func lookupTable(t *table, addr, service string) string {
	id := &identity.Identity{Addr: netip.MustParseAddr(addr), N: 1}
	id.Subjects[0] = identity.AddrSubject(id.Addr)
	var m Match
	t.lookup(&m, id, service)
	return m.names()
}

// A longest-prefix look-up alone would hide the block around a white address, or the own block around a fetched one.
func TestEveryCoveringEntryIsFound(t *testing.T) {
	tab := buildTable([]layer{
		own(fetched("mine", Block, "", "10.1.2.0/24")),
		fetched("wide", Block, "", "10.0.0.0/8", "2001:db8::/32"),
		fetched("good", White, "", "10.1.2.3", "10.9.9.9", "2001:db8:1::/48"),
		fetched("bans", Ban, "", "10.1.0.0/16", "198.51.100.0-198.51.100.9"),
		fetched("shop", White, "shop", "10.1.2.128/25"),
	})
	f := func(addr, service, want string) {
		t.Helper()
		if got := lookupTable(tab, addr, service); got != want {
			t.Errorf("%s for %q: %s, want %s", addr, service, got, want)
		}
	}
	f("10.1.2.3", "", "mine good wide bans")
	f("10.1.2.4", "", "mine - wide bans")
	f("10.1.2.200", "", "mine - wide bans")
	f("10.1.2.200", "shop", "mine shop wide bans")
	f("10.1.3.1", "", "- - wide bans")
	f("10.9.9.9", "", "- good wide -")
	f("10.9.9.8", "", "- - wide -")
	f("11.0.0.0", "", "- - - -")
	f("9.255.255.255", "", "- - - -")
	f("198.51.100.9", "", "- - - bans")
	f("198.51.100.10", "", "- - - -")
	f("2001:db8:1::5", "", "- good wide -")
	f("2001:db8:2::5", "", "- - wide -")
	f("2001:db9::", "", "- - - -")
}

func TestTableAgreesWithASlowOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type rule struct {
			p netip.Prefix
			e Entry
		}
		var rules []rule
		var layers []layer
		for i := range rapid.IntRange(1, 6).Draw(rt, "lists") {
			var lines []string
			e := Entry{
				List: fmt.Sprint(
					i,
				), Flag: Flag(rapid.IntRange(0, 2).Draw(rt, "flag")), Own: rapid.Bool().Draw(rt, "own"),
				Service: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(rt, "service"),
			}
			for range rapid.IntRange(0, 20).Draw(rt, "n") {
				var p netip.Prefix
				if rapid.Bool().Draw(rt, "v6") {
					b := [16]byte{0x20, 1}
					b[7], b[8] = byte(rapid.IntRange(0, 3).Draw(rt, "x")), byte(rapid.IntRange(0, 255).Draw(rt, "y"))
					p = netip.PrefixFrom(netip.AddrFrom16(b), rapid.IntRange(56, 72).Draw(rt, "bits")).Masked()
				} else {
					b := [4]byte{10, 0, byte(rapid.IntRange(0, 3).Draw(rt, "x")), byte(rapid.IntRange(0, 255).Draw(rt, "y"))}
					p = netip.PrefixFrom(netip.AddrFrom4(b), rapid.IntRange(20, 32).Draw(rt, "bits")).Masked()
				}
				lines = append(lines, p.String())
				rules = append(rules, rule{p, e})
			}
			l := fetched(e.List, e.Flag, e.Service, lines...)
			l.base.Own = e.Own
			layers = append(layers, l)
		}
		tab := buildTable(layers)
		for range 50 {
			var a netip.Addr
			if rapid.Bool().Draw(rt, "v6") {
				b := [16]byte{0x20, 1}
				b[7], b[8] = byte(rapid.IntRange(0, 3).Draw(rt, "x")), byte(rapid.IntRange(0, 255).Draw(rt, "y"))
				a = netip.AddrFrom16(b)
			} else {
				a = netip.AddrFrom4([4]byte{10, 0, byte(rapid.IntRange(0, 3).Draw(rt, "x")), byte(rapid.IntRange(0, 255).Draw(rt, "y"))})
			}
			for _, service := range []string{"", "a", "c"} {
				var want [slots]string
				var bits [slots]int
				for i := range want {
					want[i], bits[i] = "-", -1
				}
				for _, r := range rules {
					if !r.p.Contains(a) || r.e.Service != "" && r.e.Service != service {
						continue
					}
					weight := r.p.Bits()
					if r.e.Service != "" {
						weight += 1000
					}
					if s := r.e.slot(); weight > bits[s] { // among equals the first list wins
						bits[s], want[s] = weight, r.e.List
					}
				}
				if got := lookupTable(tab, a.String(), service); got != strings.Join(want[:], " ") {
					rt.Fatalf("%v for %q: %s, want %v of %v", a, service, got, want, rules)
				}
			}
		}
	})
}

func TestSubjectsMatchAnyVerifiedIdentity(t *testing.T) {
	l := open(t, config(func(c *Config) {
		c.Ban = []string{"L:alice she knows why"}
		c.White = []string{"i:00112233445566778899aabbccddeeff"}
	}), nil)
	v, id := newRequest("192.0.2.1", "/")
	sub := func(s string) identity.Subject {
		x, err := identity.ParseSubject(s)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	id.Subjects, id.N = [identity.MaxSubjects]identity.Subject{
		sub("spravka:000102030405060708090a0b0c0d0e0f"), sub("L:alice"), id.Subjects[0],
	}, 3
	var m Match
	l.Lookup(&m, v, id, "")
	if m.Ban == nil || m.Ban.Reason != "she knows why" || m.Ban.Text != "L:alice" {
		t.Errorf("a weaker identity is not seen: %+v", m.Ban)
	}
	if m.White != nil {
		t.Errorf("white by %+v", m.White)
	}
	id.N = 1 // the others are not verified now
	l.Lookup(&m, v, id, "")
	if m.Ban != nil {
		t.Error("an identity beyond N counts")
	}
}

func TestDescribeNamesTheNetwork(t *testing.T) {
	srv := serveText(t, "192.0.0.0/16 wide\n192.0.2.0/24 near\n192.0.2.78 near\n198.51.100.1\n")
	l := open(t, config(func(c *Config) {
		c.Lists = []ListConfig{{Name: "f", Flag: "block", URL: srv.URL}}
		c.White = []string{"192.0.2.77 the office"}
	}), nil)
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	v, id := newRequest("192.0.2.77", "/")
	var m Match
	l.Lookup(&m, v, id, "")
	if got := l.Describe(m.Block, id.Addr); got != "192.0.2.0/24" {
		t.Errorf("block: %q", got)
	}
	if m.Block.Reason != "near" {
		t.Errorf("reason %q", m.Block.Reason)
	}
	v, id = newRequest("192.0.2.78", "/")
	l.Lookup(&m, v, id, "")
	if got := l.Describe(m.Block, id.Addr); got != "192.0.2.78" {
		t.Errorf("an address: %q", got)
	}
	if got := l.Describe(m.Block, netip.MustParseAddr("203.0.113.1")); got != "" {
		t.Errorf("an address that is not there: %q", got)
	}
	v, id = newRequest("192.0.2.77", "/")
	l.Lookup(&m, v, id, "")
	if got := l.Describe(m.White, id.Addr); got != "192.0.2.77" || m.White.Reason != "the office" {
		t.Errorf("white: %q", got)
	}
}

// each calls f for all networks of a list.
func (d *parsed) each(f func(netip.Prefix)) {
	for _, n := range d.v4 {
		f(n.prefix())
	}
	for _, n := range d.v6 {
		f(n.prefix())
	}
}

// million returns n networks as in real lists: mostly addresses, some /24, /20, and a fifth IPv6.
func million(n int) layer {
	r := rand.New(rand.NewPCG(1, 2))
	d := &parsed{labels: make([]label, 1)}
	p := &parser{out: d, limits: limits{maxEntries: n, maxBadShare: 1}}
	for range n {
		bits4 := []int{32, 32, 32, 32, 24, 24, 20}[r.IntN(7)]
		if r.IntN(5) > 0 {
			a := netip.AddrFrom4([4]byte{byte(1 + r.IntN(223)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
			p.add(netip.PrefixFrom(a, bits4).Masked(), 0)
			continue
		}
		b := [16]byte{
			0x20, byte(r.IntN(4)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()),
			byte(r.Uint32()), byte(r.Uint32()),
		}
		p.add(netip.PrefixFrom(netip.AddrFrom16(b), []int{64, 64, 48}[r.IntN(3)]).Masked(), 0)
	}
	if _, err := p.finish(0); err != nil {
		panic(err)
	}
	return layer{Entry{List: "million", Flag: Block}, d}
}
