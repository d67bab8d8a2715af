package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// checker is a gateway in check mode.
type checker struct {
	*gateway
	check string // http://127.0.0.1:port, where balancers ask
}

// serveCheck runs the gateway with a check listener; settings are further keys of its check section, and more is further
// sections of the file.
func serveCheck(t *testing.T, upstream, settings, more string) *checker {
	t.Helper()
	file := filepath.Join(t.TempDir(), "check.yaml")
	text := fmt.Sprintf(`
check:
  listen: ["127.0.0.1:0"]
%s
defaults:
  upstream: {urls: [%q]}
  requests: {xml_paths: [/xmlsearch]}
  captcha:
    work: true
    partners:
      - {name: acme, key: partner-key-0123456789}
%s
`, indent(settings, "  "), upstream, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, "serve", "--config", file, "--captcha-test-answer", testAnswer)
	return &checker{g, "http://" + g.listening("balancers")}
}

func indent(s, by string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(by + line)
	}
	return b.String()
}

// The addresses that visitors have in these tests.
const (
	goodUser = "203.0.113.10"
	badUser  = "203.0.113.66"
)

// forwarded are the fields of a check with the set X-Forwarded-*.
func forwarded(method, url, addr string, more ...string) []string {
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	return append([]string{
		"X-Forwarded-Method", method, "X-Forwarded-Host", host, "X-Forwarded-Uri", "/" + path,
		"X-Forwarded-Proto", scheme, "X-Forwarded-For", addr,
	}, more...)
}

