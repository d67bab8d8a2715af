package processor

import (
	"cmp"
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

func (noLists) Listed(string, netip.Addr, identity.Subject, string, time.Time) bool { return false }

// lasting is how many times, or how long, a test does the same again. The race detector has seen all of it in a tenth.
func lasting[N int | time.Duration](n N) N {
	if raceEnabled {
		return n / 10
	}
	return n
}

// gateway consists of both halves and nothing else: each request is decided, answered at once, and offered.
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

// newGatewayWith is newGateway with other bounds for the fast half, and with another processor.
func newGatewayWith(t testing.TB, bounds func(*verdict.Config), before func(*Processor)) *gateway {
	t.Helper()
	return startGateway(t, nil, bounds, before)
}

func startGateway(t testing.TB, edit func(*verdict.ServiceConfig), bounds func(*verdict.Config), before func(*Processor)) *gateway {
	t.Helper()
	g := &gateway{t: t, set: metrics.NewSet()}
	cfg := verdict.DefaultConfig()
	cfg.Stopped, cfg.Human = 16, 16
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
	if g.p, err = New(own, Deps{Keeper: g.c, Log: zerolog.Nop(), Metrics: g.set}); err != nil {
		t.Fatal(err)
	}
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

// card is a formula of an operator's own, without its version.
func card(t testing.TB, text string) *formula.Model {
	t.Helper()
	m, err := formula.Load([]byte("version: mine\n"+text), FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// client sends requests.
type visitor struct {
	addr  string
	subs  []identity.Subject
	agent string
	bare  bool // it sends no field but its name
}

func (g *gateway) send(cl visitor, edit func(*verdict.Event)) verdict.Verdict {
	g.t.Helper()
	a := netip.MustParseAddr(cl.addr)
	v := &request.View{At: time.Now(), Method: []byte("GET"), Path: []byte("/x")}
	for _, f := range [...][2]string{
		{"User-Agent", cmp.Or(cl.agent, chromeAgent)}, {"Accept", "text/html,*/*;q=0.8"}, {"Accept-Language", "en"}, {"Accept-Encoding", "gzip"},
	} {
		v.Fields = append(v.Fields, request.Field{Name: []byte(f[0]), Value: []byte(f[1])})
		if cl.bare {
			break
		}
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

// until sends requests with the given pause until one is not Human, and returns how long that took; false after most.
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

// know prepares p for services.
func know(t testing.TB, p *Processor, services []*verdict.Settings) {
	t.Helper()
	commit, err := p.Prepare(services)
	if err != nil {
		t.Fatal(err)
	}
	commit()
}

func live(_ testing.TB, m *formula.Model, set *metrics.Set) *formula.Live {
	return formula.NewLive(formula.Models{Model: m}, formula.Deps{Metrics: set})
}

// villager is a keeper for which clients with a cookie are established.
type villager struct{ bench }

func (*villager) IsKnown(e *verdict.Event) bool { return e.Subjects[0].Kind == identity.KindI }

func (v *villager) Returns(e *verdict.Event) bool { return v.IsKnown(e) }

// What visitors of tests say they are, unless a test says otherwise.
const (
	chromeAgent  = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
	firefoxAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
)
