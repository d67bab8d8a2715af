package admin

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/captcha/outcomes"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/journal"
	"antirobot/message"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/counter"
	"antirobot/verdict/ledger"
	"antirobot/verdict/processor"
)

// gateway is the real parts behind a live listener.
type gateway struct {
	*live
	cacher *verdict.Cacher
	lists  *cbb.Lists
	shop   *verdict.Settings

	journal *journal.Journal
	reload  []error // what the next reloads return
}

const listText = "192.0.2.0/24 # abuse\n198.51.100.128/25\n"

func startGateway(t *testing.T) *gateway {
	t.Helper()
	ctx := context.Background()
	st := store.NewMemory(nil)
	set := metrics.NewSet()
	file := filepath.Join(t.TempDir(), "abuse.txt")
	if err := os.WriteFile(file, []byte(listText), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := cbb.DefaultConfig()
	cfg.Crawlers.Enabled = false
	cfg.Lists = []cbb.ListConfig{{Name: "abuse", Flag: "block", File: file}}
	lists, err := cbb.New(cfg, cbb.Deps{KV: st, Feed: st, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := lists.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cacher, err := verdict.New(verdict.DefaultConfig(), verdict.Deps{Store: st, Lists: lists, Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	if err := cacher.Start(ctx); err != nil {
		t.Fatal(err)
	}
	sc := verdict.DefaultServiceConfig()
	shop, err := sc.Settings("shop", 0)
	if err != nil {
		t.Fatal(err)
	}
	counting := counter.DefaultConfig()
	counting.CacheBytes = 4 << 20 // the race detector has to mark every byte
	counts, err := counter.New(counting, counter.Deps{Store: store.NewMemoryCounters(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := message.New(message.DefaultConfig(), message.Deps{Store: st, Log: zerolog.Nop()})
	if err == nil {
		err = messages.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{cacher: cacher, lists: lists, shop: shop, journal: newJournal(t, cacher, set)}
	t.Cleanup(func() {
		if err := errors.Join(cacher.Close(), lists.Close(), counts.Close(), messages.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	g.live = start(t, DefaultConfig(), Deps{
		Version: "0.1.0", Started: time.Now().Add(-time.Hour), Metrics: set,
		Bans: cacher, Passes: cacher, Attack: cacher, Pushes: newPusher(), Decisions: cacher.Decisions(), Lists: lists, Counters: counts,
		Queue:    newQueue(t, st),
		Messages: has{withAPI(messages)}, MessagesOpen: true, MaxMessage: 2 << 20,
		Challenges: func() outcomes.Challenges {
			count := outcomes.Count{Shown: 412, Tried: 371, Solved: 340, GaveUp: 41, Median: 8.7, P90: 17.4, Quick: 2, Loaded: 398, CameBack: 331}
			rows := func(name string) []outcomes.Row {
				return []outcomes.Row{{Name: name, Count: count}}
			}
			return outcomes.Challenges{
				Since: time.Date(2026, 1, 2, 14, 0, 0, 0, time.UTC), Total: count, Ways: rows("page"), Languages: rows("en"), Devices: rows("phone"),
				Networks: rows("198.51.100.0/24"), MachinesSolve: []string{"198.51.100.0/24"}, Campaigns: rows("198.51.100.0/24 0b6c1f2d3e4a5968"),
			}
		},
		Training: exports(func(w io.Writer, _ bool, _ time.Time) error {
			_, err := io.WriteString(w, "label,source,kind,subject,at,score,pages_1s,pages_10s\n1,ignored,ip,54cf30c6c2a10be1,2026-01-02T15:04:05.000Z,0.12,2.5,\n")
			return err
		}),
		Labels: newLabels(t, 100, st), Learning: oneCard{}, Journal: g.journal, Alarms: oneAlarm{},
		Sessions: knows(func(s identity.Subject) (v processor.SessionView, ok bool) {
			if s != identity.AddrSubject(netip.MustParseAddr("198.51.100.4")) {
				return v, false
			}
			at := time.Now().UTC()
			return processor.SessionView{
				First: at.Add(-time.Minute), Last: at, Pages: 34, Claim: "chrome", Evaluated: &at, Score: 0.73, Model: "default-3cad8aa2",
				Bans: 1, LastBan: &at, Repeated: 1, Factors: []processor.FactorView{
					{Name: "client_loads_1m", Group: processor.Pace, Value: 33, Amount: 1},
					{Name: "parts_missing", Group: processor.Course, Value: 1, Amount: 2.5},
				},
			}, true
		}),
		Gateway: says{
			reload: func() ([]string, error) {
				if len(g.reload) == 0 {
					return nil, nil
				}
				err := g.reload[0]
				g.reload = g.reload[1:]
				return nil, err
			},
			services: func() []ServiceStatus {
				return []ServiceStatus{{
					Name: "shop", Hosts: []string{"shop.example"}, Mode: shop.Mode.String(),
					Upstreams: []Upstream{{Address: "10.0.0.5:8000", Healthy: true, Active: 3}},
				}}
			},
			store: func() StoreHealth {
				return StoreHealth{Backend: "memory", Shared: st.Shared(), Healthy: st.Healthy() == nil}
			},
			ready: func() []Check { return []Check{{Name: "listeners", OK: true}} },
		},
	})
	return g
}

// ask lets the real verdict decide about a request of an address.
func (g *gateway) ask(rid request.ID, from, path string) verdict.Decision {
	addr := netip.MustParseAddr(from)
	view := request.View{At: time.Now(), Method: []byte("GET"), Host: []byte("shop.example"), Target: []byte(path), Path: []byte(path), Peer: addr}
	id := identity.Identity{Addr: addr, Net: identity.NetOf(addr), Proto: "http", N: 1}
	id.Subjects[0] = identity.AddrSubject(addr)
	var d verdict.Decision
	g.cacher.Decide(&d, &view, &id, g.shop)
	g.cacher.Decisions().Record(rid, &d, &view, &id, g.shop)
	g.cacher.Counted(rid, &d, &verdict.Event{Kind: verdict.EventRequest, Verdict: d.Verdict, Mode: d.Mode}, g.shop)
	return d
}

// post lets rules decide about a message that comes on a route.
func (g *gateway) post(from, text, message string) {
	addr := netip.MustParseAddr(from)
	view := request.View{At: time.Now(), Method: []byte("POST"), Host: []byte("shop.example"), Target: []byte("/comments"), Path: []byte("/comments"), Peer: addr}
	id := identity.Identity{Addr: addr, Net: identity.NetOf(addr), Proto: "http", N: 1}
	id.Subjects[0] = identity.AddrSubject(addr)
	p, err := rules.Compile(text, rules.DefaultOptions())
	if err != nil {
		panic(err)
	}
	run := rules.Run{Trace: true}
	if err := p.Run(context.Background(), &rules.Env{Attributes: oneText(message)}, &run); err != nil {
		panic(err)
	}
	var d verdict.Decision
	g.cacher.Decide(&d, &view, &id, g.shop)
	r := d.RuleMessage()
	r.Take(p, &run)
	r.Route, r.Action = "POST /comments", verdict.RuleRobot
	d.Settle()
	g.cacher.Decisions().Record(request.NewID(view.At), &d, &view, &id, g.shop)
}

// oneText is a message that has a text.
type oneText string

func (t oneText) Attribute(name string) (rules.Value, bool) {
	return rules.Value{Kind: rules.Text, Text: string(t)}, name == "text"
}

func (g *gateway) verdict(from string) verdict.Verdict {
	return g.ask(request.NewID(time.Now()), from, "/").Verdict
}

var block = regexp.MustCompile("(?ms)^```(sh|json|text) ?(\\d*)\n(.*?)^```\n")

// has is the message firewall, or its absence.
type has struct{ m Messages }

func (h has) Messages() (Messages, error) {
	if h.m == nil {
		return nil, message.ErrAway
	}
	return h.m, nil
}

// knows is what a test has the slow half know.
type knows func(s identity.Subject) (processor.SessionView, bool)

func (k knows) Session(s identity.Subject, _ time.Time) (processor.SessionView, bool) { return k(s) }

func (k knows) Spares(a netip.Addr) bool { return a.IsLoopback() }

// pays knows one pass.
type pays struct {
	Passes
	id [16]byte
}

func (p pays) Allowance(id [16]byte) (ledger.Allowance, bool) {
	return ledger.Allowance{Limit: 100, Spent: 7, Left: 93}, id == p.id
}
