package processor

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
)

// TestFloodForgetsItself: addresses that come once, many times as many as there is room for, leave what is known of those who came back,
// though these are away meanwhile.
func TestFloodForgetsItself(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine does it all")
	}
	const room, people = 4096, 100
	p, _ := newAsker(t, func(c *Config) { c.MaxSessions, c.Budget.MaxNetworks = room, room })
	at := time.Unix(1.8e9, 0)
	visit := 0
	page := func(a netip.Addr) {
		visit++
		p.Process(reading(at, visit, a.As16()))
	}
	person := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(n), 7}) }
	for range 4 {
		for n := range people {
			page(person(n))
		}
		at = at.Add(5 * time.Second)
	}
	var a [16]byte
	for n := range 20 * room {
		binary.BigEndian.PutUint32(a[:], 0x2a000000+uint32(n)*0x10001)
		page(netip.AddrFrom16(a))
		at = at.Add(100 * time.Microsecond)
	}
	left := map[string]int{}
	for n := range people {
		sub := identity.AddrSubject(person(n))
		if keeps(p.sessions, sub) {
			left["sessions"]++
		}
		if keeps(p.budgets, identity.HouseholdOf(sub.ID, p.service(0).Group)) {
			left["budgets"]++
		}
	}
	for _, of := range []string{"sessions", "budgets"} {
		if left[of] < people-people/20 { // by chance many may fall upon one shard
			t.Errorf("%d %s of %d are left", left[of], of, people)
		}
	}
	if n, most := p.sessions.Len(), room; n > most || p.budgets.Len() > most || p.sessions.Evicted() < 15*room {
		t.Errorf("%d sessions, %d budgets, %d sessions evicted", n, p.budgets.Len(), p.sessions.Evicted())
	}
}

func keeps[K comparable, R any](t *bounded.Table[K, R], k K) bool {
	sh, h := t.Lock(k)
	defer sh.Unlock()
	return sh.Find(h, k) != nil
}