// TestCheckVerdict asks as a balancer does.
func TestCheckVerdict(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "")
	g.ban("ip:"+badUser, "10m")
	g.api("POST", "/api/lists/block", map[string]string{"entry": "203.0.113.77", "ttl": "10m", "reason": "test"})
	b := visitor(t)
	b.Jar = nil
	check := func(query, method, url, addr string, more ...string) *response {
		t.Helper()
		return b.get(g.check+"/check"+query, forwarded(method, url, addr, more...)...)
	}
	const page = "https://shop.example:8443/a?b=1&c=2"

	t.Run("human", func(t *testing.T) {
		r := check("", "GET", page, goodUser).must(t, 200, "")
		for name, want := range map[string]string{"X-Antirobot-Verdict": "human", "X-Antirobot-Reason": "none", "Cache-Control": "no-store"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, wanted %q", name, got, want)
			}
		}
		c := r.Cookies()
		if len(c) != 1 || c[0].Name != "i" || !c[0].Secure {
			t.Errorf("cookies %v, wanted a secure i for the balancer to copy", c)
		}
		if again := check("", "GET", page, goodUser, "Cookie", "i="+c[0].Value); len(again.Cookies()) != 0 {
			t.Errorf("a browser with an i cookie got %v", again.Cookies())
		}
	})
	t.Run("captcha", func(t *testing.T) {
		for _, method := range []string{"HEAD", "POST", "DELETE"} { // a program's: balancers follow no Location there
			if r := check("", method, page, badUser).must(t, 403, ""); r.Header.Get("Location") != "" {
				t.Errorf("%s of a program: %v", method, r.Header)
			}
		}
		for range 2 {
			r := check("", "GET", page, badUser).must(t, 401, "")
			if v, why := r.Header.Get("X-Antirobot-Verdict"), r.Header.Get("X-Antirobot-Reason"); v != "captcha" || why != "ban" {
				t.Errorf("verdict %q, reason %q", v, why)
			}
			to := r.Header.Get("Location")
			if want := "https://shop.example:8443/showcaptcha?cc=1&retpath=https%3A%2F%2Fshop.example%3A8443%2Fa%3Fb%3D1%26c%3D2&t="; !strings.HasPrefix(to, want) {
				t.Errorf("Location %s, wanted %s…", to, want)
			}
		}
		if r := check("", "GET", page, badUser, "X-Requested-With", "XMLHttpRequest"); r.StatusCode != 401 || r.body != "" {
			t.Errorf("a script's call: %d %q", r.StatusCode, r.body)
		}
	})
	t.Run("blocked", func(t *testing.T) {
		r := check("", "GET", page, "203.0.113.77").must(t, 403, "")
		if v, why := r.Header.Get("X-Antirobot-Verdict"), r.Header.Get("X-Antirobot-Reason"); v != "blocked" || why != "own-block" {
			t.Errorf("verdict %q, reason %q", v, why)
		}
	})
	t.Run("a preflight passes", func(t *testing.T) {
		check("", "OPTIONS", page, badUser, "Origin", "https://other.example", "Access-Control-Request-Method", "POST").must(t, 200, "")
	})
	t.Run("own pages are to be sent here", func(t *testing.T) {
		r := check("", "GET", "https://shop.example/showcaptcha?cc=1", badUser).must(t, 401, "")
		if r.Header.Get("X-Antirobot-Reason") != "own-page" {
			t.Errorf("reason %q", r.Header.Get("X-Antirobot-Reason"))
		}
		check("?style=forward", "GET", "https://shop.example/showcaptcha?cc=1", badUser).must(t, 421, "without a check")
	})
	t.Run("forward", func(t *testing.T) {
		r := check("?style=forward", "GET", page, badUser).must(t, 302, "")
		if to := r.Header.Get("Location"); !strings.HasPrefix(to, "https://shop.example:8443/showcaptcha?cc=1&retpath=") {
			t.Errorf("Location %s", to)
		}
		check("?style=forward", "GET", page, goodUser).must(t, 200, "")
		check("?style=forward", "GET", page, "203.0.113.77").must(t, 403, "request")
		check("?style=forward", "GET", page, badUser, "X-Requested-With", "XMLHttpRequest").must(t, 403, `"captcha-page":"https://shop.example:8443/showcaptcha?`)
		check("?style=forward", "GET", "https://shop.example/xmlsearch?query=go", badUser).must(t, 403, `<error code="100">`)
		check("?style=forward", "GET", page, badUser, "Sec-Fetch-Dest", "image").must(t, 403, "")
		check("?style=backward", "GET", page, badUser).must(t, 400, "style")
	})
	t.Run("wrong calls", func(t *testing.T) {
		for name, change := range map[string]func([]string) []string{
			"X-Forwarded-Uri is missing":              func(f []string) []string { f[4] = "X-Other"; return f },
			"X-Forwarded-Method is missing":           func(f []string) []string { f[0] = "X-Other"; return f },
			"X-Forwarded-Proto is missing":            func(f []string) []string { f[7] = ""; return f },
			"X-Forwarded-For is missing":              func(f []string) []string { f[9] = ""; return f },
			"X-Forwarded-For does not end with an ad": func(f []string) []string { f[9] = goodUser + ", unknown"; return f },
			"X-Forwarded-Proto is neither http nor":   func(f []string) []string { f[7] = "gopher"; return f },
			"X-Forwarded-Host is not a host":          func(f []string) []string { f[3] = "evil@shop.example"; return f },
			"X-Forwarded-Uri is not a path":           func(f []string) []string { f[5] = "https://evil.example/"; return f },
			"X-Forwarded-Method is no method":         func(f []string) []string { f[1] = "GET /"; return f },
		} {
			f := change(forwarded("GET", page, badUser))
			b.get(g.check+"/check", f...).must(t, 400, name)
		}
	})
	t.Run("a field that comes twice", func(t *testing.T) {
		for _, name := range []string{"X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Uri", "X-Forwarded-Proto", "X-Forwarded-For"} {
			f := forwarded("GET", page, badUser)
			lines := ""
			for i := 0; i < len(f); i += 2 {
				lines += f[i] + ": " + f[i+1] + "\r\n"
				if f[i] == name {
					lines += strings.ToLower(f[i]) + ": " + f[i+1] + "\r\n"
				}
			}
			got := raw(t, g.check, "GET /check HTTP/1.1\r\nHost: x\r\n"+lines+"Connection: close\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, name+" comes twice") {
				t.Errorf("%s twice: %s", name, got)
			}
		}
	})
	t.Run("the last hop counts", func(t *testing.T) {
		check("", "GET", page, goodUser+", "+badUser).must(t, 401, "")
		check("", "GET", page, badUser+", "+goodUser).must(t, 200, "")
		check("", "GET", page, badUser+":4711").must(t, 401, "")
		check("", "GET", page, "[2001:db8::1]:4711").must(t, 200, "")
	})
	t.Run("fields of the other set are the client's words", func(t *testing.T) {
		check("", "GET", page, badUser, "X-Original-Addr", goodUser, "X-Original-URI", "/other", "X-Real-Ip", goodUser).must(t, 401, "")
	})
}

