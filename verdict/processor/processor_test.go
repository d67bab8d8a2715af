package processor

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
)

// TestScraperIsBanned: fifty pages a second are stopped within two seconds, with and without a cookie, and from an IPv6
// /64 whose address changes with each request.
func TestScraperIsBanned(t *testing.T) {
	for _, cl := range []visitor{
		{addr: "192.0.2.1", agent: firefoxAgent},
		{addr: "192.0.2.1"},
		{addr: "192.0.2.1", subs: []identity.Subject{cookie(1)}, agent: firefoxAgent},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway(t, nil)
			defer g.end()
			took, banned := g.until(cl, 20*time.Millisecond, 10*time.Second, nil)
			if !banned || took > 2*time.Second {
				t.Errorf("%+v: banned %v after %v", cl, banned, took)
			}
			if took < time.Second {
				t.Errorf("%+v: banned after %v already", cl, took)
			}
			if g.send(visitor{addr: "192.0.2.2"}, nil) != verdict.Human {
				t.Error("the neighbour is stopped: networks are never banned")
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		n := 0
		for g.send(visitor{addr: fmt.Sprintf("2001:db8::%x", n)}, nil) == verdict.Human && n < 200 {
			synctest.Wait()
			time.Sleep(20 * time.Millisecond)
			n++
		}
		if n > 100 {
			t.Errorf("%d requests from one /64", n)
		}
	})
}

// TestRotatingAgents: forged User-Agents raise the limits of an address eightfold, and no further.
func TestRotatingAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(c *verdict.ServiceConfig) { c.Limits = ownLimits })
		defer g.end()
		n := 0
		for ; n < 5000; n++ {
			if g.send(visitor{addr: "192.0.2.1", agent: fmt.Sprintf("Mozilla/5.0 Firefox/%d.0", n)}, nil) != verdict.Human {
				break
			}
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		if n > 8*80+10 {
			t.Errorf("%d pages before the ban", n)
		}
	})
}

// TestCookieFarm: many cookies, each slow, from one address: the crowd is too fast, and the address is banned.
func TestCookieFarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(c *verdict.ServiceConfig) { c.Limits = ownLimits })
		defer g.end()
		n, stopped := 0, 0
		for ; n < 3000; n++ {
			if g.send(visitor{addr: "192.0.2.1", subs: []identity.Subject{cookie(n % 500)}}, nil) != verdict.Human {
				stopped++
			}
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		if stopped < n/2 {
			t.Errorf("%d of %d stopped", stopped, n)
		}
	})
}

// TestBansGrow: a client that keeps hammering stays banned, each time for longer, and starts over once it is forgotten.
func TestBansGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		cl := visitor{addr: "192.0.2.1"}
		addr := identity.AddrSubject(netip.MustParseAddr(cl.addr))
		length := func() time.Duration {
			var longest time.Duration
			for _, b := range g.c.Bans(verdict.BanFilter{Subject: addr}) {
				longest = max(longest, b.Until.Sub(b.Made).Round(time.Minute))
			}
			return longest
		}
		var got []time.Duration
		for range 4 {
			g.until(cl, 20*time.Millisecond, 10*time.Second, nil)
			got = append(got, length())
			time.Sleep(length() + time.Minute)
		}
		want := []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("bans of %v, want %v", got, want)
			}
		}
		time.Sleep(25 * time.Hour)
		g.until(cl, 20*time.Millisecond, 10*time.Second, nil)
		if d := length(); d != 10*time.Minute {
			t.Errorf("after a day without a ban: %v", d)
		}
		passed := 0
		for range lasting(60 * 60 * 50) { // an hour of hammering
			if g.send(cl, nil) == verdict.Human {
				passed++
			}
			synctest.Wait()
			time.Sleep(20 * time.Millisecond)
		}
		if passed > 0 {
			t.Errorf("%d requests passed while hammering", passed)
		}
	})
}

// TestObserveDoesNotEscalate: in mode observe clients don't notice, so the bans don't grow.
func TestObserveDoesNotEscalate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(c *verdict.ServiceConfig) { c.Mode = "observe" })
		defer g.end()
		for range lasting(60 * 60 * 20) {
			g.send(visitor{addr: "192.0.2.1"}, nil)
			synctest.Wait()
			time.Sleep(50 * time.Millisecond)
		}
		b := g.c.Bans(verdict.BanFilter{})
		for _, ban := range b {
			if ban.Until.Sub(ban.Made) > 30*time.Minute {
				t.Errorf("%+v", ban)
			}
		}
		if len(b) == 0 {
			t.Error("nobody is banned")
		}
	})
}

// TestSyncJudge: with verdict.sync a client over a limit is stopped although no ban can be made.
func TestSyncJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(c *verdict.ServiceConfig) { c.Sync = true })
		defer g.end()
		cl := visitor{addr: "192.0.2.1"}
		g.until(cl, 20*time.Millisecond, 10*time.Second, nil)
		synctest.Wait()
		if _, err := g.c.Unban(t.Context(), identity.AddrSubject(netip.MustParseAddr(cl.addr)), "*"); err != nil {
			t.Fatal(err)
		}
		if v := g.send(cl, nil); v != verdict.Robot {
			t.Errorf("over the limit: %v", v)
		}
		time.Sleep(time.Hour)
		if v := g.send(cl, nil); v != verdict.Human {
			t.Errorf("an hour later: %v", v)
		}
	})
}
