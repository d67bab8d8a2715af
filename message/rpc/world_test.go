package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/message"
	"antirobot/message/learn"
	"antirobot/store"
	"antirobot/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withoutStart returns the domain with models that judge nothing until they know enough.
func withoutStart(d message.DomainConfig) message.DomainConfig {
	for i := range d.Properties {
		if d.Properties[i].Class == message.ClassModel {
			d.Properties[i].Model = learn.Robinson
		}
	}
	return d
}

// knowsTooLittle is what an untaught model answers.
const knowsTooLittle = `{"by":"nothing","marker":"good","reasons":["the model knows too little to judge: 0 good and 0 bad texts, of at least 25 and 10"],"score":0.5}`

// family is a config with a subdomain that inherits, and things of all classes.
func family() message.Config {
	c := message.DefaultConfig()
	c.Partners[0].Domain = withoutStart(c.Partners[0].Domain)
	root := &c.Partners[0].Domain
	root.Properties = append(
		root.Properties,
		message.PropertyConfig{Name: "answer", Class: message.ClassNumber, Number: 42},
		message.PropertyConfig{Name: "greeting", Class: message.ClassString, String: "hi"},
		message.PropertyConfig{Name: "disk", Class: message.ClassStoreStorage},
		message.PropertyConfig{Name: "old", Class: message.ClassModel, Model: learn.Robinson},
	)
	root.Domains = []message.DomainConfig{
		{Name: "blog", Properties: []message.PropertyConfig{{Name: "messageAnalyzer", Class: message.ClassFirewall}}, Domains: []message.DomainConfig{{Name: "comments", Properties: []message.PropertyConfig{
			{Name: "messageDomain", Class: message.ClassMessageDomain, Attributes: []message.AttributeConfig{{Name: "text", Type: "Text"}, {Name: "title", Type: "Text"}, {Name: "age", Type: "Int"}}},
		}}}},
		{Name: "forum", Properties: []message.PropertyConfig{
			{Name: "storage", Class: message.ClassMemoryStorage},
			{Name: "messageAnalyzer", Class: message.ClassFirewall, Rules: "stop as FORUM"},
			{Name: "greeting", Class: message.ClassString, String: "hello"},
		}},
	}
	return c
}

// world is an API over a system of its own.
type world struct {
	*Server
	*message.System
}

func newSystem(t testing.TB, cfg message.Config) (*world, *storetest.Clock) {
	t.Helper()
	c := storetest.NewClock()
	st := store.NewMemory(c.Now)
	s, err := message.New(cfg, message.Deps{Store: st, Log: zerolog.Nop(), Now: c.Now})
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		_ = st.Close()
	})
	server, err := New(cfg, Deps{System: s, Log: zerolog.Nop(), Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return &world{server, s}, c
}

// jsonCall posts a request; params is JSON. It returns the result as JSON, or "code: message".
func jsonCall(t testing.TB, s *world, method, params string) string {
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

func setRules(t testing.TB, s *world, domain, text string) {
	t.Helper()
	if got := jsonCall(t, s, "sf.message.firewall.rules.set", fmt.Sprintf(`{"partner":null,"domain":%q,"firewall":"messageAnalyzer","rules":%q}`, domain, text)); got != "{}" {
		t.Fatalf("set rules: %s", got)
	}
}

// say sends a message and returns what became of it.
func say(t testing.TB, s *world, domain, message string) string {
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
func httpShim(s *world) *httptest.Server {
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
