package verdict

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/verdict/bans"
	"antirobot/verdict/ledger"
	"antirobot/verdict/quota"
	"antirobot/verdict/reputation"
)

// day0 is noon of a day, UTC.
var day0 = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// lists is what the lists say about every request.
type lists struct {
	cbb.Match
	named map[string]netip.Prefix // what else can be asked by name
}

func (l *lists) Listed(name string, addr netip.Addr, _ identity.Subject, _ string, _ time.Time) bool {
	return l.named[name].Contains(addr)
}

func (l *lists) Lookup(m *cbb.Match, _ *request.View, _ *identity.Identity, _ string) { *m = l.Match }

type ruleSays RuleAction

func (r ruleSays) Judge(g *Ruling, _ *request.View, _ *identity.Identity, _ *Settings, _ Verdict) {
	*g = Ruling{Action: RuleAction(r), Decision: "no-headless", Stop: -1, Fired: g.Fired[:0]}
}

type judgeSays float32

func (j judgeSays) Score(*Decision, *request.View, *identity.Identity, *Settings) float32 {
	return float32(j)
}

// sharedStore is a Memory that several nodes use, and that can fail.
type sharedStore struct {
	*store.Memory
	down    atomic.Bool
	shared  bool
	life    atomic.Int64 // of its content: a wipe begins a new life
	masters atomic.Uint64
}

// Life implements store.Mortal.
func (s *sharedStore) Life() (name string, masters uint64) {
	return fmt.Sprintf("life %d", s.life.Load()), s.masters.Load()
}

var errDown = errors.New("store is down")

func (s *sharedStore) Shared() bool { return s.shared }

func (s *sharedStore) Put(ctx context.Context, k, v []byte, ttl time.Duration) error {
	if s.down.Load() {
		return errDown
	}
	return s.Memory.Put(ctx, k, v, ttl)
}

func (s *sharedStore) Delete(ctx context.Context, k []byte) error {
	if s.down.Load() {
		return errDown
	}
	return s.Memory.Delete(ctx, k)
}

func (s *sharedStore) Take(ctx context.Context, k []byte, want, limit int64, ttl time.Duration) (int64, error) {
	if s.down.Load() {
		return 0, errDown
	}
	return s.Memory.Take(ctx, k, want, limit, ttl)
}

func (s *sharedStore) Scan(ctx context.Context, p []byte, f func(k, v []byte, ttl time.Duration) error) error {
	if s.down.Load() {
		return errDown
	}
	return s.Memory.Scan(ctx, p, f)
}

func newStore(shared bool, now func() time.Time) *sharedStore {
	return &sharedStore{Memory: store.NewMemory(now), shared: shared}
}

// world is a Cacher and its surroundings.
type world struct {
	*Cacher
	t     testing.TB
	lists *lists
	st    *sharedStore
	clock *testClock
}

type testClock struct{ ns atomic.Int64 }

func newClock() *testClock {
	c := &testClock{}
	c.ns.Store(day0.UnixNano())
	return c
}

func (c *testClock) now() time.Time { return time.Unix(0, c.ns.Load()).UTC() }

