package message

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exampleRules are the rules that the budgets are measured with.
const exampleRules = `do lengthCheck(minLength=1, maxLength=1000) mark invalid
if invalid skip to 1000
do messageFrequencyCheck() mark messagefrequent, frequent
do userFrequencyCheck() mark userfrequent, frequent
if frequent skip to 1000
do modelClassify() mark spam
1000: do messageLogPut()
if invalid stop as INVALID
if frequent stop as FREQUENT
if spam stop as SPAM
stop as OK`

// clock is a clock that stands until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.UnixMilli(1_700_000_123_457)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// family is a config with a subdomain that inherits, and things of all classes.
func family() Config {
	c := DefaultConfig()
	root := &c.Partners[0].Domain
	root.Properties = append(
		root.Properties,
		PropertyConfig{Name: "answer", Class: ClassNumber, Number: 42},
		PropertyConfig{Name: "greeting", Class: ClassString, String: "hi"},
		PropertyConfig{Name: "disk", Class: ClassStoreStorage},
		PropertyConfig{Name: "old", Class: ClassModel, Model: ModelRobinson},
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
	s, err := Open(context.Background(), cfg, Deps{Store: st, Log: zerolog.Nop(), Now: now, Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newSystem(t testing.TB, cfg Config) (*System, *clock) {
	t.Helper()
	c := newClock()
	st := store.NewMemory(c.now)
	s := openSystem(t, cfg, st, c.now)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		_ = st.Close()
	})
	return s, c
}

// jsonCall posts a request; params is JSON. It returns the result as JSON, or "code: message".
func jsonCall(t testing.TB, s *System, method, params string) string {
	t.Helper()
	body := fmt.Sprintf(`{"service":null,"method":%q,"id":7,"params":[%s]}`, method, params)
	status, contentType, answer := s.Serve(context.Background(), JSON, []byte(body), Auth{})
	if status != 200 || contentType != "application/json; charset=utf-8" {
		t.Fatalf("status %d, %s", status, contentType)
	}
	return outcome(t, answer)
}

func outcome(t testing.TB, answer []byte) string {
	t.Helper()
	var a struct {
		Result json.RawMessage
		Error  *struct {
			Origin  string
			Code    int
			Message string
		}
		ID any
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	if a.Error != nil {
		if a.Error.Origin != "Fault" || a.Result != nil {
			t.Fatalf("answer %s", answer)
		}
		return fmt.Sprintf("%d: %s", a.Error.Code, a.Error.Message)
	}
	return string(a.Result)
}

func setRules(t testing.TB, s *System, domain, text string) {
	t.Helper()
	if got := jsonCall(t, s, "sf.message.firewall.rules.set", fmt.Sprintf(`{"partner":null,"domain":%q,"firewall":"messageAnalyzer","rules":%q}`, domain, text)); got != "{}" {
		t.Fatalf("set rules: %s", got)
	}
}

// say sends a message and returns what became of it.
func say(t testing.TB, s *System, domain, message string) string {
	t.Helper()
	got := jsonCall(t, s, "sf.message.input", fmt.Sprintf(`{"partner":null,"domain":%q,"message":%s}`, domain, message))
	var r struct{ Result string }
	if json.Unmarshal([]byte(got), &r) == nil {
		return r.Result
	}
	code, _, _ := strings.Cut(got, ":")
	return code
}

// httpShim serves a System as a gateway would, for clients in tests.
func httpShim(s *System) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		codec := JSON
		if strings.HasPrefix(r.URL.Path, "/api/xml/") {
			codec = XML
		}
		var auth Auth
		auth.Name, auth.Secret, _ = r.BasicAuth()
		status, contentType, answer := s.Serve(r.Context(), codec, body, auth)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(answer)
	}))
}
