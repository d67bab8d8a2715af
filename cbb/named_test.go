package cbb

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
)

// TestListed queries lists by name: an entry hidden by a longer one of another list, entries of one service, run-time
// entries and their ends, subjects.
func TestListed(t *testing.T) {
	l := node(t, newFakeStore(), func(c *Config) {
		c.Lists = []ListConfig{
			{Name: "wide", Flag: "ban", Entries: []string{"10.0.0.0/8", "2001:db8::/32", "L:mallory"}},
			{Name: "narrow", Flag: "ban", Entries: []string{"10.1.2.0/24"}},
			{Name: "shops", Flag: "block", Entries: []string{"192.0.2.1-192.0.2.6"}, Service: "shop"},
		}
	})
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer closeLists(t, l)
	if err := l.Add(t.Context(), White, "198.51.100.0/24", time.Hour, "", ""); err != nil {
		t.Fatal(err)
	}
	mallory, err := identity.ParseSubject("L:mallory")
	if err != nil {
		t.Fatal(err)
	}
	f := func(list, addr string, sub identity.Subject, service string, after time.Duration, want bool) {
		t.Helper()
		var a netip.Addr
		if addr != "" {
			a = netip.MustParseAddr(addr)
		}
		if got := l.Listed(list, a, sub, service, time.Now().Add(after)); got != want {
			t.Errorf("%s in %s for %q: %v", addr, list, service, got)
		}
	}
	var nobody identity.Subject
	f("wide", "10.1.2.3", nobody, "", 0, true) // narrow has it, too
	f("narrow", "10.1.2.3", nobody, "", 0, true)
	f("narrow", "10.2.2.3", nobody, "", 0, false)
	f("wide", "::ffff:10.2.2.3", nobody, "", 0, true)
	f("wide", "2001:db8:1::1", nobody, "", 0, true)
	f("wide", "2001:db9::", nobody, "", 0, false)
	f("wide", "", mallory, "", 0, true)
	f("narrow", "", mallory, "", 0, false)
	f("ban", "10.1.2.3", nobody, "", 0, true)
	f("block", "10.1.2.3", nobody, "", 0, false)
	f("shops", "192.0.2.6", nobody, "shop", 0, true)
	f("shops", "192.0.2.7", nobody, "shop", 0, false)
	f("shops", "192.0.2.6", nobody, "blog", 0, false)
	f("white", "198.51.100.7", nobody, "", 0, true)
	f("api", "198.51.100.7", nobody, "", 0, true)
	f("api", "198.51.100.7", nobody, "", time.Hour, false)
	f("nothing", "198.51.100.7", nobody, "", 0, false)
}

// TestListedAgreesWithASlowOne compares with trying every network in turn.
func TestListedAgreesWithASlowOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var entries []string
	var nets []netip.Prefix
	for range 300 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)), byte(r.IntN(256))}), 12+r.IntN(21)).
			Masked()
		nets, entries = append(nets, p), append(entries, p.String())
	}
	l := node(t, newFakeStore(), func(c *Config) { c.Lists = []ListConfig{{Name: "a", Flag: "ban", Entries: entries}} })
	for range 20_000 {
		a := netip.AddrFrom4([4]byte{10, byte(r.IntN(8)), byte(r.IntN(8)), byte(r.IntN(256))})
		want := false
		for _, p := range nets {
			want = want || p.Contains(a)
		}
		if got := l.Listed("a", a, identity.Subject{}, "", time.Now()); got != want {
			t.Fatalf("%s: %v", a, got)
		}
	}
}
