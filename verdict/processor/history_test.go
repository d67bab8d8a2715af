package processor

import (
	"errors"
	"math"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/counter"
)

// TestHistoryRounds: a byte holds a number to within five percent, and distinguishes unknown from zero.
func TestHistoryRounds(t *testing.T) {
	var h history
	if v := h.value(0); v == v {
		t.Errorf("unknown is %v", v)
	}
	for _, n := range []uint64{0, 1, 2, 3, 10, 100, 12345, 1e6, 2e9, math.MaxInt64} {
		h.set(0, n)
		got := float64(h.value(0))
		if want := float64(min(n, 3e9)); got < want*0.95-0.5 || n <= 2e9 && got > want*1.05+0.5 {
			t.Errorf("%d is told as %v", n, got)
		}
	}
}

// TestHistorySurvivesTheSession: what the store's counters know of a subject is a factor of its next session, even in
// another process.
func TestHistorySurvivesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := counter.DefaultConfig()
		cfg.FlushEvery = 10 * time.Minute // three days are many flushes of nothing
		counts, err := counter.New(cfg, counter.Deps{Store: store.NewMemoryCounters(), Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		if err := counts.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = counts.Close() }()
		factor := map[string]float32{}
		start := func() *gateway {
			g := newGatewayWith(t, nil, func(p *Processor) {
				p.counters = counts
				p.observer = func(_ identity.Subject, _ uint16, _ time.Time, x []float32, _ float32) {
					for i, name := range FactorNames() {
						factor[name] = x[i]
					}
				}
			})
			return g
		}
		visit := func(g *gateway, n int) {
			for range n {
				g.send(visitor{addr: "192.0.2.1"}, nil)
				synctest.Wait()
				time.Sleep(20 * time.Second)
			}
		}
		g := start()
		visit(g, 20)
		g.end()
		time.Sleep(3 * 24 * time.Hour)
		g = start()
		defer g.end()
		clear(factor)
		visit(g, 4)
		if n := factor["pages_before_14d"]; n < 19 || n > 23 {
			t.Errorf("pages_before_14d %v, want about 20", n)
		}
		if n := factor["network_pages_14d"]; n < 19 || n > 23 {
			t.Errorf("network_pages_14d %v, want about 20", n)
		}
		if n := factor["pages_before_1d"]; !(n <= 4) {
			t.Errorf("pages_before_1d %v, want those of today alone", n)
		}
	})
}

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
