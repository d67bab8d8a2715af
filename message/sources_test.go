package message_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/cbb"
	"antirobot/message"
	"antirobot/rules"
	"antirobot/rules/sources"
	"antirobot/store"
	"antirobot/verdict/counter"
	"antirobot/verdict/formula"
)

// world is what rules over messages may ask: real counters and lists over memory, and a clock that stands.
type world struct {
	t        testing.TB
	at       time.Time
	store    *store.Memory
	shingler *counter.Shingler
	lists    *cbb.Lists
}

func (w *world) now() time.Time { return w.at }

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, at: time.Date(2026, 3, 4, 12, 5, 0, 0, time.UTC)}
	w.store = store.NewMemory(w.now)
	t.Cleanup(func() { _ = w.store.Close() })
	cfg := counter.DefaultConfig()
	cfg.CacheBytes, cfg.MaxBuffered = 4<<20, 1<<12
	var err error
	if w.shingler, err = counter.New(cfg, counter.Deps{Store: store.NewMemoryCounters(), Log: zerolog.Nop(), Now: w.now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.shingler.Close() })
	lists := cbb.DefaultConfig()
	lists.Crawlers.Enabled = false
	lists.Lists = []cbb.ListConfig{
		{Name: "tor", Flag: "ban", Entries: []string{"198.51.100.0/24"}},
		{Name: "own", Flag: "block", Entries: []string{"L:mallory"}, Service: "shop"},
	}
	if w.lists, err = cbb.New(lists, cbb.Deps{KV: w.store, Feed: w.store, Now: w.now, Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	return w
}

// messages opens a message firewall of two partners over the world's parts.
func (w *world) messages(formulas rules.Formulas) *message.System {
	w.t.Helper()
	cfg := message.DefaultConfig()
	cfg.Authorisation = "keys"
	cfg.Partners[0].Name, cfg.Partners[0].Secret = "ann", "a secret of ann's own"
	bob := message.DefaultConfig().Partners[0]
	bob.Name, bob.Secret = "bob", "a secret of bob's own"
	bob.Domain.Domains = []message.DomainConfig{{Name: "blog", Properties: []message.PropertyConfig{{Name: "own", Class: message.ClassCounters}}}}
	cfg.Partners = append(cfg.Partners, bob)
	s, err := message.New(cfg, message.Deps{
		Store: w.store, Log: zerolog.Nop(), Now: w.now, Counters: sources.NewCounters(w.shingler, w.now),
		Lists: sources.NewLists(w.lists, w.now), Formulas: formulas,
	})
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// setRules sets the rules of a partner's domain.
func setRules(t *testing.T, s *message.System, partner, domain, text string) {
	t.Helper()
	d, err := s.Domain(partner, domain)
	if err == nil {
		err = s.SetRules(t.Context(), d, "messageAnalyzer", text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func judge(t *testing.T, s *message.System, partner, domain, text, want string) {
	t.Helper()
	d, err := s.Domain(partner, domain)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Judge(t.Context(), d, map[string]any{"text": text}, false)
	if err != nil || o.Decision != want {
		t.Errorf("%s/%s: %q: %s, %v, want %s", partner, domain, text, o.Decision, err, want)
	}
}

// TestMessageCounters: rules over messages count in the gateway's counters; partners don't see each other's, a domain
// shares those of its root, and one that declares its own has its own.
func TestMessageCounters(t *testing.T) {
	w := newWorld(t)
	s := w.messages(&sources.Formulas{})
	const text = `do counterAdd(type=104, attribute="text")
do counterCheck(type=104, attribute="text", limit=2) mark often
if often stop as FREQUENT
stop as OK`
	setRules(t, s, "ann", "", text)
	setRules(t, s, "bob", "", text)
	judge(t, s, "ann", "", "hello", "OK")
	judge(t, s, "ann", "", "hello", "OK")
	judge(t, s, "ann", "", "hello", "FREQUENT")
	judge(t, s, "bob", "", "hello", "OK")
	judge(t, s, "bob", "blog", "hello", "OK")
	judge(t, s, "bob", "", "hello", "FREQUENT")
	setRules(t, s, "bob", "", strings.ReplaceAll(text, `"text"`, `"text", prefix="own"`))
	judge(t, s, "bob", "blog", "hello", "OK")
	judge(t, s, "bob", "", "hello", "OK") // the blog's are declared there
	setRules(t, s, "bob", "", `do counterAdd(type=104, attribute="text", prefix="messageLog")`)
	d, _ := s.Domain("bob", "")
	if _, err := s.Judge(t.Context(), d, map[string]any{"text": "x"}, false); err == nil || !strings.Contains(err.Error(), "not of the class Counters") {
		t.Errorf("counted in a log: %v", err)
	}
}

// TestMessageLists: rules over messages see the entries that are for all services.
func TestMessageLists(t *testing.T) {
	w := newWorld(t)
	s := w.messages(&sources.Formulas{})
	setRules(t, s, "ann", "", `do listCheck(list="tor", attribute="text") mark tor do listCheck(list="own", attribute="text") mark own
if tor stop as TOR
if own stop as OWN`)
	judge(t, s, "ann", "", "198.51.100.7", "TOR")
	judge(t, s, "ann", "", "ip:198.51.100.7", "TOR")
	judge(t, s, "ann", "", "198.51.101.7", "UNKNOWN")
	judge(t, s, "ann", "", "L:mallory", "UNKNOWN") // for the shop alone
	judge(t, s, "ann", "", "hello", "UNKNOWN")
}

// TestMessageFormula: a model gives the last word, and another one after a reload.
func TestMessageFormula(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "last.yaml")
	card := func(weight string) *sources.Formulas {
		t.Helper()
		text := "version: a-1\nbias: -2\nfactors:\n  - {name: tag_short, bins: [{is: 1, weight: " + weight + "}]}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := sources.LoadFormulas([]formula.NamedConfig{{Name: "last", File: file}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	held := &swapped{card("1")}
	s := w.messages(held)
	setRules(t, s, "ann", "", `do lengthCheck(minLength=3) mark short
do formulaCheck(formula="last") mark bad
if bad stop as SPAM
stop as OK`)
	judge(t, s, "ann", "", "hi", "OK")
	held.Formulas = card("5")
	judge(t, s, "ann", "", "hi", "OK")
	s.Recompile()
	judge(t, s, "ann", "", "hi", "SPAM")
	judge(t, s, "ann", "", "hello", "OK")
}

type swapped struct{ *sources.Formulas }
