package processor

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict/tally"
)

// TestFloodForgetsItself: addresses that come once, many times as many as there is room for, leave what is known of those who came back,
// though these are away meanwhile.
func TestFloodForgetsItself(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine does it all")
	}
	const room, people = 4096, 100
	p, _ := newAsker(t, func(c *Config) { c.MaxSessions, c.MaxGroups, c.Budget.MaxNetworks, c.Patience = room, room, room, 0 })
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
		if keeps(p.voices, identity.HouseholdOf(sub.ID, voiceGroup)) {
			left["voices"]++
		}
	}
	for _, of := range []string{"sessions", "budgets", "voices"} {
		if left[of] < people-people/20 { // by chance many may fall upon one shard
			t.Errorf("%d %s of %d are left", left[of], of, people)
		}
	}
	if n, most := p.sessions.live.Load(), int64(room); n > most || p.budgets.live.Load() > most || p.sessions.evicted.Load() < 15*room {
		t.Errorf("%d sessions, %d budgets, %d sessions evicted", n, p.budgets.live.Load(), p.sessions.evicted.Load())
	}
}

func keeps[K comparable, R any](t *table[K, R], k K) bool {
	sh, h := t.lock(k)
	defer sh.mu.Unlock()
	return sh.find(h, k) != nil
}

// TestTableEvictsAFlood: what is touched again and again, but only in the second in which it came, goes before what came back once.
func TestTableEvictsAFlood(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine does it all")
	}
	var clock atomic.Uint32
	const room, few = 64 * 100, 500
	tab := newTable[uint64, uint64](room, func(k uint64) uint64 { return tally.Fold(k+1, 0x9e3779b97f4a7c15) }).by(&clock)
	touch := func(k uint64) {
		sh, h := tab.lock(k)
		_, _ = tab.open(sh, h, k)
		sh.mu.Unlock()
	}
	for range 2 {
		for k := range uint64(few) {
			touch(k)
		}
		clock.Add(1)
	}
	for k := range uint64(20 * room) {
		for range 3 {
			touch(1000 + k)
		}
		if k%5000 == 0 {
			clock.Add(1)
		}
	}
	left := 0
	for k := range uint64(few) {
		if keeps(tab, k) {
			left++
		}
	}
	if left < few*95/100 {
		t.Errorf("%d of %d that came back are left", left, few)
	}
}

// TestTableTakesTurns: where every record was used again, those are evicted that were not of late, and a shard full of records in use has
// room for new ones.
func TestTableTakesTurns(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine does it all")
	}
	var clock atomic.Uint32
	const room = 64 * 100
	tab := newTable[uint64, uint64](room, func(k uint64) uint64 { return tally.Fold(k+1, 0x9e3779b97f4a7c15) }).by(&clock)
	touch := func(k uint64) {
		sh, h := tab.lock(k)
		_, _ = tab.open(sh, h, k)
		sh.mu.Unlock()
	}
	const few = 100
	for k := range uint64(20 * room) { // each twice, the few all the time
		touch(1000 + k)
		clock.Add(1)
		touch(1000 + k)
		if k%10 == 0 {
			touch(k / 10 % few)
		}
	}
	left := 0
	for k := range uint64(few) {
		if keeps(tab, k) {
			left++
		}
	}
	if newest := uint64(1000 + 20*room - 1); left < few*9/10 || !keeps(tab, newest) || tab.live.Load() > room {
		t.Errorf("%d of %d that were used all the time are left; the newest %v, %d in all", left, few, keeps(tab, newest), tab.live.Load())
	}
}
