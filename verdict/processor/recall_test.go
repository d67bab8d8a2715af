package processor

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// TestLostBanIsFound: a ban that memory had no room for is enforced again from the subject's next event on.
func TestLostBanIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatewayWith(t, func(c *verdict.Config) { c.MaxBans = 1 }, nil)
		defer g.end()
		ban := func(addr string, d time.Duration) identity.Subject {
			sub := identity.AddrSubject(netip.MustParseAddr(addr))
			err := g.c.Ban(t.Context(), bans.Ban{Subject: sub, Until: time.Now().Add(d), Source: bans.SourceProcessor, Score: 1})
			if err != nil && !errors.Is(err, bans.ErrFull) {
				t.Fatal(err)
			}
			return sub
		}
		const lost = "192.0.2.1"
		ban(lost, time.Hour)
		synctest.Wait()
		// A flood of longer bans evicts it, and is lifted.
		for n := range 2000 {
			sub := ban(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}).String(), 2*time.Hour)
			if len(g.c.Bans(verdict.BanFilter{Subject: identity.AddrSubject(netip.MustParseAddr(lost))})) == 0 {
				if _, err := g.c.Unban(t.Context(), sub, "*"); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		if g.send(visitor{addr: lost}, nil) != verdict.Human {
			t.Fatal("the ban was not pushed out")
		}
		synctest.Wait()
		if g.send(visitor{addr: lost}, nil) != verdict.Robot {
			t.Error("the ban was not found again")
		}
	})
}
