//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package processor

import (
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
)

// TestPitfall12SessionsAreBounded: a flood of addresses evicts others to make room, which is counted, and does not free
// a scraper that carries on.
func TestPitfall12SessionsAreBounded(t *testing.T) {
	p, b := newProcessor(t, func(c *Config) { c.MaxSessions = 6400 })
	at := time.Unix(1e9, 0)
	me := identity.AddrSubject(netip.AddrFrom4([4]byte{10, 255, 255, 1}))
	for i := range 200_000 {
		p.Process(event(at, i))
		if i%500 == 0 { // forty pages a second
			p.Process(event(at, 0xffff01))
		}
		if i%20 == 0 {
			at = at.Add(time.Millisecond)
		}
	}
	if n := p.sessions.Len(); n > 6400 {
		t.Errorf("%d sessions, at most 6400", n)
	}
	if p.sessions.Evicted() == 0 {
		t.Error("nothing was counted")
	}
	found := false
	for _, ban := range b.bans {
		found = found || ban.Subject == me
	}
	if !found {
		t.Error("the flood hid the scraper")
	}
	p.Sweep(at.Add(50 * time.Hour))
	if n := p.sessions.Len(); n != 0 {
		t.Errorf("%d sessions a day later", n)
	}
}
