package requestrules

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/rules/sources"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/counter"
)

// world is an engine over memory, with real counters and lists and a clock that stands.
type world struct {
	*Engine
	t        testing.TB
	at       atomic.Int64 // unix nanoseconds; storages read it in goroutines of their own
	shingler *counter.Shingler
	set      *metrics.Set
}

func (w *world) now() time.Time { return time.Unix(0, w.at.Load()).UTC() }

// pass moves the clock, back if d is negative.
func (w *world) pass(d time.Duration) { w.at.Add(int64(d)) }

func newWorld(t testing.TB, edit ...func(*Deps)) *world {
	t.Helper()
	w := &world{t: t, set: metrics.NewSet()}
	w.at.Store(time.Date(2026, 3, 4, 12, 5, 0, 0, time.UTC).UnixNano())
	now := w.now
	cfg := counter.DefaultConfig()
	cfg.CacheBytes, cfg.MaxBuffered = 4<<20, 1<<12
	var err error
	if w.shingler, err = counter.New(cfg, counter.Deps{Store: store.NewMemoryCounters(), Log: zerolog.Nop(), Now: now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.shingler.Close() })
	st := store.NewMemory(now)
	t.Cleanup(func() { _ = st.Close() })
	lists := cbb.DefaultConfig()
	lists.Crawlers.Enabled = false
	lists.Lists = []cbb.ListConfig{
		{Name: "tor", Flag: "ban", Entries: []string{"198.51.100.0/24"}},
		{Name: "own", Flag: "block", Entries: []string{"L:mallory"}, Service: "shop"},
	}
	l, err := cbb.New(lists, cbb.Deps{KV: st, Feed: st, Now: now, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	d := Deps{
		Store: st, Counters: sources.NewCounters(w.shingler, now), Lists: l, Now: now, Log: zerolog.Nop(),
		Metrics: w.set,
	}
	for _, f := range edit {
		f(&d)
	}
	w.Engine = New(d)
	return w
}

func (w *world) service(text string, edit ...func(*ServiceConfig)) *Ruleset {
	w.t.Helper()
	c := DefaultServiceConfig()
	c.Text, c.Time = text, 10*time.Second // the machine may be busy
	for _, f := range edit {
		f(&c)
	}
	s, err := w.Ruleset("shop", c, &Names{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

var shop = &verdict.Settings{Name: "shop"}

// request is a request with head lines such as "GET /a?b=c", "Cookie: a=b".
func newRequest(addr string, lines ...string) (*request.View, *identity.Identity) {
	method, target, _ := strings.Cut(lines[0], " ")
	path, query, _ := strings.Cut(target, "?")
	v := &request.View{
		Method: []byte(method), Target: []byte(target), Path: []byte(path), Query: []byte(query), Host: []byte("example.com"),
	}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ": ")
		v.Fields = append(v.Fields, request.Field{Name: []byte(name), Value: []byte(value)})
	}
	id := &identity.Identity{Addr: netip.MustParseAddr(addr), N: 1}
	id.Subjects[0] = identity.AddrSubject(id.Addr)
	return v, id
}

func (w *world) judge(s *Ruleset, so verdict.Verdict, addr string, lines ...string) *verdict.Ruling {
	v, id := newRequest(addr, lines...)
	v.At = w.now()
	r := new(verdict.Ruling)
	s.Judge(r, v, id, shop, so)
	return r
}

// stuck is counters whose store does not answer.
type stuck struct{ rules.CounterSource }

func (stuck) Count(ctx context.Context, _ rules.CounterUse) (n, of uint64, err error) {
	<-ctx.Done()
	return 0, 0, ctx.Err()
}

const budgetRules = `do networkCheck(networks="10.0.0.0/8, 192.168.0.0/16") mark inside
if inside stop as OK
do regexpCheck(regexp="Mozilla/", attribute="ua") mark script score 1
do hasAttribute(attribute="header.accept-language") mark nolang score 1
do listCheck(list="tor") mark tor score 2
do userFrequencyCheck(attribute="subject", count=1000000) mark often score 1
do scoreOver(limit=3) mark bad
if bad stop as BLOCK
stop as OK`
