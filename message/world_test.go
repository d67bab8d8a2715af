package message

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/message/learn"
	"antirobot/rules"
	"antirobot/store"
	"antirobot/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// family is a config with a subdomain that inherits, and things of all classes.
func family() Config {
	c := DefaultConfig()
	root := &c.Partners[0].Domain
	root.Properties = append(
		root.Properties,
		PropertyConfig{Name: "answer", Class: ClassNumber, Number: 42},
		PropertyConfig{Name: "greeting", Class: ClassString, String: "hi"},
		PropertyConfig{Name: "disk", Class: ClassStoreStorage},
		PropertyConfig{Name: "old", Class: ClassModel, Model: learn.Robinson},
	)
	root.Domains = []DomainConfig{
		{Name: "blog", Properties: []PropertyConfig{{Name: propertyAnalyzer, Class: ClassFirewall}}, Domains: []DomainConfig{{Name: "comments", Properties: []PropertyConfig{
			{Name: propertyMessageDomain, Class: ClassMessageDomain, Attributes: []AttributeConfig{{"text", "Text"}, {"title", "Text"}, {"age", "Int"}}},
		}}}},
		{Name: "forum", Properties: []PropertyConfig{
			{Name: "storage", Class: ClassMemoryStorage},
			{Name: "messageAnalyzer", Class: ClassFirewall, Rules: "stop as FORUM"},
			{Name: "greeting", Class: ClassString, String: "hello"},
		}},
	}
	return c
}

func openSystem(t testing.TB, cfg Config, st store.Store, now func() time.Time) *System {
	t.Helper()
	s, err := begin(context.Background(), cfg, Deps{Store: st, Log: zerolog.Nop(), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newSystem(t testing.TB, cfg Config) (*System, *storetest.Clock) {
	t.Helper()
	c := storetest.NewClock()
	st := store.NewMemory(c.Now)
	s := openSystem(t, cfg, st, c.Now)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		_ = st.Close()
	})
	return s, c
}

func root(t testing.TB, s *System, path string) *Domain {
	t.Helper()
	d, err := s.Domain("default", path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func teach(t testing.TB, s *System, domain, model, text string, good bool) {
	t.Helper()
	m, err := root(t, s, domain).Model(model)
	if err == nil {
		err = s.Train(t.Context(), m, text, good)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// marker says what a model takes a text for.
func marker(t testing.TB, s *System, domain, model, text string) string {
	t.Helper()
	m, err := root(t, s, domain).Model(model)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Classify(text).Bad() {
		return "good"
	}
	return "bad"
}

func setRules(t testing.TB, s *System, domain, text string) {
	t.Helper()
	if err := s.SetRules(t.Context(), root(t, s, domain), propertyAnalyzer, text); err != nil {
		t.Fatalf("set rules: %v", err)
	}
}

// say judges a message, which is JSON, and returns what became of it: the decision, or the code of the error.
func say(t testing.TB, s *System, domain, message string) string {
	t.Helper()
	var raw map[string]any
	if err := json.Unmarshal([]byte(message), &raw); err != nil {
		t.Fatal(err)
	}
	for name, v := range raw {
		if n, ok := v.(float64); ok {
			raw[name] = int64(n)
		}
	}
	o, err := s.Judge(t.Context(), root(t, s, domain), raw, false)
	var f *rules.Fault
	if errors.As(err, &f) {
		return strconv.Itoa(f.Code)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o.Decision
}