// TestCheckChallenge sends requests that a check has stopped.
func TestCheckChallenge(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "")
	g.ban("ip:"+badUser, "10m")
	v := visitor(t)
	v.header.Set("X-Forwarded-For", badUser)
	v.header.Set("X-Forwarded-Proto", "http")
	before := g.metric("antirobot_requests_total{")

	to := v.get(g.check+"/a?b=1").must(t, 302, "").Header.Get("Location")
	if !strings.HasPrefix(to, g.check+"/showcaptcha?") {
		t.Fatalf("Location %s", to)
	}
	v.get(to).must(t, 200, "<form")
	v.get(g.check+"/api", "X-Requested-With", "XMLHttpRequest").must(t, 200, `"type":"captcha"`)
	v.get(g.check+"/xmlsearch?query=go").must(t, 200, `<error code="100">Robot request</error>`)
	v.get(g.check+"/x.png", "Sec-Fetch-Dest", "image").must(t, 403, "")
	if n := g.metric("antirobot_requests_total{") - before; n != 0 {
		t.Errorf("%v challenge calls were counted as requests", n)
	}
	v.get(g.check+"/a", "X-Forwarded-For", "").must(t, 400, "X-Forwarded-For is missing")

	t.Run("a human is led back", func(t *testing.T) {
		r := v.do("POST", g.check+"/a?b=1", "x=y", "X-Forwarded-For", goodUser).must(t, 307, "")
		if got := r.Header.Get("Location"); got != g.check+"/a?b=1" {
			t.Errorf("Location %s", got)
		}
	})
}

// TestCheckSpendsOnce: a check takes one unit of an allowance, and the challenge call takes none.
func TestCheckSpendsOnce(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "\ncaptcha: {pass: {allowance: 3}}\n")
	g.ban("ip:"+badUser, "10m")
	v := visitor(t)
	v.header.Set("X-Forwarded-For", badUser)
	v.header.Set("X-Forwarded-Proto", "http")
	solve(t, v, v.get(g.check+"/").must(t, 302, "").Header.Get("Location")).must(t, 303, "")
	url := g.check + "/page"
	check := func() int {
		return v.get(g.check+"/check", forwarded("GET", url, badUser)...).StatusCode
	}
	for i := range 3 {
		v.get(g.check+"/page").must(t, 307, "") // would find a human, as often as one likes
		if got := check(); got != 200 {
			t.Fatalf("check %d: %d", i+1, got)
		}
	}
	if got := check(); got != 401 {
		t.Errorf("the fourth check got %d", got)
	}
	if n := g.metric("antirobot_captcha_returned_total"); n != 1 {
		t.Errorf("the visitor came back %v times", n)
	}
	v.get(g.check+"/page").must(t, 302, "")
}

// solve answers the captcha page at url.
func solve(t *testing.T, v *client, url string) *response {
	t.Helper()
	page := v.get(url).must(t, 200, "<form")
	return v.do("POST", origin(url)+"/checkcaptcha", answered(t, page.body, testAnswer), "Content-Type", "application/x-www-form-urlencoded")
}

// TestCheckEvents: a pace that only checks see leads to a ban.
func TestCheckEvents(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "", "\n  verdict:\n    limits: [{window: 10s, requests: 20, ban: 5m}]\n")
	b := visitor(t)
	b.Jar = nil
	b.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0") // a tool is banned sooner
	b.header.Set("Accept", "text/html")
	deadline := time.Now().Add(patience)
	for i := 0; ; i++ {
		r := b.get(g.check+"/check", forwarded("GET", fmt.Sprintf("http://shop.example/%d", i), goodUser)...)
		if r.StatusCode == 401 {
			if i < 20 {
				t.Errorf("banned after %d requests", i)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not banned after %d requests: the processor does not learn from checks", i)
		}
	}
}

// TestCheckWhoMayAsk: only a balancer's address, or the secret.
func TestCheckWhoMayAsk(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "allowed: [192.0.2.1]\nsecret: 0123456789abcdef-secret", "")
	b := visitor(t)
	b.Jar = nil
	ask := func(secret ...string) *response {
		f := forwarded("GET", "http://shop.example/", goodUser)
		for _, s := range secret {
			f = append(f, "X-Antirobot-Secret", s)
		}
		return b.get(g.check+"/check", f...)
	}
	if r := ask().must(t, 403, "may not ask"); r.Header.Get("X-Antirobot-Verdict") != "" {
		t.Error("a refusal looks like a verdict")
	}
	ask("0123456789abcdef-secreT").must(t, 403, "")
	ask("").must(t, 403, "")
	ask("0123456789abcdef-secret").must(t, 200, "")
	got := raw(t, g.check, "GET /check HTTP/1.1\r\nHost: x\r\nX-Antirobot-Secret: 0123456789abcdef-secret\r\nX-Antirobot-Secret: x\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("two secrets: %s", got)
	}
	b.get(g.check+"/showcaptcha", "X-Forwarded-For", goodUser, "X-Forwarded-Proto", "http").must(t, 403, "may not ask")
}

