package processor

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/formula"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type noLists struct{}

func (noLists) Lookup(m *cbb.Match, v *request.View, _ *identity.Identity, _ string) {
	*m = cbb.Match{Liar: string(v.Get("User-Agent")) == liar}
}

// gateway is both halves and nothing else: each request is decided, answered at once, and offered.
type gateway struct {
	t   testing.TB
	c   *verdict.Cacher
	p   *Processor
	s   *verdict.Settings
	set *metrics.Set
}

// newGateway starts both halves; the test ends them with end.
func newGateway(t testing.TB, edit func(*verdict.ServiceConfig)) *gateway {
	t.Helper()
	return startGateway(t, edit, nil, nil)
}

// newGatewayWith is newGateway with other bounds of the fast half, and with another processor.
func newGatewayWith(t testing.TB, bounds func(*verdict.Config), before func(*Processor)) *gateway {
	t.Helper()
	return startGateway(t, nil, bounds, before)
}

func startGateway(t testing.TB, edit func(*verdict.ServiceConfig), bounds func(*verdict.Config), before func(*Processor)) *gateway {
	t.Helper()
	g := &gateway{t: t, set: metrics.NewSet()}
	cfg := verdict.DefaultConfig()
	cfg.Decisions = verdict.RecentConfig{Stopped: 16, Human: 16}
	if bounds != nil {
		bounds(&cfg)
	}
	var err error
	g.c, err = verdict.New(cfg, verdict.Deps{
		Store: store.NewMemory(nil), Lists: noLists{}, Log: zerolog.Nop(), Metrics: g.set,
	})
	if err != nil {
		t.Fatal(err)
	}
	own := DefaultConfig()
	own.Patience = 0 // but where a test says otherwise
	if g.p, err = New(own, Deps{Keeper: g.c, Log: zerolog.Nop(), Metrics: g.set}); err != nil {
		t.Fatal(err)
	}
	g.p.formula = live(t, defaultFormula(t), g.set)
	if before != nil {
		before(g.p)
	}
	sc := verdict.DefaultServiceConfig()
	if edit != nil {
		edit(&sc)
	}
	if g.s, err = sc.Settings("shop", 3); err != nil {
		t.Fatal(err)
	}
	know(t, g.p, []*verdict.Settings{g.s})
	g.s.Scorer = g.p
	if err := g.c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gateway) end() {
	g.t.Helper()
	if err := g.p.Close(); err != nil {
		g.t.Error(err)
	}
	if err := g.c.Close(); err != nil {
		g.t.Error(err)
	}
}

