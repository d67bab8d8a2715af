package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// command runs `antirobot args…` to its end and returns its exit code and what it wrote.
func command(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("antirobot %s does not end: %v\n%s", strings.Join(args, " "), err, b)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// TestPitfall27BadConfigSaysEverything starts with a file that has many errors, and expects all of them to be reported.
func TestPitfall27BadConfigSaysEverything(t *testing.T) {
	t.Parallel()
	file := configFile(t, `
colour: blue
listen: [{address: nowhere, tls_cert: only.pem}]
identity: {trusted_proxies: [10.0.0.0/8, everybody]}
captcha: {digits: 2, key_ttl: soon}
http: {max_header_bytes: 3}
lists: {refresh: 1s, ban: [not-an-address], lists: [{name: x, flag: maybe, file: a, url: "http://b"}]}
services:
  - name: one
    hosts: ["http://one.example"]
    verdict: {mode: perhaps, limits: [{window: 10s, requests: 1, ban: 10m}]}
    upstream: {urls: ["ftp://x", "http://u:p@h"]}
    paths: [{prefix: admin, hosts: [x]}]
  - {name: one, requests: {xml_path: [/x]}}
`)
	want := []string{
		"colour: unknown key", "listen[0].address:", "listen[0].tls_cert:", "identity.trusted_proxies[1]:", "captcha.digits:", "captcha.key_ttl", "http.max_header_bytes:",
		"lists.refresh:", "lists.ban[0]:", "lists.lists[0].flag:", "lists.lists[0]:", "services[0].hosts[0]:", "services[0].verdict.mode:",
		"services[0].verdict.limits[0].requests:", "services[0].upstream.urls[0]:", "services[0].upstream.urls[1]:", "services[0].paths[0].prefix:", "services[0].paths[0].hosts:",
		"services[1].name:", "services[1].requests.xml_path: unknown key", "services[1].upstream.urls:",
	}
	for _, args := range [][]string{{"serve", "--config", file, "--data-dir", t.TempDir()}, {"check-config", file}} {
		code, out := command(t, args...)
		if code == 0 {
			t.Errorf("%s succeeds", args[0])
		}
		for _, w := range want {
			if !strings.Contains(out, "  "+w) {
				t.Errorf("%s: no line begins with %q in\n%s", args[0], w, out)
			}
		}
		if strings.Contains(out, "u:p@") {
			t.Errorf("%s shows a password:\n%s", args[0], out)
		}
	}
	if code, out := command(t, "serve", "--config", filepath.Join(t.TempDir(), "absent.yaml")); code == 0 || !strings.Contains(out, "absent.yaml") {
		t.Errorf("an absent file: %d %s", code, out)
	}
	if code, out := command(t, "serve"); code == 0 || !strings.Contains(out, "--upstream") {
		t.Errorf("without anything: %d %s", code, out)
	}
}

// TestPitfall16PrivateListenerIsPrivate accesses the admin's address as a web page, a stranger and a neighbour would, and
// the public one like somebody who looks for profiles.
func TestPitfall16PrivateListenerIsPrivate(t *testing.T) {
	t.Parallel()
	g := serve(t, mirror(t))
	ban := `{"subject":"ip:192.0.2.1","ttl":"10m","reason":"x"}`
	ask := func(method, path, body string, header ...string) int {
		t.Helper()
		req, err := http.NewRequest(method, g.admin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			if header[i] == "Host" {
				req.Host = header[i+1]
			}
			req.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	auth := []string{"Authorization", "Bearer " + g.token, "Content-Type", "application/json"}
	for _, path := range []string{"/api/bans", "/api/status", "/api/lists", "/api/decisions/x", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile"} {
		if got := ask("GET", path, ""); got != 401 {
			t.Errorf("GET %s without a token: %d", path, got)
		}
		if got := ask("GET", path+"?token="+g.token, "", "Cookie", "token="+g.token); got != 401 {
			t.Errorf("GET %s with the token elsewhere: %d", path, got)
		}
	}
	for what, c := range map[string]struct {
		header []string
		want   int
	}{
		"no token":              {[]string{"Content-Type", "application/json"}, 401},
		"half a token":          {[]string{"Authorization", "Bearer " + g.token[:16], "Content-Type", "application/json"}, 401},
		"a page of the same":    {append(auth, "Origin", g.admin), 403},
		"a foreign page":        {append(auth, "Origin", "https://evil.example"), 403},
		"a sandboxed page":      {append(auth, "Origin", "null"), 403},
		"a rebound name":        {append(auth, "Host", "evil.example"), 403},
		"a form":                {[]string{"Authorization", "Bearer " + g.token, "Content-Type", "application/x-www-form-urlencoded"}, 415},
		"text that looks like":  {[]string{"Authorization", "Bearer " + g.token, "Content-Type", "text/plain"}, 415},
		"a page without origin": {append(auth, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), 403},
	} {
		if got := ask("POST", "/api/bans", ban, c.header...); got != c.want {
			t.Errorf("%s: %d, wanted %d", what, got, c.want)
		}
	}
	if got := string(g.api("GET", "/api/bans", nil)); strings.Contains(got, "192.0.2.1") {
		t.Errorf("one of them made a ban: %s", got)
	}
	if got := ask("POST", "/api/bans", ban, auth...); got != 200 && got != 201 {
		t.Errorf("the operator: %d", got)
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/metrics", "/api/bans", "/api/reload", "/healthz", "/readyz"} {
		if _, uri := visitor(t).get(g.url+path, auth...).mirrored(t); uri != path {
			t.Errorf("%s on the public port is not the service's", path)
		}
	}
	if info, err := os.Stat(filepath.Join(g.dir, "admin.token")); err != nil || info.Mode().Perm() != 0o600 || len(g.token) < 32 {
		t.Errorf("the token's file: %v %v, %d characters", info, err, len(g.token))
	}
	for _, flag := range []string{"serve", "demo"} { // reachable from this machine alone unless somebody says otherwise
		_, help := command(t, flag, "--help")
		if flag == "demo" && !strings.Contains(help, "127.0.0.1:8079") {
			t.Errorf("demo listens elsewhere:\n%s", help)
		}
	}
	file := configFile(t, "admin: {listen: \"0.0.0.0:8079\"}\nservices: [{name: a, upstream: {urls: [\"http://127.0.0.1:1\"]}}]\n")
	if code, out := command(t, "check-config", file); code != 0 || !strings.Contains(out, "warning: admin.listen") {
		t.Errorf("a private listener for all and without TLS: %d %s", code, out)
	}
}

// TestRevocation revokes one pass by its ID, as the log names it, and no others.
func TestRevocation(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	one, two := visitor(t), visitor(t).speaks("de")
	g.earn(one, "/")
	g.earn(two, "/")
	s := g.whyIn(t, "one", one.get(g.url+"/").must(t, 200, "site got"))
	g.api("POST", "/api/revoke", map[string]string{"pass": strings.TrimPrefix(s.Pass.ID, "spravka:")})
	one.get(g.url+"/").must(t, 302, "")
	two.get(g.url+"/").must(t, 200, "site got")
	g.kill(syscall.SIGKILL)
	g.run()
	one.get(g.url+"/").must(t, 302, "")
	two.get(g.url+"/").must(t, 200, "site got")
}

// TestStatusTellsWhatRuns reads the page that an operator looks at first.
func TestStatusTellsWhatRuns(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	var s struct {
		Version  string
		Ready    bool
		Services []struct {
			Name, Mode string
			Upstreams  []struct{ Healthy bool }
		}
		Store struct{ Healthy bool }
	}
	if err := json.NewDecoder(bytes.NewReader(g.api("GET", "/api/status", nil))).Decode(&s); err != nil {
		t.Fatal(err)
	}
	if s.Version == "" || !s.Ready || !s.Store.Healthy || fmt.Sprint(s.Services) != "[{default enforce [{true}]}]" {
		t.Errorf("status: %+v", s)
	}
}
