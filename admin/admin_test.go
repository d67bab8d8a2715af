package admin

import (
	"bufio"
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
)

func TestTokenGuardsAPIAndProfiles(t *testing.T) {
	now := time.Now()
	l := start(t, DefaultConfig(), Deps{Now: func() time.Time { return now }})
	for _, path := range []string{"/api/status", "/api/bans", "/api/nothing", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1"} {
		now = now.Add(2 * time.Minute) // wrong tokens are limited
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

// TestWrongTokensAreSlowed: after ten of one address each further answer takes a while; who has a right one waits for nothing.
func TestWrongTokensAreSlowed(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	wrong := func() (int, http.Header) {
		status, _, head := l.do("GET", "/api/status", "", "Authorization", "Bearer "+strings.Repeat("x", 40))
		return status, head
	}
	for range 10 {
		if status, _ := wrong(); status != 401 {
			t.Fatalf("a wrong token: %d", status)
		}
	}
	began := time.Now()
	status, head := wrong()
	if took := time.Since(began); status != 429 || head.Get("Retry-After") == "" || took < triesWait {
		t.Errorf("the eleventh wrong token: %d %v after %v", status, head, took)
	}
	if status, _, _ := l.do("GET", "/api/status", ""); status != 200 {
		t.Errorf("a right token after them: %d", status)
	}
	if status, _, _ := l.do("GET", "/api/status", "", "-Authorization", ""); status != 401 {
		t.Errorf("no token after them: %d", status)
	}
}

// Pitfall 16: a page in the operator's browser can't use the listener, whatever name it gave to our address.
func TestBrowserPagesAreRefused(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URL, cfg.Advertise = "https://Gate.example:8443/", "back.example:8079"
	l := start(t, cfg, Deps{})
	for _, path := range []string{"/api/status", "/metrics", "/healthz", "/debug/pprof/"} {
		l.refused(403, "origin_refused", "", "GET", path, "", "Origin", "http://evil.example")
		l.refused(403, "origin_refused", "", "GET", path, "", "Origin", "null")
		l.refused(403, "origin_refused", "", "GET", path, "", "Sec-Fetch-Site", "cross-site")
		for _, host := range []string{"evil.example", "evil.example:8079", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1:99999", "gate.example.."} {
			l.refused(403, "host_refused", "", "GET", path, "", "Host", host)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:8079", "127.0.0.1", "10.1.2.3:8079", "[::1]:8079", "gate.example", "gate.example:8079", "gate.example.", "localhost:", "back.example"} {
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
	l := start(t, DefaultConfig(), Deps{})
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "POST /api/bans HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+testToken+"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", maxBody+1)
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
	c = Config{Listen: "nowhere", URL: "https://a/b", TLSCert: "x"}
	err := c.Validate()
	for _, want := range []string{
		"listen: ", "url: ", "tls_cert: ",
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
	f("0.0.0.0:8079", "", 1)
	f(":8079", "", 1)
	f("10.0.0.1:8079", "x.pem", 0)
	f("[::1]:8079", "", 0)
	f("localhost:8079", "", 0)
	f("", "", 0)
}