// defaultFormula is the score card that comes with the program.
func defaultFormula(t testing.TB) *formula.Model {
	t.Helper()
	data, ok := formula.Builtin("default")
	if !ok {
		t.Fatal("there is no default formula")
	}
	m, err := formula.Load(data, FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// client is who sends requests.
type visitor struct {
	addr  string
	subs  []identity.Subject
	agent string
}

func (g *gateway) send(cl visitor, edit func(*verdict.Event)) verdict.Verdict {
	g.t.Helper()
	a := netip.MustParseAddr(cl.addr)
	v := &request.View{At: time.Now(), Method: []byte("GET"), Path: []byte("/x")}
	if cl.agent != "" {
		v.Fields = []request.Field{{Name: []byte("User-Agent"), Value: []byte(cl.agent)}}
	}
	id := &identity.Identity{Addr: a, Net: identity.NetOf(a)}
	for _, s := range append(append([]identity.Subject(nil), cl.subs...), identity.AddrSubject(a)) {
		id.Subjects[id.N] = s
		id.N++
	}
	var d verdict.Decision
	g.c.Decide(&d, v, id, g.s)
	if !d.Judged() {
		return d.Verdict
	}
	var e verdict.Event
	d.Event(&e, v, id, g.s)
	e.Status = 200
	if edit != nil {
		edit(&e)
	}
	g.p.Offer(&e)
	return d.Verdict
}

func cookie(n int) identity.Subject {
	s := identity.Subject{Kind: identity.KindI}
	s.ID[0], s.ID[1], s.ID[15] = byte(n), byte(n>>8), 1
	return s
}

func static(e *verdict.Event) { e.Static = true }

// until sends a request every pause until one is not Human, and returns how long that took; false after most.
func (g *gateway) until(cl visitor, pause, most time.Duration, edit func(*verdict.Event)) (time.Duration, bool) {
	from := time.Now()
	for time.Since(from) < most {
		if g.send(cl, edit) != verdict.Human {
			return time.Since(from), true
		}
		synctest.Wait()
		time.Sleep(pause)
	}
	return 0, false
}

// TestScraperIsBanned: fifty pages a second are stopped within two seconds, with and without a cookie, and from an IPv6
// /64 that changes its address with each request.
func TestScraperIsBanned(t *testing.T) {
	for _, cl := range []visitor{
		{addr: "192.0.2.1", agent: "curl/8"},
		{addr: "192.0.2.1"},
		{addr: "192.0.2.1", subs: []identity.Subject{cookie(1)}, agent: "curl/8"},
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

// TestRotatingAgents: forged User-Agents raise the limits of an address eight times, no further.
func TestRotatingAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		n := 0
		for ; n < 5000; n++ {
			if g.send(visitor{addr: "192.0.2.1", agent: fmt.Sprint("Mozilla/", n)}, nil) != verdict.Human {
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

// TestCookieFarm: many cookies, each slow, from one address: the crowd is too fast, and its address is banned.
func TestCookieFarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
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

// TestStaticIsNotPace: sub-resources don't count, unless they turn out to be documents.
func TestStaticIsNotPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		if took, banned := g.until(visitor{addr: "192.0.2.1"}, 5*time.Millisecond, 5*time.Second, static); banned {
			t.Errorf("pictures are banned after %v", took)
		}
		_, banned := g.until(visitor{addr: "192.0.2.2"}, 20*time.Millisecond, 5*time.Second, func(e *verdict.Event) {
			e.Static = true
			e.Answered(200, []byte("text/html"), 1000, 0)
		})
		if !banned {
			t.Error("a scraper that calls its pages pictures is not banned")
		}
	})
}

// TestPersonIsNeverBanned: think time, sixty sub-resources a page, a burst of opened tabs now and then, for two hours.
func TestPersonIsNeverBanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		rnd := rand.New(rand.NewPCG(1, 2))
		cl := visitor{addr: "192.0.2.1", agent: "Mozilla/5.0 Firefox"}
		from := time.Now()
		for n := 1; time.Since(from) < 2*time.Hour; n++ {
			if n == 30 {
				cl.subs = []identity.Subject{cookie(1)} // the cookie comes of age
			}
			tabs := 1
			if n%50 == 0 {
				tabs = 30
			}
			for range tabs {
				if g.send(cl, nil) != verdict.Human {
					t.Fatalf("stopped after %v", time.Since(from))
				}
				for range 60 {
					if g.send(cl, static) != verdict.Human {
						t.Fatalf("stopped after %v", time.Since(from))
					}
				}
				synctest.Wait()
			}
			time.Sleep(time.Second + time.Duration(rnd.ExpFloat64()*float64(8*time.Second)))
		}
	})
}

// TestPitfall22OfficeIsNotBanned: two hundred people behind one address, on the third day; then one of them runs a robot
// with its cookie, and another without one.
func TestPitfall22OfficeIsNotBanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		const people, addr = 200, "203.0.113.9"
		person := func(n int) visitor {
			return visitor{addr: addr, subs: []identity.Subject{cookie(n)}, agent: fmt.Sprint("Mozilla/5.0 ", n%20)}
		}
		for range 2 {
			for n := range people {
				g.send(person(n), nil)
				time.Sleep(time.Second)
			}
			time.Sleep(24 * time.Hour)
		}
		rnd := rand.New(rand.NewPCG(3, 4))
		work := func(d time.Duration, busy func(step int)) (stopped map[int]bool) {
			stopped = map[int]bool{}
			from := time.Now()
			for step := 0; time.Since(from) < d; step++ {
				// Each opens a page every ten seconds: twenty pages a second behind the address.
				n := 1 + rnd.IntN(people-1)
				if g.send(person(n), nil) != verdict.Human {
					stopped[n] = true
				}
				if busy != nil {
					busy(step)
				}
				synctest.Wait()
				time.Sleep(time.Duration(rnd.ExpFloat64() * float64(50*time.Millisecond)))
			}
			return stopped
		}
		if s := work(30*time.Minute, nil); len(s) > 0 {
			t.Errorf("%d colleagues stopped in ordinary work", len(s))
		}
		robot := verdict.Human
		s := work(10*time.Minute, func(int) { robot = g.send(person(0), nil); g.send(person(0), nil) })
		if robot != verdict.Robot {
			t.Error("the robot with a cookie is not banned")
		}
		if len(s) > 0 {
			t.Errorf("%d colleagues stopped for a robot with its own cookie", len(s))
		}
		// Without a cookie the address itself is banned; who is established goes on.
		for range 6000 {
			g.send(visitor{addr: addr, agent: "curl/8"}, nil)
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		if g.send(visitor{addr: addr, agent: "curl/8"}, nil) != verdict.Robot {
			t.Error("the robot without a cookie is not banned")
		}
		if s := work(time.Minute, nil); len(s) > people-1-30 {
			t.Errorf("%d of %d colleagues stopped; those who are established go on", len(s), people)
		}
		login := visitor{addr: addr, subs: []identity.Subject{{Kind: identity.KindL, ID: [16]byte{7}}}}
		if g.send(login, nil) != verdict.Human {
			t.Error("a colleague who is logged in is stopped")
		}
	})
}

