//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package processor

import (
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
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
	if n := p.sessions.live.Load(); n > 6400 {
		t.Errorf("%d sessions, at most 6400", n)
	}
	if p.sessions.evicted.Load() == 0 {
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
	if n := p.sessions.live.Load(); n != 0 {
		t.Errorf("%d sessions a day later", n)
	}
}

// TestWhoIsBareIsNotAlwaysARobot: kinds of newcomers of whom many load nothing, or who come in crowds.
func TestWhoIsBareIsNotAlwaysARobot(t *testing.T) {
	f := func(name string, s *street, come func(s *street, i int)) {
		t.Helper()
		for i := range 300 {
			come(s, i)
			if share := s.asks(7); share != 0 {
				t.Errorf("%s: after %d, %v are asked", name, i+1, share)
				return
			}
		}
	}
	own := func(s *street, i int) *verdict.Event { return s.comes(7, 1000+i, 5*time.Second) }
	f("a link in the news", newStreet(t, true, 9), func(s *street, i int) {
		e := s.comes(7, 1000, 100*time.Millisecond)
		if i%4 > 0 {
			s.loads(e)
		}
	})
	f("what looks at the links of a mailing", newStreet(t, true, 9), func(s *street, i int) {
		s.loads(s.comes(101+i%9, 1000, time.Second))
		s.comes(7, 1000, time.Second)
	})
	f("three in ten load the page", newStreet(t, true, 9), func(s *street, i int) {
		if e := own(s, i); i%10 < 3 {
			s.loads(e)
		}
	})
	f("who loads nothing, and goes on", newStreet(t, true, 9), func(s *street, i int) {
		if e := own(s, i); i%2 == 0 {
			s.follows(e)
		}
	})
	f("one network", newStreet(t, true, 9), func(s *street, i int) {
		s.n = 5000
		own(s, i)
	})
	f("a site whose parts are elsewhere", newStreet(t, false, 9), func(s *street, i int) { own(s, i) })
	f("a site whose newcomers load nothing", newStreet(t, true, 0), func(s *street, i int) { own(s, i) })
}

// TestNobodyHasPeopleAsked: a hundred networks that send 300,000 times within an hour what newcomers of the site send have none of those asked.
func TestNobodyHasPeopleAsked(t *testing.T) {
	s := newStreet(t, true, 9)
	requests := 300_000
	if testing.Short() {
		requests = 20_000
	}
	for i := range requests {
		s.n = 5000 + i%100
		e := newcomer7(s.at, s.n)
		e.Agent, e.Shape, e.Path = uint64(i), 101, uint64(hash32(1000+i))
		e.Answered(200, []byte("text/html"), 1000, 0)
		s.at = s.at.Add(12 * time.Millisecond)
		s.p.Process(e)
		e.Agent = 101
		s.p.Process(e)
		if share := s.asks(101); share != 0 {
			t.Fatalf("after %d, %v of people are asked", i, share)
		}
	}
}
