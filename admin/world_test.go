package admin

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/cbb"
	"antirobot/servertest"
)

const testToken = "0123456789abcdef0123456789abcdef"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp keeps one process-wide goroutine for the Date field, and a stopped server's sweeper of idle workers
		// sleeps out its ten seconds before it ends.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// live is a server on a loopback port.
type live struct {
	t    *testing.T
	srv  *Server
	addr string
	log  *servertest.Log
}

func start(t *testing.T, cfg Config, deps Deps) *live {
	t.Helper()
	l := &live{t: t, log: &servertest.Log{}}
	deps.Token, deps.Log = testToken, zerolog.New(l.log)
	if deps.Metrics == nil {
		deps.Metrics = metrics.NewSet()
	}
	srv, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.srv, l.addr = srv, ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l
}

// do sends one request with the token unless a header says otherwise ("-Name" removes a field).
func (l *live) do(method, target, body string, header ...string) (int, string, http.Header) {
	l.t.Helper()
	req, err := http.NewRequest(method, "http://"+l.addr+target, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		switch name, off := strings.CutPrefix(header[i], "-"); {
		case off:
			req.Header.Del(name)
		case name == "Host":
			req.Host = header[i+1]
		default:
			req.Header.Set(name, header[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// refused asserts an error of the API.
func (l *live) refused(status int, code, field, method, target, body string, header ...string) {
	l.t.Helper()
	got, text, _ := l.do(method, target, body, header...)
	var a struct {
		Error problem `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		l.t.Fatalf("%s %s: %v in %q", method, target, err, text)
	}
	if got != status || a.Error.Code != code || a.Error.Field != field || a.Error.Message == "" {
		l.t.Errorf("%s %s %s: got %d %s; want %d %s of field %q with a message", method, target, body, got, text, status, code, field)
	}
}

// ok asserts a 200 and decodes its body into v.
func (l *live) ok(v any, method, target, body string) {
	l.t.Helper()
	got, text, _ := l.do(method, target, body)
	if got != 200 {
		l.t.Fatalf("%s %s: got %d %s", method, target, got, text)
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		l.t.Fatalf("%s %s: %v in %q", method, target, err, text)
	}
}

// oneSource stands for lists whose only source fails on demand.
type oneSource struct {
	ListEditor
	stats cbb.ListStats
}

func (o *oneSource) Counts() map[string]cbb.ListCount { return nil }

func (o *oneSource) Stats() cbb.Stats { return cbb.Stats{Lists: []cbb.ListStats{o.stats}} }

// says is a Gateway that says what a test wants.
type says struct {
	reload   func() ([]string, error)
	services func() []ServiceStatus
	store    func() StoreHealth
	stream   func() *StreamHealth
	ready    func() []Check
}

func (g says) Reload(context.Context) ([]string, error) { return g.reload() }

func (g says) Services() []ServiceStatus {
	if g.services == nil {
		return nil
	}
	return g.services()
}

func (g says) Store() StoreHealth {
	if g.store == nil {
		return StoreHealth{Healthy: true}
	}
	return g.store()
}

func (g says) Stream() *StreamHealth {
	if g.stream == nil {
		return nil
	}
	return g.stream()
}

// Certificates implements Gateway.
func (says) Certificates() []string { return nil }
func (says) Backup(string) error    { return nil }

func (g says) Ready() []Check {
	if g.ready == nil {
		return nil
	}
	return g.ready()
}
