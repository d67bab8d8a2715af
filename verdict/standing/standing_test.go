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
	} {
		first, says := e.record()
		if got := tenureOf(first, e.last, says); got != e {
			t.Errorf("%+v became %+v", e, got)
		}
	}
}
