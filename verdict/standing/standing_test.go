package standing

import (
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/store"
)

const oneDay = 24 * time.Hour

var day0 = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func table(edit func(c *Config)) *Table {
	cfg := DefaultConfig()
	if edit != nil {
		edit(&cfg)
	}
	now := func() time.Time { return day0 }
	return New(store.NewMemory(now), cfg, now, nil)
}

func sub(kind identity.Kind, n int) identity.Subject {
	return identity.Subject{Kind: kind, ID: [16]byte{0: 7, 14: byte(n >> 8), 15: byte(n)}}
}

func ip(s string) [16]byte { return identity.AddrSubject(netip.MustParseAddr(s)).ID }

// TestCookieFarmer: one address establishes 32 subjects, however many cookies it keeps.
func TestCookieFarmer(t *testing.T) {
	all := table(nil)
	for day := range 5 {
		for n := range 1000 {
			all.Observe(sub(identity.KindI, n), ip("192.0.2.1"), day0.Add(time.Duration(day)*oneDay))
		}
	}
	n := 0
	for k := range all.shards {
		for _, e := range all.shards[k].m {
			if e.established {
				n++
			}
		}
	}
	if n != 32 || all.EstablishedAt(ip("192.0.2.1")) != 32 {
		t.Errorf("%d established, %d counted", n, all.EstablishedAt(ip("192.0.2.1")))
	}
	if total := all.n.Load(); total > 32*(1+candidatesPerPlace) {
		t.Errorf("%d subjects kept for one address", total)
	}
}

// TestPitfall12StandingIsBounded: candidates from many addresses don't evict established visitors.
func TestPitfall12StandingIsBounded(t *testing.T) {
	all := table(func(c *Config) { c.Max = 640 })
	known := sub(identity.KindFuid, 1)
	all.Observe(known, ip("192.0.2.1"), day0)
	all.Observe(known, ip("192.0.2.1"), day0.Add(oneDay))
	for n := range 5000 {
		s := sub(identity.KindI, n)
		s.ID[13] = 1
		addr := ip("2001:db8::")
		addr[6], addr[7] = byte(n>>8), byte(n)
		all.Observe(s, addr, day0.Add(oneDay))
	}
	if n := all.n.Load(); n > 640 {
		t.Errorf("%d subjects, at most 640", n)
	}
	if !all.Established(known) {
		t.Error("the established one was pushed out")
	}
	if all.refused.Load() == 0 {
		t.Error("nothing was counted")
	}
	homes := 0
	for k := range all.homes {
		homes += len(all.homes[k].m)
	}
	if n := all.n.Load(); int64(homes) > n {
		t.Errorf("%d addresses kept for %d subjects", homes, n)
	}
}

