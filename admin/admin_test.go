package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/cbb"
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
	log  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, cfg Config, deps Deps) *live {
	t.Helper()
	l := &live{t: t, log: &lockedBuffer{}}
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
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
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

func TestTokenGuardsAPIAndProfiles(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	for _, path := range []string{"/api/status", "/api/bans", "/api/nothing", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1"} {
		l.refused(401, "unauthorized", "", "GET", path, "", "-Authorization", "")
		for _, wrong := range []string{"Bearer", "Bearer ", "Bearer " + testToken[:31], "Bearer " + testToken + "0", "Basic " + testToken, testToken} {
			l.refused(401, "unauthorized", "", "GET", path, "", "Authorization", wrong)
		}
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		if got, body, _ := l.do("GET", path, "", "-Authorization", ""); got != 200 {
			t.Errorf("%s without token on loopback: %d %s", path, got, body)
		}
	}
	if got, body, _ := l.do("GET", "/api/status", "", "Authorization", "bearer  "+testToken); got != 200 {
		t.Errorf("scheme in lower case: %d %s", got, body)
	}
	if strings.Contains(l.log.String(), testToken) {
		t.Error("the log holds the token")
	}
}

func TestMetricsToken(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MetricsToken = true
	l := start(t, cfg, Deps{})
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		l.refused(401, "unauthorized", "", "GET", path, "", "-Authorization", "")
		if got, body, _ := l.do("GET", path, ""); got != 200 {
			t.Errorf("%s with token: %d %s", path, got, body)
		}
	}
}

// PITFALLS 16: a page in the operator's browser can't use the listener, whatever name it gave to our address.
func TestBrowserPagesAreRefused(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Hosts = []string{"Gate.example"}
	l := start(t, cfg, Deps{})
	for _, path := range []string{"/api/status", "/metrics", "/healthz", "/debug/pprof/"} {
		l.refused(403, "origin_refused", "", "GET", path, "", "Origin", "http://evil.example")
		l.refused(403, "origin_refused", "", "GET", path, "", "Origin", "null")
		l.refused(403, "origin_refused", "", "GET", path, "", "Sec-Fetch-Site", "cross-site")
		for _, host := range []string{"evil.example", "evil.example:9090", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1:99999"} {
			l.refused(403, "host_refused", "", "GET", path, "", "Host", host)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:9090", "127.0.0.1", "10.1.2.3:9090", "[::1]:9090", "gate.example", "gate.example:9090"} {
		if got, body, _ := l.do("GET", "/api/status", "", "Host", host); got != 200 {
			t.Errorf("Host %s: %d %s", host, got, body)
		}
	}
	// What a form can send without being asked first is no JSON.
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		l.refused(415, "not_json", "", "POST", "/api/reload", "{}", "Content-Type", kind)
		l.refused(415, "not_json", "", "POST", "/api/bans", `{"subject":"ip:203.0.113.7"}`, "Content-Type", kind)
	}
	l.refused(415, "not_json", "", "POST", "/api/bans", `{}`, "-Content-Type", "")
}

func TestAnswersCarryProtection(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	for _, path := range []string{"/api/status", "/metrics", "/healthz", "/nothing", "/api/bans"} {
		_, _, h := l.do("GET", path, "")
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		if h.Get("Set-Cookie") != "" || h.Get("Server") != "" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: unwanted fields in %v", path, h)
		}
	}
}

func TestWrongPathsAndMethods(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	l.refused(404, "not_found", "", "GET", "/", "")
	l.refused(404, "not_found", "", "GET", "/api/passes", "")
	l.refused(404, "not_found", "", "GET", "/api/lists/", "")
	l.refused(404, "not_found", "", "GET", "/api/lists/block/x", "")
	l.refused(404, "not_found", "", "GET", "/api/../metrics", "")
	l.refused(405, "method_refused", "", "PUT", "/api/bans", "")
	l.refused(405, "method_refused", "", "POST", "/metrics", "{}")
	l.refused(405, "method_refused", "", "POST", "/debug/pprof/heap", "{}")
	_, _, h := l.do("PATCH", "/api/bans", "")
	if h.Get("Allow") != "GET, POST, DELETE" {
		t.Errorf("Allow is %q", h.Get("Allow"))
	}
	for _, path := range []string{"/api/bans", "/api/lists", "/api/lists/ban", "/api/decisions/1"} {
		l.refused(501, "not_available", "", "GET", path, "")
	}
	l.refused(501, "not_available", "", "POST", "/api/reload", "")
	l.refused(400, "unexpected_body", "", "GET", "/api/status", "x", "-Content-Type", "")
}

