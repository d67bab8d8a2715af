package reputation

import (
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/store"
)

const oneDay = 24 * time.Hour

var day0 = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func table(most int) *Table {
	now := func() time.Time { return day0 }
	return NewTable(Options{Store: store.NewMemory(now), Now: now, Keep: 30 * oneDay, Most: most})
}

func sub(kind identity.Kind, n int) identity.Subject {
	return identity.Subject{Kind: kind, ID: [16]byte{0: 7, 14: byte(n >> 8), 15: byte(n)}}
}

func ip(s string) [16]byte { return identity.AddrSubject(netip.MustParseAddr(s)).ID }

// far is the nth of many addresses.
func far(n int) [16]byte {
	a := ip("2001:db8::")
	a[6], a[7] = byte(n>>8), byte(n)
	return a
}

// TestCookieFarmer: at one address 32 subjects become Known, however many cookies it keeps.
func TestCookieFarmer(t *testing.T) {
	all, home := table(1e6), ip("192.0.2.1")
	for day := range 5 {
		for n := range 1000 {
			all.Observe(sub(identity.KindI, n), home, day0.Add(time.Duration(day)*oneDay), false)
		}
	}
	known := 0
	for n := range 1000 {
		if all.Grade(sub(identity.KindI, n), day0.Add(5*oneDay)) == Known {
			known++
		}
	}
	if known != 32 || all.KnownAt(home) != 32 || all.Len() > 32*9 {
		t.Errorf("%d known, %d counted, %d kept", known, all.KnownAt(home), all.Len())
	}
}

// TestPitfall12ReputationIsBounded: visitors from many addresses don't evict Known ones.
func TestPitfall12ReputationIsBounded(t *testing.T) {
	all, known := table(640), sub(identity.KindFuid, 1)
	all.Observe(known, ip("192.0.2.1"), day0, false)
	all.Observe(known, ip("192.0.2.1"), day0.Add(oneDay), false)
	for n := range 5000 {
		s := sub(identity.KindI, n)
		s.ID[13] = 1
		all.Observe(s, far(n), day0.Add(oneDay), false)
	}
	if all.Len() > 640 || all.Refused() == 0 || all.Grade(known, day0.Add(oneDay)) != Known {
		t.Errorf("%d subjects, %d refused, the known one is %d", all.Len(), all.Refused(), all.Grade(known, day0.Add(oneDay)))
	}
	if all.Sweep(day0.Add(40 * oneDay)); all.Len() != 0 || all.KnownAt(ip("192.0.2.1")) != 0 {
		t.Errorf("%d subjects a month later", all.Len())
	}
}

// TestReturning: who was seen on an earlier day returns, with a young cookie too, unless a crowd waits at the address, or
// most of its visitors turned out to be robots; those don't become Known on the next day either, until that is forgotten.
func TestReturning(t *testing.T) {
	home, next := ip("192.0.2.1"), day0.Add(oneDay)
	f := func(name string, visitors int, young bool, want Grade, do func(all *Table)) {
		t.Helper()
		all, last := table(1e6), sub(identity.KindI, visitors-1)
		for n := range visitors {
			all.Observe(sub(identity.KindI, n), home, day0, young)
		}
		if got := all.Grade(last, day0.Add(time.Hour)); got != New {
			t.Errorf("%s: grade %d on the first day", name, got)
		}
		if do != nil {
			do(all)
		}
		if got := all.Grade(last, next); got != want {
			t.Errorf("%s: grade %d", name, got)
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
	f("a few", 30, false, Returning, nil)
	f("with young cookies", 30, true, Returning, nil)
	f("a crowd", 33, false, New, nil)
	f("a third is banned", 30, false, Returning, ban(10))
	f("half of them", 30, false, Returning, ban(15))
	f("most of them", 30, false, New, ban(25))
	f("bans make no room for the rest of a crowd", 50, false, New, ban(20))
	f("most are erased by the operator", 30, false, Returning, func(all *Table) {
		for n := range 25 {
			all.Forget(sub(identity.KindI, n))
		}
	})

	all := table(1e6)
	for n := range 30 {
		all.Observe(sub(identity.KindI, n), home, day0, false)
	}
	ban(25)(all)
	s := sub(identity.KindI, 29)
	if all.Observe(s, home, next, false); all.Grade(s, next) != New {
		t.Error("a visitor becomes Known among robots")
	}
	if all.Observe(s, home, day0.Add(5*oneDay), false); all.Grade(s, day0.Add(5*oneDay)) != Known {
		t.Error("no visitor becomes Known days later")
	}
}

// TestOthersHear: other nodes learn of grades, from records and from the store, after a restart too.
func TestOthersHear(t *testing.T) {
	all, other, s, home := table(1e6), table(1e6), sub(identity.KindI, 1), ip("192.0.2.1")
	all.Publish = func(record []byte) {
		if !other.Merge(record) || other.Merge(record[:len(record)-1]) {
			t.Error("a record can't be read, or a part of one can")
		}
	}
	young := sub(identity.KindFuid, 2)
	all.Observe(young, home, day0, true)
	all.Observe(s, home, day0, false)
	if next := day0.Add(oneDay); other.Grade(s, next) != Returning || other.Grade(young, next) != Returning {
		t.Error("the other node does not know who returns")
	}
	all.Observe(s, home, day0.Add(oneDay), false)
	if err := all.Writes().Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	later := table(1e6)
	later.Store = all.Store
	if err := later.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Table{all, other, later} {
		if x.Grade(s, day0) != Known || x.KnownAt(home) != 1 || x.Len() != 2 || x.Grade(young, day0.Add(oneDay)) != Returning {
			t.Errorf("grade %d, %d known, %d subjects", x.Grade(s, day0), x.KnownAt(home), x.Len())
		}
	}
}

// TestNetworksAreCounted: a network knows how many its addresses have, and forgets with them.
func TestNetworksAreCounted(t *testing.T) {
	all := table(1e6)
	for n, addr := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.9", "2001:db8:1:2::1", "2001:db8:1:103::1", "2001:db8:2::1"} {
		all.Observe(sub(identity.KindI, n+1), ip(addr), day0, false)
		all.Observe(sub(identity.KindI, n+1), ip(addr), day0.Add(oneDay), false)
	}
	f := func(net string, want int) {
		t.Helper()
		if got := all.KnownIn(netip.MustParsePrefix(net)); got != want {
			t.Errorf("%s: %d known, want %d", net, got, want)
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
	if got := all.KnownIn(netip.Prefix{}); got != 0 {
		t.Errorf("no network has %d", got)
	}
}