// TestLargeOfficeCounts: whoever reads as the site's people do on another day counts, however many share the address, which is worth no more
// for it; a farm of bare cookies there still is not.
func TestLargeOfficeCounts(t *testing.T) {
	all, office := table(nil), ip("192.0.2.1")
	later := day0.Add(oneDay)
	for n := range 600 {
		s := sub(identity.KindI, n)
		all.Observe(s, office, day0)
		all.Trust(s, office, day0, day0, true)
		if n >= 32 && all.Counts(s, day0) {
			t.Fatalf("visitor %d counts on its first day", n)
		}
	}
	for n := range 600 {
		all.Observe(sub(identity.KindI, n), office, later)
	}
	if n := all.ReturnedAt(office, later); n != 32 {
		t.Fatalf("%d count before anybody is trusted", n)
	}
	for n := range 600 {
		all.Trust(sub(identity.KindI, n), office, day0, later, true)
	}
	for n := range 100 {
		all.Observe(sub(identity.KindFuid, n), office, later) // somebody's farm
	}
	for n := range 600 {
		if !all.Counts(sub(identity.KindI, n), later) {
			t.Fatalf("visitor %d does not count", n)
		}
	}
	if n, of := all.EstablishedAt(office), all.EstablishedIn(netip.MustParsePrefix("192.0.2.0/24")); n != 32 || of != 32 {
		t.Errorf("%d are established at the address, %d in its network", n, of)
	}
	if n, back := all.TrustedAt(office), all.ReturnedAt(office, later); n != 568 || back != 600 {
		t.Errorf("%d trusted, %d have come back", n, back)
	}
	if farmed := sub(identity.KindFuid, 1); all.Counts(farmed, later.Add(oneDay)) {
		t.Error("somebody else counts")
	}
	for n := range 600 {
		all.Forget(sub(identity.KindI, n))
	}
	if n := all.TrustedAt(office) + all.EstablishedAt(office); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestMostlyRobots: where more have turned out to be robots than are known, nobody counts by one page of an earlier day, and none of the
// others becomes established on the next; where few have, or the operator erased some, everything is as before.
func TestMostlyRobots(t *testing.T) {
	home, next := ip("192.0.2.1"), day0.Add(oneDay)
	f := func(name string, want bool, do func(all *Table)) {
		t.Helper()
		all, left := table(nil), sub(identity.KindI, 29)
		for n := range 30 {
			all.Observe(sub(identity.KindI, n), home, day0)
		}
		do(all)
		if got := all.Counts(left, next); got != want {
			t.Errorf("%s: it counts: %v", name, got)
		}
		if got := all.ReturnedAt(home, next) > 0; got != want {
			t.Errorf("%s: somebody has come back: %v", name, got)
		}
		if all.Observe(left, home, next); all.Established(left) != want {
			t.Errorf("%s: it is established: %v", name, !want)
		}
		if all.Sweep(day0.Add(40 * oneDay)); all.Len() != 0 || len(all.home(home).m) != 0 {
			t.Errorf("%s: %d subjects and %d addresses are left", name, all.Len(), len(all.home(home).m))
		}
	}
	ban := func(most int) func(all *Table) {
		return func(all *Table) {
			for n := range most {
				all.Ban(sub(identity.KindI, n), day0)
				all.Ban(sub(identity.KindI, n), day0) // it is heard twice
			}
		}
	}
	f("nobody is banned", true, func(*Table) {})
	f("a third are", true, ban(10))
	f("half of them on the day before", true, ban(15))
	f("most of them", false, ban(25))
	f("most of them are erased", true, func(all *Table) {
		for n := range 25 {
			all.Forget(sub(identity.KindI, n))
		}
	})

	all := table(nil)
	for n := range 30 {
		all.Observe(sub(identity.KindI, n), home, day0)
	}
	ban(25)(all)
	if all.Observe(sub(identity.KindI, 29), home, day0.Add(5*oneDay)); !all.Established(sub(identity.KindI, 29)) {
		t.Error("nobody becomes established days later")
	}
	known := sub(identity.KindI, 28)
	all.Observe(known, home, day0.Add(5*oneDay))
	ban(25)(all)
	if !all.Counts(known, day0.Add(5*oneDay)) {
		t.Error("who is established does not count because of others")
	}
}

// TestTrustIsBounded: an address has a bounded number of trusted subjects, and they are not pushed out.
func TestTrustIsBounded(t *testing.T) {
	all := table(func(c *Config) { c.PerAddress, c.Max = 2, 80 })
	for n := range 200 {
		all.Trust(sub(identity.KindI, n), ip("192.0.2.1"), day0, day0.Add(oneDay), true)
	}
	if n := all.TrustedAt(ip("192.0.2.1")); n != 2*trustedPerPlace {
		t.Errorf("%d trusted", n)
	}
	for n := range 500 {
		addr := ip("2001:db8::")
		addr[6], addr[7] = byte(n>>8), byte(n)
		all.Observe(sub(identity.KindFuid, n), addr, day0.Add(oneDay))
	}
	if n := all.TrustedAt(ip("192.0.2.1")); n != 2*trustedPerPlace || all.Len() > 80 {
		t.Errorf("%d trusted after others came, of %d", n, all.Len())
	}
}

// TestTrustedMayBeEstablished: a place that is free is taken on the next day, and other nodes hear of both.
func TestTrustedMayBeEstablished(t *testing.T) {
	all, other, s, home := table(nil), table(nil), sub(identity.KindI, 1), ip("192.0.2.1")
	all.tell = func(s identity.Subject, record []byte) {
		if !other.Merge(s, record) {
			t.Error("a record can't be read")
		}
	}
	all.Trust(s, home, day0, day0.Add(oneDay), true)
	if !other.Counts(s, day0.Add(oneDay)) || other.Established(s) || other.TrustedAt(home) != 1 {
		t.Error("the other node does not trust it")
	}
	all.Observe(s, home, day0.Add(2*oneDay))
	for _, x := range []*Table{all, other} {
		if !x.Established(s) || x.TrustedAt(home) != 0 || x.EstablishedAt(home) != 1 {
			t.Errorf("established %v; %d trusted, %d established", x.Established(s), x.TrustedAt(home), x.EstablishedAt(home))
		}
	}
}

// TestNetworksHaveStanding: a network knows how many its addresses have established, and forgets with them.
func TestNetworksHaveStanding(t *testing.T) {
	all := table(nil)
	for n, addr := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.9", "2001:db8:1:2::1", "2001:db8:1:103::1", "2001:db8:2::1"} {
		all.Observe(sub(identity.KindI, n+1), ip(addr), day0)
		all.Observe(sub(identity.KindI, n+1), ip(addr), day0.Add(oneDay))
	}
	f := func(net string, want int) {
		t.Helper()
		if got := all.EstablishedIn(netip.MustParsePrefix(net)); got != want {
			t.Errorf("%s: %d established, want %d", net, got, want)
		}
	}
	f("192.0.2.1/32", 2)
	f("192.0.2.0/24", 3)
	f("192.0.3.0/24", 0)
	f("2001:db8:1:2::/64", 1)
	f("2001:db8:1::/56", 1)
	f("2001:db8:1::/48", 2)
	f("2001:db8::/32", 3)
	all.Forget(sub(identity.KindI, 3))
	all.Forget(sub(identity.KindI, 6))
	f("192.0.2.0/24", 2)
	f("2001:db8::/32", 2)
	if got := all.EstablishedIn(netip.Prefix{}); got != 0 {
		t.Errorf("no network has %d", got)
	}
}

// TestYoungStandingSurvivesARestart: a record restores the standing that it was made from.
func TestYoungStandingSurvivesARestart(t *testing.T) {
	for _, e := range []tenure{
		{since: 100, last: 100},
		{since: 100, last: 103},
		{since: 100, first: 101, last: 101},
		{since: 100, first: 100, last: 100},
		{since: 100, first: 140, last: 141},
		{since: 100, first: 100, last: 101, established: true},
		{since: 100, first: 100, last: 101, trusted: true},
	} {
		first, says := e.record()
		if got := tenureOf(first, e.last, says); got != e {
			t.Errorf("%+v became %+v", e, got)
		}
	}
}
