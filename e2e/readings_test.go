package e2e

import (
	"fmt"
	"strings"
	"testing"
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
		"/x%e0%80%af%c0%ae%c0%ae/" + name, "/" + name + "%3f/../x",
	}
}

// TestPitfall08EverySettingHoldsForEveryReading: rules, limits, the largest body, a path's mode and its routes apply to
// every spelling that a service may read as that path.
func TestPitfall08EverySettingHoldsForEveryReading(t *testing.T) {
	t.Parallel()
	g := configured(t, `
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
identity: {trusted_proxies: [127.0.0.1]}
`, site(t).URL)
	ask := func(method, target, from, body string) *response {
		return g.wire(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: site.example\r\nUser-Agent: t\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			method, target, from, len(body), body))
	}
	asked := 0
	newcomer := func() string { // nobody whom the judge knows from the requests before
		asked++
		return fmt.Sprintf("203.0.%d.1", asked)
	}
	ask("GET", "/", newcomer(), "").must(t, 200, "site got")
	ask("GET", "/logins", newcomer(), "").must(t, 200, "site got")
	for _, way := range append(spellings("login"), "/login", "/login/x") {
		if r := ask("GET", way, newcomer(), ""); r.StatusCode != 403 {
			t.Errorf("rules of /login: %s: %d %.200s", way, r.StatusCode, r.body)
		}
	}
	for _, way := range append(spellings("upload"), "/upload") {
		if r := ask("POST", way, newcomer(), strings.Repeat("x", 11)); r.StatusCode != 413 {
			t.Errorf("max_body of /upload: %s: %d %.200s", way, r.StatusCode, r.body)
		}
		if r := ask("POST", way, newcomer(), "x"); r.StatusCode != 200 {
			t.Errorf("%s: %d %.200s", way, r.StatusCode, r.body)
		}
	}
	for i, way := range spellings("slow") {
		from, stopped := fmt.Sprintf("198.51.100.%d", i), false
		for n := 0; n < 40 && !stopped; n++ {
			stopped = ask("GET", way, from, "").StatusCode != 200
		}
		if !stopped {
			t.Errorf("limits of /slow: %s: 40 requests passed", way)
		}
	}
	const banned = "203.0.113.9"
	g.ban("ip:"+banned, "10m")
	ask("GET", "/free/x", banned, "").must(t, 200, "site got")
	for _, way := range spellings("free") {
		if way == "/free;v=1" {
			continue // nobody reads that as another path than /free
		}
		if r := ask("GET", way, banned, ""); r.StatusCode != 302 {
			t.Errorf("mode off of /free, which a service may not read there: %s: %d", way, r.StatusCode)
		}
	}
	for _, way := range []string{"/free/../x", "/free/%2e%2e/x", "/free/..%2fx", "/free/..;/x", `/free/..\x`, "/free;a/../x", "/free/.%252e/x"} {
		if r := ask("GET", way, banned, ""); r.StatusCode != 302 {
			t.Errorf("out of mode off: %s: %d", way, r.StatusCode)
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
		if r := g.wire("GET " + target + " HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n"); r.StatusCode != want {
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
		"/": 200, "/login": 200, "/Login": 200, "/caf%c3%a9": 200, "/a//b": 200, "/a;x/../b": 200, "/login;jsessionid=1": 200,
		"/%6cogin": 400, "//login": 400, "/x/../login": 400, "/login/../x": 400, `/x\..\login`: 400, "/x/..;/login": 400,
	} {
		if r := g.wire("GET " + target + " HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n"); r.StatusCode != want {
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