func (c *testClock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// options are what a test may override.
type options struct {
	Config Config
	Deps
}

// newWorld makes a Cacher that has not been started, over an unshared store, with a stopped clock.
func newWorld(t testing.TB, edit ...func(*options)) *world {
	c := newClock()
	return newWorldOver(t, newStore(false, c.now), c, edit...)
}

func newWorldOver(t testing.TB, st *sharedStore, c *testClock, edit ...func(*options)) *world {
	t.Helper()
	w := &world{t: t, lists: &lists{}, st: st, clock: c}
	o := options{
		Config: DefaultConfig(),
		Deps:   Deps{Store: st, Lists: w.lists, Now: time.Now, Log: zerolog.Nop(), Metrics: metrics.NewSet()},
	}
	o.Config.Stopped, o.Config.Human = 64, 64
	if c != nil {
		o.Now = c.now
	}
	for _, f := range edit {
		f(&o)
	}
	var err error
	if w.Cacher, err = New(o.Config, o.Deps); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) start() *world {
	w.t.Helper()
	if err := w.Start(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	return w
}

func closeAll(t testing.TB, all ...*world) {
	t.Helper()
	for _, w := range all {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// service makes the settings of a service called shop.
func service(t testing.TB, edit ...func(*ServiceConfig)) *Settings {
	t.Helper()
	c := DefaultServiceConfig()
	for _, f := range edit {
		f(&c)
	}
	s, err := c.Settings("shop", 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ip(s string) identity.Subject { return identity.AddrSubject(netip.MustParseAddr(s)) }

// sub makes a subject of the given kind from a small number.
func sub(k identity.Kind, n int) identity.Subject {
	s := identity.Subject{Kind: k}
	copy(s.ID[:], fmt.Sprintf("%x-%d", byte(k), n))
	s.ID[15] = byte(n)
	return s
}

// newRequest returns a View and the Identity resolved from it: the subjects, followed by the address.
func newRequest(at time.Time, addr string, subs ...identity.Subject) (*request.View, *identity.Identity) {
	a := netip.MustParseAddr(addr)
	v := &request.View{
		At: at, Method: []byte("GET"), Host: []byte("shop.example"), Target: []byte("/a?q=secret"), Path: []byte("/a"),
		Fields: []request.Field{{Name: []byte("User-Agent"), Value: []byte("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")}},
	}
	id := &identity.Identity{Addr: a, Net: identity.NetOf(a), Proto: "https"}
	for _, s := range subs {
		id.Subjects[id.N] = s
		id.N++
	}
	id.Subjects[id.N] = identity.AddrSubject(a)
	id.N++
	return v, id
}

// ask is a whole request.
func (w *world) ask(s *Settings, addr string, subs ...identity.Subject) *Decision {
	v, id := newRequest(w.now(), addr, subs...)
	d := &Decision{}
	w.Decide(d, v, id, s)
	return d
}

// pass makes an earned pass that was solved at an address with the browser of request.
func pass(at time.Time, n int, allowance uint32, addr string) spravka.Pass {
	v, id := newRequest(at, addr)
	p := spravka.Pass{
		Born: at.Unix(), Expires: at.Add(30 * 24 * time.Hour).Unix(), Allowance: allowance, Earned: true,
		Net: id.NetKey(), Agent: identity.AgentFamily(v.Get("User-Agent")),
	}
	copy(p.ID[:], fmt.Sprintf("pass-%d", n))
	p.ID[15] = byte(n)
	return p
}

// askWith sends a request that presents a pass.
func (w *world) askWith(s *Settings, p *spravka.Pass, addr string) *Decision {
	v, id := newRequest(w.now(), addr, identity.Subject{Kind: identity.KindSpravka, ID: p.ID})
	id.Passes[0], id.NPasses = *p, 1
	d := &Decision{}
	w.Decide(d, v, id, s)
	return d
}

// ban makes an operator's ban for ten minutes.
func (w *world) ban(s identity.Subject, edit ...func(*bans.Ban)) {
	w.t.Helper()
	b := bans.Ban{Subject: s, Until: w.now().Add(10 * time.Minute), Source: bans.SourceAPI, Reason: "test"}
	for _, f := range edit {
		f(&b)
	}
	if err := w.Ban(context.Background(), b); err != nil {
		w.t.Fatal(err)
	}
}

// spend pays one unit with a pass.
func (c *Cacher) spend(p *spravka.Pass, policy ledger.Policy) ledger.Payment {
	got, _ := c.ledger.Settle(p, &ledger.Bill{Cost: 1}, c.now(), policy, true)
	return got
}

// spentKey is where the store keeps what was spent of a pass.
func spentKey(id [16]byte) []byte { return append([]byte("spent/"), id[:]...) }

// excess has clients of an address without a record checked for an hour.
func (w *world) excess(s *Settings, addr string) {
	w.Exceeds(&Excess{Excess: quota.Excess{
		Scope: quota.ScopeAddress, Prefix: identity.HouseholdOf(ip(addr).ID, s.Group), New: true, Until: w.now().Add(time.Hour), Read: 120, Most: 100, Window: "24h",
	}})
}

// isKnown reports whether a subject is known from two days.
func isKnown(w *world, s identity.Subject) bool {
	return w.grades.Grade(s, w.now()) == reputation.Known
}

// hasDoubt sets d to the doubt about a subject.
func (w *world) hasDoubt(d *Doubt, s identity.Subject, group uint32, at int64) (ok bool) {
	*d, _, ok = w.doubts.Find(doubtKey{s, group}, at)
	return ok
}
