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
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"antirobot/spravka"
)

// command runs `antirobot args…` to its end and returns its exit code and what it wrote.
func command(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("antirobot %s does not end: %v\n%s", strings.Join(args, " "), err, b)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// TestPitfall27BadConfigSaysEverything starts with a file in which many things are wrong, and asks for all of them.
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

// TestPitfall05ExampleKeyIsRefused starts with the key that the documentation shows, on its own and as an old one.
func TestPitfall05ExampleKeyIsRefused(t *testing.T) {
	t.Parallel()
	ring, err := spravka.NewRing([]spravka.Key{spravka.ExampleKey()})
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := ring.Rotate(time.Now(), 10*365*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]*spravka.Ring{"alone": ring, "as an old key": rotated} {
		keys := filepath.Join(t.TempDir(), "keys.json")
		if err := spravka.SaveRing(keys, r); err != nil {
			t.Fatal(err)
		}
		file := configFile(t, "keys: {file: %q}\nservices: [{name: a, upstream: {urls: [%q]}}]\n", keys, "http://127.0.0.1:1")
		code, out := command(t, "serve", "--config", file, "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		if code == 0 || !strings.Contains(out, "example key") || !strings.Contains(out, "antirobot keys make") {
			t.Errorf("%s: %d %s", what, code, out)
		}
	}
	t.Run("others may read the keys", func(t *testing.T) {
		dir := t.TempDir()
		if code, out := command(t, "keys", "make", "--data-dir", dir); code != 0 {
			t.Fatalf("keys make: %d %s", code, out)
		}
		if info, err := os.Stat(filepath.Join(dir, "keys.json")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of the new ring: %v %v", info, err)
		}
		if err := os.Chmod(filepath.Join(dir, "keys.json"), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out := command(t, "serve", "--upstream", "http://127.0.0.1:1", "--data-dir", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		if code == 0 || !strings.Contains(out, "chmod 600") {
			t.Errorf("%d %s", code, out)
		}
	})
}

// TestPitfall05RotationLogsNobodyOut rotates the keys under a visitor with a pass and a half-solved captcha, restarts,
// and then removes the old key.
func TestPitfall05RotationLogsNobodyOut(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v, half := visitor(t), visitor(t)
	g.earn(v, "/")
	form := formOf(t, half.get(half.get(g.url+"/half").Header.Get("Location")).body)
	form.Set("rep", testAnswer)
	old := v.pass(t, g.url)

	if code, out := command(t, "keys", "rotate", "--data-dir", g.dir); code != 0 {
		t.Fatalf("keys rotate: %d %s", code, out)
	}
	g.api("POST", "/api/reload", nil)
	v.get(g.url+"/").must(t, 200, "site got")
	half.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "")
	half.get(g.url+"/half").must(t, 200, "site got")
	if before, after := strings.SplitN(old, ".", 2)[0], strings.SplitN(half.pass(t, g.url), ".", 2)[0]; before == after {
		t.Errorf("both passes are sealed by key %s", before)
	}
	g.kill(syscall.SIGTERM)
	g.run()
	v.get(g.url+"/").must(t, 200, "site got")
	code, out := command(t, "keys", "list", "--data-dir", g.dir)
	if code != 0 || strings.Count(out, "opens") != 2 || strings.Count(out, "seals") != 1 {
		t.Errorf("keys list: %d\n%s", code, out)
	}
	raw, err := os.ReadFile(filepath.Join(g.dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"secret":\s*"([^"]+)"`).FindAllSubmatch(raw, -1) {
		if strings.Contains(out, string(m[1])) || strings.Contains(g.logs.String(), string(m[1])) {
			t.Error("a secret is shown")
		}
	}
	if err := os.Remove(filepath.Join(g.dir, "keys.json")); err != nil { // the keys have leaked: nothing of theirs counts
		t.Fatal(err)
	}
	if code, out := command(t, "keys", "make", "--data-dir", g.dir); code != 0 {
		t.Fatalf("keys make: %d %s", code, out)
	}
	g.api("POST", "/api/reload", nil)
	v.get(g.url+"/").must(t, 302, "")
}

// TestCaptchaTestAnswerIsLoud: who switches the protection off for a test can't overlook it.
func TestCaptchaTestAnswerIsLoud(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	if g.logs.find(5*time.Second, func(s string) bool {
		return strings.Contains(s, `"level":"warn"`) && strings.Contains(s, "captcha.test_answer")
	}) == "" {
		t.Error("the log does not warn")
	}
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	r := v.get(g.url + "/")
	page := v.get(r.Header.Get("Location")).must(t, 200, "Test mode")
	if r.Header.Get("X-Antirobot-Test") == "" || page.Header.Get("X-Antirobot-Test") == "" {
		t.Errorf("the answers are not marked: %v", r.Header)
	}
	plain := start(t, "serve", "--upstream", site(t).URL)
	plain.ban("ip:127.0.0.1", "10m")
	if r := visitor(t).get(plain.url + "/"); r.Header.Get("X-Antirobot-Test") != "" {
		t.Error("an ordinary gateway marks its answers as a test's")
	}
	if r := plain.solve(visitor(t), "/"); r.setsCookie("spravka") {
		t.Error("the test answer is right on an ordinary gateway")
	}
	if code, out := command(t, "serve", "--upstream", "http://127.0.0.1:1", "--captcha-test-answer", "abc", "--data-dir", t.TempDir()); code == 0 || !strings.Contains(out, "captcha.test_answer") {
		t.Errorf("a test answer of letters: %d %s", code, out)
	}
}

// TestPitfall15NoSecretsAnywhere lives through a session with every kind of secret, and then reads all that the
// gateway wrote and tells.
func TestPitfall15NoSecretsAnywhere(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--log-level", "debug", "--captcha-test-answer", testAnswer, "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: site
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xml]}
    captcha: {partners: [{name: acme, key: partner-key-0123456789}]}
    cookies:
      login: {algorithm: hmac, keys: [{key: login-key-login-key-login-key-123}]}
      service_cookie: {name: sid, keys: [{key: %s}]}
