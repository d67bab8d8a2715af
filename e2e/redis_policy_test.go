package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"antirobot/store/redisstore/redistest"
)

// TestRedisStoreFailurePolicy gives one service the policy closed, and makes the store unavailable: its passes no longer
// pay.
func TestRedisStoreFailurePolicy(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	p := redistest.StartProxy(t, r.Addr)
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	text := fmt.Sprintf(`
store: {url: "redis://%s", redis: {timeout: 300ms}}
keys: {secret_file: %q}
captcha: {test_answer: "%s"}
defaults: {upstream: {urls: [%q]}}
services:
  - {name: open, hosts: [open.test], verdict: {on_store_failure: open}, captcha: {on_store_failure: open}}
  - {name: closed, hosts: [closed.test], verdict: {on_store_failure: closed}, captcha: {on_store_failure: closed}}
`, p.Addr, secretFile(t), testAnswer, site(t).URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, "serve", "--config", file)
	g.ban("ip:127.0.0.1", "10m")
	ask := func(host, path, pass string) int {
		t.Helper()
		req, err := http.NewRequest("GET", g.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		asBrowser(req)
		req.Header.Set("Cookie", "spravka="+pass)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	earn := func(host string) string {
		t.Helper()
		req := func(method, path, body string) *http.Response {
			t.Helper()
			req, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			asBrowser(req)
			req.Header.Set("Accept", "text/html")
			req.Header.Set("Accept-Encoding", "identity")
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		res := req("GET", "/", "")
		_ = res.Body.Close()
		at, err := res.Location()
		if err != nil {
			t.Fatalf("%d: %v", res.StatusCode, err)
		}
		page := req("GET", at.RequestURI(), "")
		body, err := io.ReadAll(page.Body)
		_ = page.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		form := formOf(t, string(body))
		form.Set("rep", testAnswer)
		done := req("POST", "/checkcaptcha", form.Encode())
		_ = done.Body.Close()
		for _, c := range done.Cookies() {
			if c.Name == "spravka" {
				return c.Value
			}
		}
		t.Fatalf("no pass on %s: %d", host, done.StatusCode)
		return ""
	}
	open, closed := earn("open.test"), earn("closed.test")
	for host, pass := range map[string]string{"open.test": open, "closed.test": closed} {
		if s := ask(host, "/x", pass); s != 200 {
			t.Fatalf("a pass on %s: %d", host, s)
		}
	}
	p.Cut()
	eventually(t, "health says so", func() bool { status, _ := g.health(); return status == "degraded" })
	// The ledger learns of it when it next asks for a lease.
	eventually(t, "the closed service lets no pass pay", func() bool { return ask("closed.test", "/x", closed) == 302 })
	if s := ask("open.test", "/x", open); s != 200 {
		t.Errorf("the open service: %d", s)
	}
	p.Heal()
	eventually(t, "health recovers", func() bool { status, _ := g.health(); return status == "ok" })
	eventually(t, "the closed service lets passes pay again", func() bool { return ask("closed.test", "/x", closed) == 200 })
}

// TestRedisACL starts a gateway as the user given in docs/scaling.md, on a server whose only other user may do nothing but
// check whether something was refused.
func TestRedisACL(t *testing.T) {
	t.Parallel()
	acl := strings.ReplaceAll(fromScaling(t, "acl"), "PASSWORD", "secret")
	file := writeFile(t, "users.acl", "user default off\nuser watcher on >seen resetkeys -@all +acl|log\n"+acl)
	r := redistest.Start(t, "--aclfile", file)
	all := fleet(t, 2, "redis://antirobot:secret@"+r.Addr, "--trusted-proxies", "127.0.0.1")
	a, b := all[0], all[1]
	a.ban("ip:203.0.113.1", "10m")
	eventually(t, "the ban on B", func() bool { return b.asks(visitor(t), "/", "203.0.113.1") == 302 })
	v := visitor(t)
	v.header.Set("X-Forwarded-For", "203.0.113.1")
	a.earn(v, "/")
	v.get(b.url+"/x").must(t, 200, "site got")
	for _, g := range all {
		if status, err := g.health(); status != "ok" {
			t.Errorf("health: %s, %s", status, err)
		}
	}
	if got := r.CLI(t, "--no-auth-warning", "--user", "watcher", "--pass", "seen", "acl", "log"); got != "" {
		t.Errorf("the server refused:\n%s", got)
	}
}
