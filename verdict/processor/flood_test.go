package processor

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
)

// TestFloodForgetsItself: a flood of addresses that come once, twenty times as many as fit, evicts nothing of visitors that have
// come back, although these are away, and does not hide a scraper that carries on.
func TestFloodForgetsItself(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine does it all")
	}
	const room, people = 4096, 100
	p, b := newProcessor(t, func(c *Config) { c.MaxSessions = room })
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
		if n%250 == 0 { // forty pages a second
			page(person(people))
		}
		at = at.Add(100 * time.Microsecond)
	}
	if len(b.bans) == 0 || b.bans[0].Subject != identity.AddrSubject(person(people)) {
		t.Errorf("the flood hides the scraper: %+v", b.bans)
	}
	left := map[string]int{}
	for n := range people {
		sub := identity.AddrSubject(person(n))
		if keeps(p.sessions, sub) {
			left["sessions"]++
		}
	}
	for _, of := range []string{"sessions"} {
		if left[of] < people-people/20 { // by chance many may fall upon one shard
			t.Errorf("%d %s of %d are left", left[of], of, people)
		}
	}
	if p.sessions.Len() > room || p.quota.Len() > room || p.sessions.Evicted() < 15*room {
		t.Errorf("%d sessions, %d readers, %d sessions evicted", p.sessions.Len(), p.quota.Len(), p.sessions.Evicted())
	}
	if p.Sweep(at.Add(50 * time.Hour)); p.sessions.Len() > 0 {
		t.Errorf("%d sessions two days later", p.sessions.Len())
	}
}

func keeps[K comparable, R any](t *bounded.Table[K, R], k K) bool {
	sh, h := t.Lock(k)
	defer sh.Unlock()
	return sh.Find(h, k) != nil
}
