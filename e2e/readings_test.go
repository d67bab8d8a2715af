package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// spellings are ways to write a path that some services read as /NAME, and others do not.
func spellings(name string) []string {
	first, rest := name[:1], name[1:]
	return []string{
		fmt.Sprintf("/%%%02x%s", first[0], rest), fmt.Sprintf("/%%25%02x%s", first[0], rest), "//" + name, "/./" + name, "/x/../" + name,
		"/x/%2e%2e/" + name, "/x/..%2f" + name, "/x%2f..%2f" + name, "/x/..;/" + name, "/;a=b/" + name, `/x\..\` + name, "/x/..%5c" + name,
		"/%2f" + name, "//h/../" + name, "/" + strings.ToUpper(name), "/" + name + ";v=1", "/x/%252e%252e/" + name,
		fmt.Sprintf("/%%%02x%s/../x", first[0], rest), fmt.Sprintf("/x/../%%%02x%s%%2f..%%2fy", first[0], rest), "//h/" + name,
		"/" + name + ".", "/" + name + "%20", "/" + name + "%3fx", "/" + name + "%23x", "/" + name + "::$DATA", "/x/..%20/" + name, "/" + strings.ToUpper(name) + "%2e",
		fmt.Sprintf("/%%%02x%%%02x%s", 0xc0|first[0]>>6, 0x80|first[0]&0x3f, rest), "/x%c0%af..%c0%af" + name,
		"/x%e0%80%af%c0%ae%c0%ae/" + name, "/" + name + "%3f/../x", "/index.php/" + name, "/App.PHP/x/..;/" + strings.ToUpper(name), "//index.php/" + name + "/x",
		"/" + name + ".json", "/x/app.cgi/" + name, "/index.phtml/" + name + ".html", "///h/" + name, `/\\/h\` + name, "/%20" + name, "/" + name + "%c2%a0", "/" + name + "\xa0",
		"/%EF%BB%BF" + name, "/" + name + ":$I30:$INDEX_ALLOCATION", "/(S(x))/" + name, "/x/(A(b)f(c))/../" + name,
	}
}

// asker sends requests with a target as it stands, from an address, and returns the status of the answer.
type asker func(method, target, from, body string) (status int)

// askers starts a gateway behind a balancer at 127.0.0.1, with settings whose listeners are left out, and returns it with ways to ask it for
// site.example in each protocol.
func askers(t *testing.T, settings string, args ...any) (*gateway, map[string]asker) {
	t.Helper()
	cert, key := certificate(t, t.TempDir(), 1)
	plain, secure := freePort(t), freePort(t)
	listen := fmt.Sprintf("listen:\n  - {address: %q, h2c: true}\n  - {address: %q, tls_cert: %q, tls_key: %q, http3: true}\nidentity: {trusted_proxies: [127.0.0.1]}\n", plain, secure, cert, key)
	g := startWith(t, "serve", "--config", configFile(t, "%s"+settings, append([]any{listen}, args...)...), "--captcha-test-answer", testAnswer)
	g.url = "http://" + plain
	over := func(dial func() http.RoundTripper, scheme, address string) asker {
		dial = sync.OnceValue(dial) // by the first request: the gateway closes a connection that has had none for long
		return func(method, target, from, body string) int {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, scheme+"://"+address, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Host, req.URL.Opaque = "site.example", "//site.example"+target
			asBrowser(req)
			req.Header.Set("Accept-Encoding", "gzip")
			req.Header.Set("X-Forwarded-For", from)
			req.Header.Set("Content-Type", form)
			res, err := dial().RoundTrip(req)
			if err != nil {
				t.Fatalf("%s %s: %v", method, target, err)
			}
			defer res.Body.Close()
			_, _ = io.Copy(io.Discard, res.Body)
			return res.StatusCode
		}
	}
	return g, map[string]asker{
		"HTTP/1.1": func(method, target, from, body string) int {
			return g.wire(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: site.example\r\nX-Forwarded-For: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
				method, target, from, form, len(body), body)).StatusCode
		},
		"HTTP/2": over(func() http.RoundTripper { return plainHTTP2(t) }, "http", plain),
		"HTTP/3": over(func() http.RoundTripper { return dialQUIC(t, secure, "site.example").http }, "https", secure),
	}
}

// TestPitfall08EverySettingHoldsForEveryReading: rules, limits, the largest body, a path's mode, its routes and a service within another apply
// to every spelling that a service may read as that path, in every protocol.
func TestPitfall08EverySettingHoldsForEveryReading(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	_, spam, _ := strings.Cut(routesConfig, "\nmessage:")
	g, ways := askers(t, `
defaults:
  upstream: {urls: [%q]}
  verdict: {sync: true}
services:
  - name: site
    paths:
      - {prefix: /login, rules: {text: "stop as BLOCK"}}
      - {prefix: /upload, requests: {max_body: 10}}
      - {prefix: /slow, verdict: {limits: [{window: 10m, requests: 5, ban: 10m}]}}
      - {prefix: /free, verdict: {mode: "off"}, rules: {text: ""}}
      - {prefix: /index.php/open, verdict: {mode: "off"}, rules: {text: ""}}
    messages:
      routes:
        - route: POST /comments/**
          sources: [{attribute: text, from: form, key: words}]
          answers: [{decision: OK, action: pass}, {decision: SPAM, action: block}]
          otherwise: block
  - {name: inner, prefixes: [/inner], rules: {text: "stop as BLOCK"}}
message:`+spam, book.URL)
	const banned = "203.0.113.9"
	g.ban("ip:"+banned, "10m")
	number := 0
	for protocol, ask := range ways {
		number++
		asked := 0
		newcomer := func() string { // nobody whom the judge knows from the requests before
			asked++
			return fmt.Sprintf("203.%d.%d.1", number, asked)
		}
		wants := func(what string, status int, method, target, from, body string) {
			t.Helper()
			if got := ask(method, target, from, body); got != status {
				t.Errorf("%s: %s: %s: %d, wanted %d", protocol, what, target, got, status)
			}
		}
		wants("no rules", 200, "GET", "/", newcomer(), "")
		wants("no rules", 200, "GET", "/logins", newcomer(), "")
		for _, way := range append(spellings("login"), "/login", "/login/x") {
			wants("rules of /login", 403, "GET", way, newcomer(), "")
		}
		for _, way := range append(spellings("inner"), "/inner/x") {
			wants("rules of the service at /inner", 403, "GET", way, newcomer(), "")
		}
		for _, way := range append(spellings("upload"), "/upload") {
			wants("max_body of /upload", 413, "POST", way, newcomer(), strings.Repeat("x", 11))
			wants("a body of /upload", 200, "POST", way, newcomer(), "x")
		}
		book.take()
		for _, way := range append(spellings("comments"), "/comments") {
			wants("messages of /comments", 403, "POST", way, newcomer(), fmt.Sprintf("words=a+casino+of+%d+in+%d", asked, number))
		}
		if bodies, _ := book.take(); len(bodies) > 0 {
			t.Errorf("%s: the service got %q", protocol, bodies)
		}
		for i, way := range spellings("slow") {
			from, stopped := fmt.Sprintf("198.51.%d.%d", number, i), false
			for n := 0; n < 40 && !stopped; n++ {
				if n > 10 { // what is counted beside the requests takes its time on a busy machine
					time.Sleep(time.Duration(n) * 20 * time.Millisecond)
				}
				stopped = ask("GET", way, from, "") != 200
			}
			if !stopped {
				t.Errorf("%s: limits of /slow: %s: 40 requests passed", protocol, way)
			}
		}
		wants("mode off", 200, "GET", "/free/x", banned, "")
		wants("mode off of a script's path", 200, "GET", "/index.php/open/x", banned, "")
		for _, way := range spellings("free") {
			if way != "/free;v=1" { // nobody reads that as another path than /free
				wants("mode off of /free, which a service may not read there", 302, "GET", way, banned, "")
			}
		}
		for _, way := range []string{"/free/../x", "/free/%2e%2e/x", "/free/..%2fx", "/free/..;/x", `/free/..\x`, "/free;a/../x", "/free/.%252e/x"} {
			wants("out of mode off", 302, "GET", way, banned, "")
		}
		for _, way := range []string{"/free/x%00/../../x", "/%00", "/free/%2500"} {
			wants("a NUL", 400, "GET", way, banned, "")
		}
	}
}

// TestPitfall08EscapedNULIsRefused: some services end a path there, others continue, and no legitimate client sends it.
func TestPitfall08EscapedNULIsRefused(t *testing.T) {
	t.Parallel()
	g := configured(t, `
defaults:
  upstream: {urls: [%q]}
services:
  - name: site
    paths: [{prefix: /free, verdict: {mode: "off"}}]
`, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	for _, target := range []string{"/free/x%00/../../product/1", "/free/%2500", "/%00", "/a%0", "/product%00.css", "/free/%2%35%30%30"} {
		want := 400
		if target == "/a%0" {
			want = 302
		}
		if r := g.wire("GET " + target + " HTTP/1.1\r\nHost: site.example\r\n" + browserLines + "Connection: close\r\n\r\n"); r.StatusCode != want {
			t.Errorf("%s: %d %.200s", target, r.StatusCode, r.body)
		}
	}
}

// TestPitfall08AmbiguousPathsCanBeRefused: if so configured, a path whose readings have different settings is answered 400;
// a path that every service reads alike passes.
func TestPitfall08AmbiguousPathsCanBeRefused(t *testing.T) {
	t.Parallel()
	g := configured(t, `
defaults:
  upstream: {urls: [%q]}
  requests: {ambiguous_paths: refuse}
services:
  - name: site
    paths: [{prefix: /login, requests: {max_body: 10}}]
`, site(t).URL)
	for target, want := range map[string]int{
		"/": 200, "/login": 200, "/Login": 200, "/caf%c3%a9": 200, "/a//b": 200, "/a;x/../b": 200, "/login;jsessionid=1": 200, "/index.php/login": 200,
		"/%6cogin": 400, "//login": 400, "/x/../login": 400, "/login/../x": 400, `/x\..\login`: 400, "/x/..;/login": 400,
	} {
		if r := g.wire("GET " + target + " HTTP/1.1\r\nHost: site.example\r\n" + browserLines + "Connection: close\r\n\r\n"); r.StatusCode != want {
			t.Errorf("%s: %d, wanted %d: %.200s", target, r.StatusCode, want, r.body)
		}
	}
}

// TestPitfall08PartnerStaysInItsInterface: a partner's key opens the XML interface, and nothing that is reached through its
// prefix.
func TestPitfall08PartnerStaysInItsInterface(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", xmlConfig(t, site(t).URL))
	g.ban("ip:127.0.0.1", "10m")
	ask := func(target string) *response {
		return g.wire("GET " + target + "?key=partner-key-0123456789 HTTP/1.1\r\nHost: site.example\r\nX-Real-Ip: 203.0.113.50\r\nConnection: close\r\n\r\n")
	}
	ask("/xmlsearch").must(t, 200, "site got") // for its user, who is not banned
	for _, way := range []string{
		"/xmlsearch/../product/1", "/xmlsearch/%2e%2e/product/1", "/xmlsearch/..%2fproduct/1", "/xmlsearch/..;/product/1", `/xmlsearch/..\product\1`,
		"/xmlsearch;a/../product/1", "//xmlsearch/../product/1", "/xcheckcaptcha/../product/1",
	} {
		if r := ask(way); r.StatusCode != 302 {
			t.Errorf("%s: %d %.200s", way, r.StatusCode, r.body)
		}
	}
}

// TestPitfall08CheckReadsPathsAlike: in check mode the same settings apply, and a challenge is consistent with the check.
func TestPitfall08CheckReadsPathsAlike(t *testing.T) {
	t.Parallel()
	g := configured(t, `
check: {listen: ["127.0.0.1:0"]}
defaults:
  upstream: {urls: [%q]}
services:
  - name: site
    verdict: {mode: "off"}
    paths: [{prefix: /login, verdict: {mode: enforce}}]
`, site(t).URL)
	g.ban("ip:203.0.113.7", "10m")
	at := g.listening("balancers")
	v := visitor(t)
	check := func(target string) *response {
		return v.get("http://"+at+"/check", "X-Forwarded-Method", "GET", "X-Forwarded-Host", "site.example", "X-Forwarded-Uri", target,
			"X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "http")
	}
	check("/x").must(t, 200, "")
	for _, way := range append(spellings("login"), "/login") {
		if r := check(way); r.StatusCode != 401 {
			t.Errorf("%s: %d", way, r.StatusCode)
		}
	}
	if r := check("/x%00/../login"); r.StatusCode != 400 {
		t.Errorf("an escaped NUL: %d", r.StatusCode)
	}
	for _, way := range []string{"/%6cogin", "/x/..;/login"} { // the challenge call is the request itself
		if r := v.get("http://"+at+way, "X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "http"); r.StatusCode != 302 {
			t.Errorf("%s: the challenge is %d", way, r.StatusCode)
		}
	}
}