// TestCheckOriginalSet reads X-Original-*; X-Forwarded-* are then treated as the client's.
func TestCheckOriginalSet(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "headers: original", "\nidentity: {trusted_proxies: [198.51.100.0/24]}\n")
	g.ban("ip:"+badUser, "10m")
	b := visitor(t)
	b.Jar = nil
	ask := func(addr string, more ...string) *response {
		return b.get(g.check+"/check", append([]string{
			"X-Original-Method", "GET", "X-Original-Host", "shop.example", "X-Original-URI", "/a?b=1", "X-Original-Addr", addr,
			"X-Original-Proto", "https",
		}, more...)...)
	}
	ask(goodUser).must(t, 200, "")
	ask(goodUser, "X-Forwarded-For", badUser).must(t, 200, "")
	to := ask(badUser, "X-Forwarded-For", goodUser, "X-Forwarded-Host", "evil.example").must(t, 401, "").Header.Get("Location")
	if !strings.HasPrefix(to, "https://shop.example/showcaptcha?") {
		t.Errorf("Location %s", to)
	}
	// a proxy before the balancer that identity trusts: what it appended counts
	ask("198.51.100.9", "X-Forwarded-For", badUser).must(t, 401, "")
}

// TestCheckOnError asks about a host that no service has.
func TestCheckOnError(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]int{"open": 200, "closed": 503} {
		file := filepath.Join(t.TempDir(), "check.yaml")
		text := fmt.Sprintf(`
check: {listen: ["127.0.0.1:0"], on_error: %s}
services:
  - {name: shop, hosts: [shop.example], upstream: {urls: ["http://127.0.0.1:1"]}}
`, policy)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		g := start(t, "serve", "--config", file)
		at := "http://" + g.listening("balancers")
		b := visitor(t)
		r := b.get(at+"/check", forwarded("GET", "http://unknown.example/", goodUser)...).must(t, want, "")
		if r.Header.Get("X-Antirobot-Reason") != "no-service" {
			t.Errorf("%s: reason %q", policy, r.Header.Get("X-Antirobot-Reason"))
		}
		b.get(at+"/check", forwarded("GET", "http://shop.example/", goodUser)...).must(t, 200, "")
		b.get(at+"/", forwarded("GET", "http://x/", goodUser)...).must(t, 421, "")
		if g.metric("antirobot_checks_total{", `style="verdict"`, `answer="error"`) != 1 {
			t.Error("not counted")
		}
	}
}

// TestCheckFull gets full answers.
func TestCheckFull(t *testing.T) {
	t.Parallel()
	g := serveCheck(t, site(t).URL, "style: full", "")
	g.ban("ip:"+badUser, "10m")
	v := visitor(t)
	v.header.Set("X-Forwarded-Proto", "http")
	human := []string{"X-Forwarded-For", goodUser}
	robot := []string{"X-Forwarded-For", badUser}

	r := v.get(g.check+"/a", human...).must(t, 200, "")
	for name, want := range map[string]string{"X-Accel-Redirect": "@backend", "X-Antirobot-Verdict": "human", "Cache-Control": "", "Content-Type": ""} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, wanted %q", name, got, want)
		}
	}
	if r.body != "" || len(r.Cookies()) != 1 {
		t.Errorf("body %q, cookies %v", r.body, r.Cookies())
	}
	v.get(g.check+"/check", human...).must(t, 200, "")
	v.get(g.check+"/check", robot...).must(t, 302, "")
	// what a client says in the fields of checks is nothing here
	v.get(g.check+"/a", append(robot, "X-Forwarded-Method", "OPTIONS", "X-Forwarded-Uri", "/other", "X-Forwarded-Host", "evil.example",
		"X-Original-Addr", goodUser, "X-Original-URI", "/other", "X-Accel-Redirect", "@evil")...).must(t, 302, "")
	v.get(g.check+"/a", "X-Forwarded-For", badUser+", "+goodUser).must(t, 200, "")
	v.get(g.check+"/a").must(t, 400, "X-Forwarded-For is missing")
	v.get(g.check+"/api", append(robot, "X-Requested-With", "XMLHttpRequest")...).must(t, 200, `"type":"captcha"`)
	v.get(g.check+"/xmlsearch?query=go", robot...).must(t, 200, `<error code="100">`)

	form := v.do("POST", g.check+"/guestbook?x=1", "name=Anna&text=hello", append(robot, "Content-Type", "application/x-www-form-urlencoded")...).
		must(t, 200, "<form")
	sent := v.do("POST", g.check+"/checkcaptcha", answered(t, form.body, testAnswer), append(robot, "Content-Type", "application/x-www-form-urlencoded")...)
	sent.must(t, 200, "site got POST /guestbook?x=1").must(t, 200, "body: name=Anna&text=hello").must(t, 200, "X-Forwarded-For: "+badUser)
	v.get(g.check+"/a", robot...).must(t, 200, "") // with the pass
}