`, site(t).URL, serviceKey))
	secrets := map[string]string{
		"answer": testAnswer, "admin token": g.token, "partner's key": "partner-key-0123456789", "service key": serviceKey, "login key": "login-key-login-key-login-key-123",
		"session of the service": "sessionsecret123", "Authorization": "Basic dXNlcjpwYXNz", "query": "querysecret456", "form": "formsecret789",
		"login name": "alice-the-visitor", "service cookie's value": "visitor-4711",
	}
	login, err := spravka.SignService("L", "alice-the-visitor", time.Now(), []byte("login-key-login-key-login-key-123"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["login cookie"] = login
	secrets["service cookie"] = strings.TrimPrefix(signed(t, "visitor-4711"), "sid=")
	const addr = "203.0.113.1"
	v := from(t, addr)
	v.header.Set("Authorization", secrets["Authorization"])
	v.header.Set("Cookie", "session=sessionsecret123")
	v.get(g.url+"/?q=querysecret456").must(t, 200, "")
	g.ban("ip:"+addr, "10m")
	g.ban("L:alice-the-visitor", "10m")
	v.get(g.url+"/", "Cookie", "L="+login+"; "+signed(t, "visitor-4711")).must(t, 302, "")
	r := v.get(g.url + "/page?q=querysecret456")
	form := formOf(t, v.get(r.Header.Get("Location")).body)
	secrets["captcha key"] = form.Get("key")
	form.Set("rep", "000000")
	v.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	v.header.Del("Cookie")
	g.earn(v, "/")
	secrets["pass"] = v.pass(t, g.url)
	v.get(g.url+"/spend").must(t, 200, "site got")
	c := from(t, addr).get(g.url+"/api", "X-Requested-With", "XMLHttpRequest", "Cookie", "spravka=broken").challenge(t)
	secrets["inline key"] = c.Captcha.Key
	v.get(c.Captcha.Img)
	v.get(g.url + "/checkcaptcha?rep=" + testAnswer + "&key=" + c.Captcha.Key)
	page := from(t, addr).do("POST", g.url+"/post", "text=formsecret789", "Content-Type", "application/x-www-form-urlencoded").must(t, 200, `name="rep"`)
	secrets["sealed form"] = formOf(t, page.body).Get("saved")
	from(t, addr).get(g.url + "/xml?key=partner-key-0123456789&query=x")
	from(t, addr).get(g.url + "/xcheckcaptcha?key=bad&rep=" + testAnswer)
	g.tryAPI("POST", "/api/bans", map[string]string{"subject": "ip:bad", "ttl": "1h", "reason": "x"})
	req, _ := http.NewRequest("GET", g.admin+"/api/status", nil)
	req.Header.Set("Authorization", "Bearer wrong-token-0123456789")
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
	secrets["wrong admin token"] = "wrong-token-0123456789"
	keys, err := os.ReadFile(filepath.Join(g.dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["ring's secret"] = string(regexp.MustCompile(`"secret":\s*"([^"]+)"`).FindSubmatch(keys)[1])

	told := map[string]string{}
	for _, path := range []string{"/metrics", "/api/status", "/api/bans", "/api/lists", "/api/lists/ban", "/healthz", "/readyz", "/api/subjects/ip:" + addr, "/api/subjects/L:alice-the-visitor"} {
		told[path] = string(g.api("GET", path, nil))
	}
	told["a decision"] = string(g.api("GET", "/api/decisions/"+r.Header.Get("X-Request-Id"), nil))
	g.kill(syscall.SIGTERM) // writes the log out
	told["the log"] = g.logs.String()
	if !strings.Contains(told["the log"], `"message":"decision"`) || !strings.Contains(told["the log"], `"message":"request"`) {
		t.Fatal("the log has neither access lines nor decisions: this test sees nothing")
	}
	for what, secret := range secrets {
		if len(secret) < 6 {
			t.Fatalf("the test has no %s", what)
		}
		for where, text := range told {
			if what == "answer" { // digits stand in times too
				text = regexp.MustCompile(`\d+\.\d+|"time":"[^"]*"`).ReplaceAllString(text, "")
			}
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s stands in %s: …%s…", what, where, text[max(0, i-200):min(len(text), i+len(secret)+50)])
			}
		}
	}
}

// TestPitfall16PrivateListenerIsPrivate tries the admin's address as a web page, a stranger and a neighbour would, and
// the public one as somebody who looks for profiles.
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
		if flag == "demo" && !strings.Contains(help, "127.0.0.1:9090") {
			t.Errorf("demo listens elsewhere:\n%s", help)
		}
	}
	file := configFile(t, "admin: {listen: \"0.0.0.0:9090\"}\nservices: [{name: a, upstream: {urls: [\"http://127.0.0.1:1\"]}}]\n")
	if code, out := command(t, "check-config", file); code != 0 || !strings.Contains(out, "warning: admin.listen") {
		t.Errorf("a private listener for all and without TLS: %d %s", code, out)
	}
}

// TestRevocation takes one pass back by its ID, as the log names it, and others not.
func TestRevocation(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	one, two := visitor(t), visitor(t)
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