// TestPitfall22RobotIsBannedAlone: in an office that nobody is established in yet, a robot that goes on with its banned
// cookie does not take the address down with it.
func TestPitfall22RobotIsBannedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		stopped := 0
		for n := range 6000 {
			g.send(visitor{addr: "203.0.113.9", subs: []identity.Subject{cookie(0)}}, nil)
			if n%50 == 0 && g.send(visitor{addr: "203.0.113.9", subs: []identity.Subject{cookie(1 + n/50%20)}}, nil) != verdict.Human {
				stopped++
			}
			synctest.Wait()
			time.Sleep(5 * time.Millisecond)
		}
		if stopped > 0 {
			t.Errorf("%d requests of colleagues stopped", stopped)
		}
	})
}

// TestPitfall23WhatIsNoPace: white-listed, blocked, off and demanded requests ban nobody.
func TestPitfall23WhatIsNoPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		for i, edit := range []func(*verdict.Event){
			func(e *verdict.Event) { e.Cause = verdict.CauseWhite },
			func(e *verdict.Event) { e.Cause, e.Verdict = verdict.CauseBlockList, verdict.Blocked },
			func(e *verdict.Event) { e.Cause = verdict.CauseOff },
			func(e *verdict.Event) { e.Cause, e.Verdict = verdict.CauseDemand, verdict.Robot },
			func(e *verdict.Event) { e.Kind = verdict.EventShown },
		} {
			if _, banned := g.until(visitor{addr: "192.0.2.1"}, 10*time.Millisecond, 3*time.Second, edit); banned {
				t.Errorf("case %d is banned", i)
			}
		}
	})
}

// TestBansGrow: who goes on hammering stays banned, each time for longer, and begins anew when it is forgotten.
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
		for range 60 * 60 * 50 { // an hour of hammering
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

// TestObserveDoesNotEscalate: in mode observe nobody is told, so the bans don't grow.
func TestObserveDoesNotEscalate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(c *verdict.ServiceConfig) { c.Mode = "observe" })
		defer g.end()
		for range 60 * 60 * 20 {
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

// TestFirstTwoRequestsNeverBan: even with the smallest limit that may be set.
func TestFirstTwoRequestsNeverBan(t *testing.T) {
	for _, sync := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway(t, func(c *verdict.ServiceConfig) {
				c.Limits = []verdict.Limit{{Window: time.Second, Requests: 2, Ban: time.Minute}}
				c.Sync = sync
			})
			defer g.end()
			for n := range 300 {
				for i := range 2 {
					if v := g.send(visitor{addr: "192.0.2.1", subs: []identity.Subject{cookie(n)}}, nil); v != verdict.Human {
						t.Fatalf("request %d of subject %d: %v", i+1, n, v)
					}
					synctest.Wait()
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// TestSyncJudge: with verdict.sync who is over a limit is stopped although no ban can be made.
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

// know makes p ready for services.
func know(t testing.TB, p *Processor, services []*verdict.Settings) {
	t.Helper()
	commit, err := p.Prepare(services)
	if err != nil {
		t.Fatal(err)
	}
	commit()
}

func live(t testing.TB, m *formula.Model, set *metrics.Set) *formula.Live {
	t.Helper()
	l, err := formula.NewLive(formula.Models{Model: m}, formula.Deps{Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func change(t testing.TB, l *formula.Live, m *formula.Model) {
	t.Helper()
	commit, err := l.Prepare(formula.Models{Model: m})
	if err != nil {
		t.Fatal(err)
	}
	commit()
}