// TestBalancerTellsAnswers: nginx and HAProxy tell the gateway what the service has answered, and from then on a script's call is
// recognized as one, although the gateway sees no answer. Without such a report, or with one from a sender that may not
// give it, nothing changes.
func TestBalancerTellsAnswers(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, gateway, service string) string{
		"nginx": func(t *testing.T, gateway, service string) string {
			return runNginx(t, "auth_request.conf", gateway, service)
		},
		"haproxy": func(t *testing.T, gateway, service string) string { return runHAProxy(t, gateway, service) },
	} {
		t.Run(name, func(t *testing.T) { balancerTells(t, run) })
	}
}

func balancerTells(t *testing.T, run func(t *testing.T, gateway, service string) string) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if strings.HasPrefix(r.URL.Path, "/data/") {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
		}
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(service.Close)
	g := serveCheck(t, service.URL, "style: verdict", "")
	url := run(t, strings.TrimPrefix(g.check, "http://"), strings.TrimPrefix(service.URL, "http://"))
	counted := func(path string) string {
		t.Helper()
		r := visitor(t).get(g.check+"/check", forwarded("GET", "http://localhost"+path, goodUser,
			"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin", "Accept", "*/*")...)
		r.must(t, 200, "")
		var why string
		eventually(t, "the story says what the request was counted as", func() bool {
			_, b := g.tryAPI("GET", "/api/decisions/"+r.Header.Get("X-Request-Id"), nil)
			why = string(b)
			return strings.Contains(why, `"counted"`)
		})
		return why
	}
	if why := counted("/data/1"); !strings.Contains(why, `"as":"page"`) {
		t.Errorf("before anybody has told: %s", why)
	}
	for range 3 {
		visitor(t).get(url+"/data/1").must(t, 200, "{}")
		visitor(t).get(url+"/page/1").must(t, 200, "{}")
	}
	eventually(t, "what the balancer has told is known", func() bool { return strings.Contains(counted("/data/1"), `"as":"script call"`) })
	if why := counted("/page/1"); !strings.Contains(why, `"as":"page"`) {
		t.Errorf("a page that a script asks for: %s", why)
	}
	tell := func(value string) int {
		return visitor(t).get(g.check+"/check?style=answer", forwarded("GET", "http://localhost/page/2", goodUser, "X-Antirobot-Answer", value)...).StatusCode
	}
	if a, b := tell("200 application/json"), tell("text/html"); a != 204 || b != 400 {
		t.Errorf("told rightly: %d, wrongly: %d", a, b)
	}
}

// TestCheckDocs: docs/scaling.md shows the tested files, completely and unchanged, and no files that
// do not exist.
func TestCheckDocs(t *testing.T) {
	t.Parallel()
	showsDeployed(t, "docs/scaling.md", "fleet")
}

func showsDeployed(t *testing.T, doc string, dirs ...string) {
	t.Helper()
	b, err := os.ReadFile("../" + doc)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, part := range strings.Split(string(b), "<!-- deploy/")[1:] {
		name, rest, _ := strings.Cut(part, " -->\n```")
		_, rest, _ = strings.Cut(rest, "\n") // the language
		text, _, closed := strings.Cut(rest, "\n```\n")
		if !closed {
			t.Fatalf("deploy/%s: the block does not end", name)
		}
		shown[name] = text + "\n"
	}
	for _, dir := range dirs {
		files, err := filepath.Glob("../deploy/" + dir + "/*")
		if err != nil || len(files) == 0 {
			t.Errorf("deploy/%s is empty: %v", dir, err)
		}
		for _, f := range files {
			name := dir + "/" + filepath.Base(f)
			want, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := shown[name]; !ok || got != string(want) {
				t.Errorf("%s does not show deploy/%s as it is", doc, name)
			}
			delete(shown, name)
		}
	}
	for name := range shown {
		t.Errorf("%s shows deploy/%s, which does not exist", doc, name)
	}
}