func TestBodyIsBounded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxBodyBytes = 2 << 10
	l := start(t, cfg, Deps{})
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "POST /api/bans HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 413 || !strings.Contains(string(b), "body_too_large") {
		t.Errorf("got %d %s", resp.StatusCode, b)
	}
}

func TestMetrics(t *testing.T) {
	extra := metrics.NewSet()
	extra.NewCounter("antirobot_extra_total").Add(7)
	l := start(t, DefaultConfig(), Deps{Version: "1.2.3", Metrics: extra})
	l.do("GET", "/api/status", "", "-Authorization", "")
	got, body, h := l.do("GET", "/metrics", "")
	if got != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("got %d %v", got, h)
	}
	for _, want := range []string{
		`antirobot_extra_total 7`, `antirobot_build_info{version="1.2.3"} 1`, `antirobot_admin_unauthorized_total 1`,
		`antirobot_admin_requests_total{status="4xx"} 1`, `process_resident_memory_bytes `, `go_goroutines `,
	} {
		if strings.Count(body, "\n"+want)+boolInt(strings.HasPrefix(body, want)) != 1 {
			t.Errorf("%q does not stand there once", want)
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestHealthAndReadiness(t *testing.T) {
	var mu sync.Mutex
	store := StoreHealth{Backend: "pebble", Healthy: true}
	ready := []Check{{Name: "config", OK: true}, {Name: "drain", OK: true}}
	lists := &oneSource{stats: cbb.ListStats{Name: "x", Flag: "block", Kind: "url", Loaded: true}}
	l := start(t, DefaultConfig(), Deps{
		Version: "1", Started: time.Now().Add(-time.Minute), Lists: lists,
		Gateway: says{
			store: func() StoreHealth { mu.Lock(); defer mu.Unlock(); return store },
			ready: func() []Check { mu.Lock(); defer mu.Unlock(); return append([]Check(nil), ready...) },
		},
	})
	var h struct {
		Status string
		Store  StoreHealth
		Uptime float64  `json:"uptime_seconds"`
		Lists  []string `json:"lists_failing"`
	}
	l.ok(&h, "GET", "/healthz", "")
	if h.Status != "ok" || !h.Store.Healthy || h.Uptime < 60 {
		t.Errorf("healthy: %+v", h)
	}
	mu.Lock()
	store = StoreHealth{Backend: "pebble", Error: "disk is full"}
	ready[1] = Check{Name: "drain", Detail: "draining"}
	lists.stats.LastError, lists.stats.Failures = "timeout", 3
	mu.Unlock()
	l.ok(&h, "GET", "/healthz", "")
	if h.Status != "degraded" || h.Store.Error != "disk is full" || len(h.Lists) != 1 {
		t.Errorf("degraded: %+v", h)
	}
	got, body, _ := l.do("GET", "/readyz", "")
	if got != 503 || !strings.Contains(body, `{"name":"drain","ok":false,"detail":"draining"}`) {
		t.Errorf("draining: %d %s", got, body)
	}
	// A list that was never loaded keeps a node from being ready; ranges of crawlers that can't be fetched do not.
	for _, c := range []struct {
		kind   string
		loaded bool
		fails  int
		want   int
	}{{"url", true, 3, 200}, {"url", false, 3, 503}, {"file", false, 0, 503}, {"ranges", false, 0, 503}, {"ranges", false, 1, 200}} {
		mu.Lock()
		ready[1].OK = true
		lists.stats.Kind, lists.stats.Loaded, lists.stats.Failures = c.kind, c.loaded, c.fails
		mu.Unlock()
		if got, body, _ := l.do("GET", "/readyz", ""); got != c.want {
			t.Errorf("%+v: %d %s", c, got, body)
		}
	}
}

// oneSource stands for lists whose only source fails on demand.
type oneSource struct {
	ListEditor
	stats cbb.ListStats
}

func (o *oneSource) Stats() cbb.Stats { return cbb.Stats{Lists: []cbb.ListStats{o.stats}} }

func TestReloadTellsAllErrors(t *testing.T) {
	var err error
	l := start(t, DefaultConfig(), Deps{Gateway: says{reload: func() ([]string, error) { return []string{"store"}, err }}})
	var okBody struct {
		Reloaded    bool
		NeedRestart []string `json:"need_restart"`
	}
	l.ok(&okBody, "POST", "/api/reload", "")
	if !okBody.Reloaded || !slices.Equal(okBody.NeedRestart, []string{"store"}) {
		t.Errorf("got %+v", okBody)
	}
	err = fmt.Errorf("load config: %w", errors.Join(
		errors.New("services[0].upstreams: none"),
		fmt.Errorf("admin: %w", errors.Join(errors.New("listen: bad"), errors.New("hosts[0]: bad")))))
	got, body, _ := l.do("POST", "/api/reload", "")
	if got != 422 || !strings.Contains(body, `"errors":["services[0].upstreams: none","listen: bad","hosts[0]: bad"]`) {
		t.Errorf("got %d %s", got, body)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{Gateway: says{services: func() []ServiceStatus { panic("kaboom") }}})
	l.refused(500, "internal", "", "GET", "/api/status", "")
	if _, body, _ := l.do("GET", "/metrics", ""); !strings.Contains(body, `antirobot_panics_total{where="admin"} 1`) {
		t.Error("the panic is not counted")
	}
	if !strings.Contains(l.log.String(), "kaboom") {
		t.Error("the panic is not logged")
	}
}

func TestProfiles(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	if got, body, _ := l.do("GET", "/debug/pprof/", ""); got != 200 || !strings.Contains(body, "heap\n") {
		t.Errorf("index: %d %s", got, body)
	}
	if got, body, _ := l.do("GET", "/debug/pprof/goroutine?debug=1", ""); got != 200 || !strings.HasPrefix(body, "goroutine profile: ") {
		t.Errorf("goroutine: %d %.80q", got, body)
	}
	for _, path := range []string{"/debug/pprof/heap", "/debug/pprof/profile?seconds=0.05"} {
		if got, body, _ := l.do("GET", path, ""); got != 200 || !strings.HasPrefix(body, "\x1f\x8b") {
			t.Errorf("%s: %d %.40q is no gzipped profile", path, got, body)
		}
	}
	l.refused(404, "not_found", "", "GET", "/debug/pprof/nothing", "")
	for _, sec := range []string{"0", "-1", "x", "1e9", "NaN"} {
		l.refused(400, "invalid_field", "seconds", "GET", "/debug/pprof/profile?seconds="+sec, "")
	}
}

func TestShutdownEndsAProfile(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	done := make(chan int, 1)
	go func() {
		got, _, _ := l.do("GET", "/debug/pprof/trace?seconds=60", "")
		done <- got
	}()
	for len(l.srv.profiles) == 0 { // until the profile runs
		time.Sleep(time.Millisecond)
	}
	l.refused(409, "busy", "", "GET", "/debug/pprof/trace?seconds=1", "")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.srv.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != 200 {
		t.Errorf("the profile under way got %d", got)
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "admin.token")
	var wg sync.WaitGroup
	toks := make([]string, 8)
	for i := range toks {
		wg.Go(func() {
			var err error
			if toks[i], err = LoadOrMakeToken(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, tok := range toks {
		if tok != toks[0] || len(tok) != 64 {
			t.Fatalf("tokens differ or are short: %q %q", tok, toks[0])
		}
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
	f := func(content string, mode os.FileMode, good bool) {
		t.Helper()
		p := filepath.Join(t.TempDir(), "t")
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrMakeToken(p); (err == nil) != good {
			t.Errorf("%q mode %o: %v", content, mode, err)
		}
	}
	f("  "+testToken+"\n", 0o640, true)
	f(testToken, 0o644, false)
	f("short", 0o600, false)
	f("", 0o600, false)
	f(testToken+" "+testToken, 0o600, false)
	if _, err := LoadOrMakeToken(filepath.Join(dir, "absent", "t")); err == nil {
		t.Error("a token was made in a directory that is not there")
	}
}

func TestConfig(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("defaults warn: %v", w)
	}
	c = Config{Listen: "nowhere", Hosts: []string{"ok", "a:1", "*.x"}, TLSCert: "x"}
	err := c.Validate()
	for _, want := range []string{
		"listen: ", "hosts[1]: ", "hosts[2]: ", "tls_cert: ", "max_body_bytes: ", "max_connections: ",
		"read_timeout: ", "idle_timeout: ", "max_ttl: ",
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	f := func(listen, cert string, warns int) {
		t.Helper()
		c := DefaultConfig()
		c.Listen, c.TLSCert, c.TLSKey = listen, cert, cert
		if w := c.Warnings(); len(w) != warns {
			t.Errorf("%s: %v", listen, w)
		}
	}
	f("0.0.0.0:9090", "", 1)
	f(":9090", "", 1)
	f("10.0.0.1:9090", "x.pem", 0)
	f("[::1]:9090", "", 0)
	f("localhost:9090", "", 0)
	f("", "", 0)
}

// says is a Gateway that says what a test wants.
type says struct {
	reload   func() ([]string, error)
	services func() []ServiceStatus
	store    func() StoreHealth
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

func (g says) Ready() []Check {
	if g.ready == nil {
		return nil
	}
	return g.ready()
}