const checkRules = `
rules:
  text: |
    do regexpCheck(regexp="/odd", attribute="path") mark notodd
    if not notodd stop as MARK
    do regexpCheck(regexp="/aside", attribute="path") mark inside
    if not inside stop as QUARANTINE
    do userFrequencyCheck(attribute="ip", count=2) mark fast
    if fast stop as CAPTCHA
messages:
  routes:
    - {route: POST /comments, sources: [{attribute: text, from: form, key: words}]}
`

const checkMessages = `
message:
  partners:
    - name: default
      domain:
        properties:
          - name: messageAnalyzer
            class: Firewall
            rules: |
              do regexpCheck(regexp=".*casino") mark clean
              if not clean stop as SPAM
              stop as OK
`

// TestCheckRules: request rules apply in both styles of check mode; messages are judged only in style full, and the gateway
// says at its start that the other style can't.
func TestCheckRules(t *testing.T) {
	t.Parallel()
	b := visitor(t)
	b.Jar = nil
	t.Run("verdict", func(t *testing.T) {
		g := serveCheck(t, site(t).URL, "", indent(checkRules, "  ")+checkMessages)
		if g.logs.find(func(s string) bool { return strings.Contains(s, "messages.routes: a balancer that asks") }) == "" {
			t.Error("nothing says that messages are not judged")
		}
		check := func(addr, path string) *response {
			t.Helper()
			return b.get(g.check+"/check", forwarded("GET", "http://site.example"+path, addr)...)
		}
		if r := check(goodUser, "/odd").must(t, 200, ""); r.Header.Get("X-Antirobot-Mark") != "MARK" {
			t.Errorf("no mark: %v", r.Header)
		}
		if r := check(goodUser, "/aside").must(t, 403, ""); r.Header.Get("X-Antirobot-Reason") != "rule" {
			t.Errorf("%v", r.Header)
		}
		for range 2 {
			check("203.0.113.20", "/").must(t, 200, "")
		}
		check("203.0.113.20", "/").must(t, 401, "")
		// The challenge call decides again, and counts nothing.
		call := append([]string{"Host", "site.example"}, "X-Forwarded-For", "203.0.113.20", "X-Forwarded-Proto", "http", "X-Forwarded-Host", "site.example")
		b.get(g.check+"/", call...).must(t, 302, "")
	})
	t.Run("full", func(t *testing.T) {
		g := serveCheck(t, site(t).URL, "style: full", indent(checkRules, "  ")+checkMessages)
		post := func(words string, more ...string) *response {
			t.Helper()
			return b.do("POST", g.check+"/comments", "words="+words, append([]string{"Content-Type", form, "X-Forwarded-For", goodUser, "X-Forwarded-Proto", "http"}, more...)...)
		}
		if r := post("hello").must(t, 200, ""); r.Header.Get("X-Accel-Redirect") == "" {
			t.Errorf("not sent on: %v", r.Header)
		}
		post("my+casino").must(t, 200, "<form")
		b.get(g.check+"/aside", "X-Forwarded-For", goodUser, "X-Forwarded-Proto", "http").must(t, 409, "quarantine")
	})
}

// raw sends bytes unchanged and returns everything that comes back until the end.
func raw(t *testing.T, base, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil && len(b) == 0 {
		t.Fatal(err)
	}
	return string(b)
}

// answered fills in the form of a captcha page, urlencoded.
func answered(t *testing.T, page, answer string) string {
	t.Helper()
	form := formOf(t, page)
	form.Set("rep", answer)
	return form.Encode()
}

// followed returns the answer to a page with a moving picture, as a browser with scripts gives it.
func followed(t *testing.T, page, answer string) string {
	t.Helper()
	form := formOf(t, page)
	key, _, _ := strings.Cut(after(after(page, `name="key"`), `data-moving="`), `"`)
	form.Set("key", key)
	form.Set("rep", answer)
	return form.Encode()
}

// origin is scheme and authority of a URL.
func origin(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	return u.Scheme + "://" + u.Host
}
