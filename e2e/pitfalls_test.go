package e2e

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"antirobot/servertest"
)

// TestPitfall01NoOpenRedirect asks the default configuration, one service for every host, to redirect visitors elsewhere.
func TestPitfall01NoOpenRedirect(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(g.url, "http://"), ":")
	retpath := func(r *response) string {
		t.Helper()
		to, err := url.Parse(r.must(t, 302, "").Header.Get("Location"))
		if err != nil || to.Scheme+"://"+to.Host != g.url {
			t.Fatalf("Location %q", r.Header.Get("Location"))
		}
		return to.Query().Get("retpath")
	}
	for _, evil := range []string{
		"http://evil.example:" + port + "/", "http%3A%2F%2Fevil.example%3A" + port + "%2F", "//evil.example/", "/\\evil.example/", "javascript:alert(1)",
		"data:text/html,x", g.url + "@evil.example/", "http://127.0.0.1:" + port + ".evil.example/", "http://127.0.0.1/", "https://127.0.0.1:" + port + "/",
		"http://127.0.0.1:" + port + "\\@evil.example/", "http:evil.example", "\thttp://evil.example:" + port,
	} {
		if got, want := retpath(v.get(g.url+"/page?a=1", "X-Retpath-Y", evil)), g.url+"/page?a=1"; got != want {
			t.Errorf("X-Retpath-Y %q leads to %q", evil, got)
		}
		if got, want := retpath(v.get(g.url+"/page?a=1", "Referer", evil)), g.url+"/page?a=1"; got != want {
			t.Errorf("Referer %q leads to %q", evil, got)
		}
	}
	own := g.url + "/other?x=1&y=2#part"
	if got := retpath(v.get(g.url+"/page", "X-Retpath-Y", own)); got != own {
		t.Errorf("a page of the site itself became %q", got)
	}

	// a signed link whose retpath was changed leads to the start of the site
	for lang, evil := range map[string]string{"en": "http://evil.example:" + port + "/", "en-GB": g.url + "/elsewhere"} {
		v := visitor(t).speaks(lang) // without the pass of the last time
		link, _ := url.Parse(v.get(g.url + "/page").Header.Get("Location"))
		q := link.Query()
		q.Set("retpath", evil)
		form := formOf(t, v.get(g.url+link.Path+"?"+q.Encode()).must(t, 200, `name="rep"`).body)
		form.Set("rep", testAnswer)
		r := v.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "")
		if to := r.Header.Get("Location"); to != g.url+"/" {
			t.Errorf("retpath %q led to %q after the right answer", evil, to)
		}
	}
	// the host that was asked for is part of the signature
	link := v.get(g.url + "/page").Header.Get("Location")
	target := strings.TrimPrefix(link, g.url)
	page := g.wire("GET "+target+" HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").must(t, 200, `name="rep"`)
	if strings.Contains(page.body, url.QueryEscape(g.url)) {
		t.Error("a link that was signed for one host is believed on another")
	}
}

// TestPitfall01OnlyNamedHostsAreOurs follows X-Retpath-Y to the hosts that the configuration names, and to no others.
func TestPitfall01OnlyNamedHostsAreOurs(t *testing.T) {
	t.Parallel()
	g := configured(t, `
services:
  - {name: shop, hosts: [127.0.0.1, "*.shop.example"], upstream: {urls: [%[1]q]}, captcha: {retpath_hosts: [pay.example]}}
  - {name: rest, hosts: ["*"], upstream: {urls: [%[1]q]}}
`, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	_, port, _ := strings.Cut(strings.TrimPrefix(g.url, "http://"), ":")
	for to, want := range map[string]bool{
		"http://www.shop.example:" + port + "/x?a=1&b=2#c": true, "https://pay.example/done": true, "http://shop.example:" + port + "/": false,
		"http://evil-shop.example:" + port + "/": false, "http://other.example:" + port + "/": false, "http://www.shop.example.evil.example:" + port + "/": false,
		"http://www.shop.example/": false, "https://pay.example:8443/": false, "https://www.pay.example/": false,
	} {
		for _, host := range []string{"127.0.0.1", "rest.example"} {
			r := g.wire("GET /page HTTP/1.1\r\nHost: "+host+":"+port+"\r\n"+browserLines+"X-Retpath-Y: "+to+"\r\nConnection: close\r\n\r\n").must(t, 302, "")
			u, _ := url.Parse(r.Header.Get("Location"))
			if got := u.Query().Get("retpath") == to; got != (want && host == "127.0.0.1") {
				t.Errorf("%s sends to %s: %t", host, to, got)
			}
		}
	}
}

// TestPitfall03AnswerIsSpentOnce gives one right answer from many connections at once, and again after a kill -9: it earns one
// pass, which the same browser is given again.
func TestPitfall03AnswerIsSpentOnce(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	ajax := []string{"X-Requested-With", "XMLHttpRequest"}
	key := visitor(t).get(g.url+"/", ajax...).challenge(t).Captcha.Key
	check := g.url + "/checkcaptcha?" + url.Values{"key": {key}, "rep": {testAnswer}}.Encode()
	var passes atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if visitor(t).get(check, ajax...).setsCookie("spravka") {
				passes.Add(1)
			}
		})
	}
	wg.Wait()
	solved := func() float64 { return g.metric("antirobot_captcha_answers_total", `result="solved"`) }
	if passes.Load() == 0 || solved() != 1 {
		t.Errorf("one answer earned %v passes, and %d browsers have one", solved(), passes.Load())
	}
	g.kill(syscall.SIGKILL)
	g.run()
	foreign := visitor(t)
	foreign.header.Set("User-Agent", "curl/8.5.0")
	if r := foreign.get(check, ajax...); r.setsCookie("spravka") {
		t.Errorf("another browser gets the pass: %s", r.body)
	}
	visitor(t).get(check, ajax...)
	if n := solved(); n != 0 {
		t.Errorf("the answer counts again after a restart")
	}
}

// TestPitfall14OwnAnswersAreNotCached checks every kind of answer that the gateway makes itself.
func TestPitfall14OwnAnswersAreNotCached(t *testing.T) {
	t.Parallel()
	g := configured(t, `
services:
  - {name: site, hosts: [127.0.0.1], upstream: {urls: [%q]}, requests: {xml_paths: [/xml]}}
  - {name: down, hosts: [down.example], upstream: {urls: ["http://%s"]}}
`, site(t).URL, freePort(t))
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	ajax := []string{"X-Requested-With", "XMLHttpRequest"}
	redirect := v.get(g.url + "/page")
	c := v.get(g.url+"/api", ajax...)
	key := c.challenge(t).Captcha.Key
	answers := map[string]*response{
		"redirect": redirect, "JSON": c, "page": v.get(redirect.Header.Get("Location")), "picture": v.get(c.challenge(t).Captcha.Img),
		"sound":        v.get(g.url + "/captcha/audio?lang=en&key=" + url.QueryEscape(key)),
		"XML":          v.get(g.url + "/xml"),
		"sub-resource": v.get(g.url+"/i.png", "Sec-Fetch-Dest", "image"),
		"form":         v.do("POST", g.url+"/form", "a=1", "Content-Type", "application/x-www-form-urlencoded"),
		"wrong answer": v.get(g.url + "/checkcaptcha?rep=000000&key=" + url.QueryEscape(key)),
		"wrong JSON":   v.get(g.url+"/checkcaptcha?rep=000000&key=x", ajax...),
		"wrong XML":    v.get(g.url + "/xcheckcaptcha?rep=000000&key=x"),
		"bad picture":  v.get(g.url + "/captcha/image?key=x"),
		"no such host": g.wire("GET / HTTP/1.1\r\nHost: nobody.example\r\nConnection: close\r\n\r\n"),
	}
	g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	answers["service is down"] = g.wire("GET / HTTP/1.1\r\nHost: down.example\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
	g.list("block", "127.0.0.1", "10m")
	answers["blocked page"] = v.get(g.url + "/")
	answers["blocked JSON"] = v.get(g.url+"/", ajax...)
	answers["blocked picture"] = v.get(g.url+"/i.png", "Sec-Fetch-Dest", "image")
	answers["blocked preflight"] = v.do("OPTIONS", g.url+"/", "", "Origin", "https://o.example", "Access-Control-Request-Method", "GET")
	for what, r := range answers {
		if r.StatusCode == 200 && strings.Contains(r.body, "site got") {
			t.Errorf("%s: answered by the service", what)
		}
		if cc := r.Header.Get("Cache-Control"); !strings.Contains(cc, "no-store") {
			t.Errorf("%s (%d): Cache-Control %q", what, r.StatusCode, cc)
		}
		if id := r.Header.Get("X-Request-Id"); len(id) != 26 {
			t.Errorf("%s (%d): X-Request-Id %q", what, r.StatusCode, id)
		}
	}
}

// TestPitfall20NoPageForThoseWhoCantReadIt makes requests like parts of a page, HTMX and fetch.
func TestPitfall20NoPageForThoseWhoCantReadIt(t *testing.T) {
	t.Parallel()
	g := configured(t, `
services:
  - {name: site, upstream: {urls: [%q]}, captcha: {cors_origins: ["https://app.example"]}, requests: {ajax_paths: [/api]}}
`, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	v.header.Del("Accept")
	for what, header := range map[string][]string{
		"fetch":             {"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Accept", "*/*"},
		"htmx":              {"HX-Request", "true", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Accept", "text/html, */*"},
		"jQuery":            {"X-Requested-With", "XMLHttpRequest", "Accept", "text/html, */*; q=0.01"},
		"a path of scripts": {"Accept", "text/html"},
	} {
		r := v.get(g.url+"/api/part", append(header, "Origin", "https://app.example")...).must(t, 200, `"type":"captcha"`)
		if got := r.Header.Get("Access-Control-Allow-Origin"); got != "https://app.example" || r.Header.Get("Access-Control-Allow-Credentials") != "true" {
			t.Errorf("%s: the script may not read the answer: %v", what, r.Header)
		}
		if !strings.Contains(strings.Join(r.Header.Values("Vary"), ","), "Origin") && r.Header.Get("Vary") != "*" {
			t.Errorf("%s: Vary %q", what, r.Header.Values("Vary"))
		}
	}
	if r := v.get(g.url+"/api/part", "Origin", "https://evil.example"); r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a foreign page may read the challenge: %v", r.Header)
	}
	for what, header := range map[string][]string{
		"image":             {"Sec-Fetch-Dest", "image", "Accept", "image/avif,*/*"},
		"style of old":      {"Accept", "text/css,*/*;q=0.1"},
		"WebSocket":         {"Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "websocket", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
		"beacon":            {"Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "no-cors"},
		"service worker":    {"Sec-Fetch-Dest", "serviceworker", "Sec-Fetch-Mode", "same-origin"},
		"something unknown": {"Sec-Fetch-Dest", "hologram"},
	} {
		r := v.get(g.url+"/style.css", header...).must(t, 403, "")
		if r.body != "" || strings.Contains(r.Header.Get("Content-Type"), "html") || r.Header.Get("X-Antirobot-Verdict") != "captcha" {
			t.Errorf("%s: %v %q", what, r.Header, r.body)
		}
	}
	preflight := v.do("OPTIONS", g.url+"/api", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST").must(t, 200, "")
	if preflight.Header.Get("X-Served-By") != "site" || preflight.body != "" { // a robot's has no body, which no browser reads
		t.Errorf("a preflight got %v %q", preflight.Header, preflight.body)
	}
	if r := v.do("HEAD", g.url+"/", "").must(t, 403, ""); r.body != "" {
		t.Error("HEAD has a body")
	}
}

// TestPitfall24BasePathAndForeignCSP moves the gateway's own pages below a prefix, next to a service with a CSP that
// forbids everything and with pages of the same names.
func TestPitfall24BasePathAndForeignCSP(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; form-action 'none'")
		fmt.Fprintf(w, "site got %s", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	g := configured(t, `
services:
  - {name: site, upstream: {urls: [%q]}, captcha: {prefix: /_guard}}
`, s.URL)
	v := visitor(t)
	v.get(g.url+"/showcaptcha").must(t, 200, "site got /showcaptcha")
	v.get(g.url+"/captcha/image").must(t, 200, "site got /captcha/image")
	g.ban("ip:127.0.0.1", "10m")
	to := v.get(g.url+"/page").must(t, 302, "").Header.Get("Location")
	page := v.get(to).must(t, 200, `name="rep"`)
	if !strings.HasPrefix(to, g.url+"/_guard/showcaptcha?") || !strings.Contains(page.body, `action="/_guard/checkcaptcha`) {
		t.Errorf("the page does not keep below its prefix: %s\n%s", to, page.body)
	}
	csp := page.Header.Get("Content-Security-Policy")
	for _, need := range []string{"default-src 'none'", "img-src 'self'", "media-src 'self'"} {
		if !strings.Contains(csp, need) {
			t.Errorf("policy %q lacks %s", csp, need)
		}
	}
	form := formOf(t, page.body)
	form.Set("rep", testAnswer)
	r := v.do("POST", g.url+"/_guard/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "")
	if r.Header.Get("Location") != g.url+"/page" {
		t.Errorf("Location %s", r.Header.Get("Location"))
	}
	v.get(g.url+"/page").must(t, 200, "site got /page")
}

// TestPitfall26EveryDecisionCanBeAskedFor stops and passes requests for every possible reason, and asks the API why.
func TestPitfall26EveryDecisionCanBeAskedFor(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
lists:
  ban: ["203.0.113.3 our own ban"]
  lists:
    - {name: fetched, flag: block, file: %q}
services:
  - name: site
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xml]}
    captcha: {partners: [{name: acme, key: partner-key-0123456789}]}
    paths: [{prefix: /open, verdict: {mode: "off"}}, {prefix: /watch, verdict: {mode: observe}}]
`, listFile(t, "203.0.113.4 a fetched block\n"), site(t).URL), "--captcha-test-answer", testAnswer)
	g.ban("ip:203.0.113.1", "10m")
	g.list("block", "203.0.113.2", "10m")
	g.list("white", "203.0.113.5", "10m")
	paying := from(t, "203.0.113.1").speaks("de")
	g.earn(paying, "/")

	ask := func(addr, path string, header ...string) *response { return from(t, addr).get(g.url+path, header...) }
	for what, c := range map[string]struct {
		r                       *response
		status                  int
		verdict, cause, subject string
		says                    string
	}{
		"ban":         {ask("203.0.113.1", "/a"), 302, "robot", "ban", "ip:203.0.113.1", "test"},
		"script":      {ask("203.0.113.1", "/a", "X-Requested-With", "XMLHttpRequest"), 200, "robot", "ban", "ip:203.0.113.1", "test"},
		"image":       {ask("203.0.113.1", "/a", "Sec-Fetch-Dest", "image"), 403, "robot", "ban", "ip:203.0.113.1", "test"},
		"XML":         {ask("203.0.113.1", "/xml"), 200, "robot", "ban", "ip:203.0.113.1", "test"},
		"form":        {from(t, "203.0.113.1").do("POST", g.url+"/a", "a=b", "Content-Type", "application/x-www-form-urlencoded"), 200, "robot", "ban", "ip:203.0.113.1", "test"},
		"own block":   {ask("203.0.113.2", "/a"), 403, "blocked", "own-block", "ip:203.0.113.2", "test"},
		"list ban":    {ask("203.0.113.3", "/a"), 302, "robot", "ban-list", "ip:203.0.113.3", "our own ban"},
		"list block":  {ask("203.0.113.4", "/a"), 403, "blocked", "block-list", "ip:203.0.113.4", "a fetched block"},
		"own page":    {ask("203.0.113.4", "/showcaptcha"), 403, "blocked", "block-list", "ip:203.0.113.4", "a fetched block"},
		"demand":      {ask("192.0.2.1", "/xml?showmecaptcha=yes&key=partner-key-0123456789", "X-Real-IP", "198.51.100.1"), 200, "robot", "demand", "", ""},
		"a paid pass": {paying.get(g.url + "/a"), 200, "human", "ban", "spravka:", "test"},
		"observed":    {ask("203.0.113.1", "/watch"), 200, "robot", "ban", "ip:203.0.113.1", "test"},
	} {
		s := g.whyIn(t, what, c.r)
		said := s.Ban.Reason + s.Entry.Reason
		if c.r.StatusCode != c.status || s.Verdict != c.verdict || s.Cause != c.cause || !strings.HasPrefix(s.Subject, c.subject) || said != c.says {
			t.Errorf("%s: status %d, %+v; wanted %d %s by %s of %s, saying %q", what, c.r.StatusCode, s, c.status, c.verdict, c.cause, c.subject, c.says)
		}
		if (s.Mode == "observe") != (what == "observed") {
			t.Errorf("%s: status %d in mode %s", what, c.r.StatusCode, s.Mode)
		}
		if (s.Pass != nil) != (what == "a paid pass") {
			t.Errorf("%s: pass %+v", what, s.Pass)
		}
	}
	for what, c := range map[string]struct {
		r              *response
		verdict, cause string
	}{
		"white": {ask("203.0.113.5", "/a"), "human", "white"}, "nothing": {ask("203.0.113.6", "/a"), "human", "none"}, "off": {ask("203.0.113.1", "/open"), "human", "off"},
	} {
		if s := g.whyIn(t, what, c.r); s.Verdict != c.verdict || s.Cause != c.cause {
			t.Errorf("%s: %+v", what, s)
		}
	}
	if status, body := g.tryAPI("GET", "/api/decisions/01KDZ6JQ4GF3V5N8X2C7B9W0TA", nil); status != 404 {
		t.Errorf("an id that never was: %d %s", status, body)
	}
}

// whyIn asks why, by the ID in the answer's head or, if the service answered, by the ID that the service got.
func (g *gateway) whyIn(t *testing.T, what string, r *response) story {
	t.Helper()
	if r.Header.Get("X-Request-Id") == "" {
		_, rest, ok := strings.Cut(r.body, "X-Request-Id: ")
		if !ok {
			t.Fatalf("%s: no request id in %v\n%s", what, r.Header, r.body)
		}
		id, _, _ := strings.Cut(rest, "\n")
		r.Header.Set("X-Request-Id", id)
	}
	return g.why(r)
}

func listFile(t *testing.T, text string) string {
	t.Helper()
	file := t.TempDir() + "/list.txt"
	write(t, file, text)
	return file
}

// TestPitfall26BlockedPageShowsTheID: the page shows an ID that a visitor who calls the operator can read out.
func TestPitfall26BlockedPageShowsTheID(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.list("block", "127.0.0.1", "10m")
	r := visitor(t).get(g.url+`/<script>alert("x")</script>?q=<b>`).must(t, 403, "<code dir=\"ltr\">")
	if id := r.Header.Get("X-Request-Id"); id == "" || !strings.Contains(r.body, id) {
		t.Errorf("id %q is not on the page", id)
	}
	if strings.Contains(r.body, "alert(") || strings.Contains(r.body, "<b>") {
		t.Error("what the client sent stands on the page")
	}
}

// TestPitfall06ForwardedFieldsAreOurs sends every field that a service might trust, through an untrusted peer: the service
// gets the gateway's values, once.
func TestPitfall06ForwardedFieldsAreOurs(t *testing.T) {
	t.Parallel()
	g := serve(t, mirror(t))
	spoofed := []string{
		"X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.2, 203.0.113.3", "X-Real-IP: 203.0.113.4", "Forwarded: for=203.0.113.5;proto=https;host=evil",
		"X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https", "X-Forwarded-Port: 1", "X-Forwarded-Prefix: /evil", "X-Request-Id: mine",
		"X-Original-URI: /admin", "X-Original-URL: /admin", "X-Rewrite-URL: /admin", "X-Accel-Redirect: /secret", "X-Accel-Buffering: no",
		"X-Antirobot-Verdict: human", "X-Antirobot-Anything: x", "True-Client-IP: 203.0.113.6", "X-Client-IP: 203.0.113.7", "x-forwarded-for: 203.0.113.8",
		"Client-IP: 203.0.113.9", "CF-Connecting-IP: 203.0.113.9", "X-Cluster-Client-IP: 203.0.113.9", "X_Remote_Addr: 203.0.113.9", "Proxy: http://evil.example:80",
		"X-HTTP-Method-Override: EVIL-evil", "X-HTTP-Method: evil", "X-Method-Override: evil", "Proxy-Client-IP: 203.0.113.9", "WL_Proxy_Client_IP: 203.0.113.9",
		"X-ProxyUser-Ip: 203.0.113.9", "Incap-Client-IP: 203.0.113.9", "X.Forwarded.For: 203.0.113.9", "X.Real.IP: 203.0.113.9", "X~Antirobot~Verdict: human", "X+Client+IP: 203.0.113.9",
		"X-Azure-ClientIP: 203.0.113.9", "X-Appengine-User-Ip: 203.0.113.9", "X-Envoy-External-Address: 203.0.113.9",
	}
	r := g.wire("GET /path HTTP/1.1\r\nHost: site.example\r\nConnection: close, X-Real-IP\r\n" + strings.Join(spoofed, "\r\n") + "\r\n\r\n")
	header, uri := r.mirrored(t)
	if uri != "/path" {
		t.Errorf("the service was asked for %s", uri)
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1", "X-Forwarded-Host": "site.example", "X-Forwarded-Proto": "http", "Host": "site.example",
	} {
		if got := header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("the service got %s %q, wanted %q once", name, got, want)
		}
	}
	if id := header.Values("X-Request-Id"); len(id) != 1 || len(id[0]) != 26 {
		t.Errorf("X-Request-Id %q", id)
	}
	for name, values := range header {
		for _, v := range values {
			if strings.Contains(v, "203.0.113.") || strings.Contains(v, "evil") || strings.Contains(v, "/admin") || strings.HasPrefix(name, "X-Antirobot") || strings.HasPrefix(name, "X~") || strings.HasPrefix(name, "X-Accel") {
				t.Errorf("the service got %s: %s", name, v)
			}
		}
	}

	g.ban("ip:203.0.113.1", "10m")
	g.list("white", "203.0.113.8", "10m")
	g.ban("ip:127.0.0.1", "10m")
	g.wire("GET / HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n"+browserLines+strings.Join(spoofed, "\r\n")+"\r\n\r\n").must(t, 302, "")
	t.Run("PROXY protocol where none is expected", func(t *testing.T) {
		g.wire("PROXY TCP4 203.0.113.8 127.0.0.1 5555 80\r\nGET / HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n").must(t, 400, "")
	})
}

// TestPitfall06ServiceMayWantItsClientsFields: a service decides which fields are dropped, except for those that the
// gateway sets itself.
func TestPitfall06ServiceMayWantItsClientsFields(t *testing.T) {
	t.Parallel()
	g := configured(t, "defaults:\n  upstream: {urls: [%q]}\n  requests: {drop_fields: [X-Secret-Sauce]}\n", mirror(t))
	header, _ := visitor(t).get(g.url+"/", "X-HTTP-Method-Override", "PATCH", "X-Secret-Sauce", "evil", "X-Real-IP", "203.0.113.4").mirrored(t)
	if got := header.Get("X-Http-Method-Override"); got != "PATCH" {
		t.Errorf("X-HTTP-Method-Override: %q", got)
	}
	if got := header.Get("X-Secret-Sauce"); got != "" {
		t.Errorf("X-Secret-Sauce: %q", got)
	}
	if got := header.Get("X-Real-Ip"); got != "127.0.0.1" {
		t.Errorf("X-Real-IP: %q", got)
	}
}

// TestPitfall06OnlyTheLastTrustedHopIsBelieved takes the rightmost address that does not belong to a trusted proxy.
func TestPitfall06OnlyTheLastTrustedHopIsBelieved(t *testing.T) {
	t.Parallel()
	g := serve(t, mirror(t), "--trusted-proxies", "127.0.0.1,10.0.0.0/8")
	for said, want := range map[string]string{
		"203.0.113.1":                          "203.0.113.1",
		"198.51.100.1, 203.0.113.1":            "203.0.113.1", // the left one is the client's own claim
		"203.0.113.1, 10.1.2.3, 10.9.9.9":      "203.0.113.1",
		"192.0.2.1, 203.0.113.1, 10.1.2.3":     "203.0.113.1",
		"203.0.113.1, nonsense, 10.1.2.3":      "10.1.2.3", // what is left of the nonsense comes from nobody trusted
		"2001:db8::7":                          "2001:db8::7",
		"::ffff:203.0.113.1":                   "203.0.113.1",
		"10.1.2.3":                             "10.1.2.3",
		"":                                     "127.0.0.1",
		strings.Repeat("198.51.100.9, ", 2000): "198.51.100.9",
	} {
		header, _ := visitor(t).get(g.url+"/", "X-Forwarded-For", said).mirrored(t)
		if got := header.Get("X-Real-Ip"); got != want {
			t.Errorf("X-Forwarded-For %.60q: the service was told %s, wanted %s", said, got, want)
		}
	}
}

// TestPitfall08PathsHaveOneReading: a rule for a path applies to every spelling of it, and the service gets the request as
// it was sent, or not at all.
func TestPitfall08PathsHaveOneReading(t *testing.T) {
	t.Parallel()
	g := configured(t, `
defaults:
  upstream: {urls: [%q]}
  verdict: {mode: "off"}
services:
  - name: site
    paths:
      - {prefix: /private, verdict: {mode: enforce}}
lists:
  patterns:
    - {name: keep-out, flag: block, path_prefix: /private/vault}
`, mirror(t))
	g.ban("ip:127.0.0.1", "10m")
	ask := func(target string) *response {
		return g.wire("GET " + target + " HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n")
	}
	for _, free := range []string{"/", "/privateer", "/a/private", "/%2e", "/?/private"} {
		if _, uri := ask(free).mirrored(t); uri != free {
			t.Errorf("%s reached the service as %s", free, uri)
		}
	}
	for _, guarded := range []string{
		"/private", "/private/x", "//private", "/./private", "/x/../private", "/x/%2e%2e/private", "/x/%2E%2e%2fprivate", "/%70rivate", "/%2570rivate",
		"/private;v=1", "/;x/private", "/x/..;/private", "/x\\..\\private", "/private%00", "/private?a=1", "http://site.example/private", "http://site.example//private",
	} {
		if r := ask(guarded); r.StatusCode != 302 && r.StatusCode != 400 {
			t.Errorf("%s: %d %s", guarded, r.StatusCode, tail(r.body, 300))
		}
	}
	for _, blocked := range []string{
		"/private/vault", "/private//vault/x", "/private/./vault", "/private/x/../vault", "/private/%76ault", "/private;x/vault", "//private/vault", "/private/%2e/vault", "/private%2fvault",
	} {
		if r := ask(blocked); r.StatusCode != 403 && r.StatusCode != 400 {
			t.Errorf("%s: %d %s", blocked, r.StatusCode, tail(r.body, 300))
		}
	}
	// two names of the host: the one in the target is the one that counts, and both must agree
	g.wire("GET http://site.example/ HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n").must(t, 400, "")
	g.wire("CONNECT site.example:80 HTTP/1.1\r\nHost: site.example:80\r\nConnection: close\r\n\r\n").must(t, 405, "")
}

// TestPitfall09SmugglingIsRefused: the full suite is e2e/blackbox; this is the minimum, even if nobody runs that suite.
func TestPitfall09SmugglingIsRefused(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(s.Close)
	g := serve(t, s.URL)
	for _, head := range []string{
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 5\r\n", "Content-Length : 5\r\n",
		"Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding:\x0bchunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"A: b\r\n c: d\r\n", "A: b\x00c\r\n", "A: b\rc: d\r\n", "Host: two.example\r\n", "Content-Length: +5\r\n", "Content-Length: 0x5\r\n", ": x\r\n", "A b: c\r\n",
	} {
		r := g.wire("POST / HTTP/1.1\r\nHost: one.example\r\n" + head + "\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: one.example\r\n\r\n")
		if r.StatusCode != 400 && r.StatusCode != 501 || !r.Close {
			t.Errorf("%q: %d, connection closed %t", head, r.StatusCode, r.Close)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d of them reached the service", n)
	}
}

// TestPitfall10BodiesAreNeverSkipped: a limit on bodies holds however their length is said. (There is no message
// firewall yet that could skip one.)
func TestPitfall10BodiesAreNeverSkipped(t *testing.T) {
	t.Parallel()
	g := configured(t, `
services:
  - {name: site, upstream: {urls: [%q]}, requests: {max_body: 1KiB}}
`, site(t).URL)
	big := strings.Repeat("x", 2000)
	head := "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
	g.wire(head+"Content-Length: 5\r\n\r\nhello").must(t, 200, "body: hello")
	g.wire(head+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n").must(t, 200, "body: hello")
	g.wire(head+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(big), big)).must(t, 413, "")
	g.wire(head+fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(big), big)).must(t, 413, "")
}

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

// xmlConfig protects an XML interface with one known partner.
func xmlConfig(t *testing.T, upstream string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "xml.yaml")
	text := fmt.Sprintf(`
services:
  - name: search
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xmlsearch]}
    captcha:
      partners:
        - {name: acme, key: partner-key-0123456789}
`, upstream)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

var captchaKey = regexp.MustCompile(`<captcha-key>([^<]+)</captcha-key>`)

func keyOf(t *testing.T, xml string) string {
	t.Helper()
	m := captchaKey.FindStringSubmatch(xml)
	if m == nil {
		t.Fatalf("no captcha-key in %s", xml)
	}
	return m[1]
}

// TestXMLPartner goes through the whole XML flow as a partner's server does: robot, wrong, failed, right, spravka, results.
func TestXMLPartner(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", xmlConfig(t, site(t).URL), "--captcha-test-answer", testAnswer)
	const user = "203.0.113.50"
	g.ban("ip:"+user, "10m")
	partner := visitor(t)
	partner.Jar = nil
	search := g.url + "/xmlsearch?query=go&key=partner-key-0123456789"

	r := partner.get(search, "X-Real-Ip", user)
	r.must(t, 200, `<error code="100">Robot request</error>`).must(t, 200, "<captcha-status></captcha-status>")
	if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/xml") && !strings.HasPrefix(got, "application/xml") {
		t.Errorf("Content-Type %q is no XML", got)
	}
	check := func(key, rep string) *response {
		return partner.get(g.url+"/xcheckcaptcha?"+url.Values{"key": {key}, "rep": {rep}}.Encode()+"&partner=1", "X-Real-Ip", user)
	}
	wrong := check(keyOf(t, r.body), "000000")
	wrong.must(t, 200, "<captcha-status>failed</captcha-status>")
	if keyOf(t, wrong.body) == keyOf(t, r.body) {
		t.Error("a wrong answer brought no new key")
	}
	right := check(keyOf(t, wrong.body), testAnswer)
	right.must(t, 200, "")
	pass := ""
	for _, c := range right.Cookies() {
		if c.Name == "spravka" {
			pass = c.Value
		}
	}
	if pass == "" {
		t.Fatalf("no spravka after the right answer: %v\n%s", right.Header, right.body)
	}
	served := partner.get(search, "X-Real-Ip", user, "Cookie", "spravka="+pass)
	served.must(t, 200, "site got GET /xmlsearch?query=go")

	t.Run("the pass is bound to the user", func(t *testing.T) {
		g.ban("ip:203.0.113.51", "10m")
		partner.get(g.url+"/xmlsearch?query=go", "Cookie", "spravka="+pass, "X-Real-Ip", "203.0.113.51").
			must(t, 200, "") // not a known partner: its X-Real-Ip is not believed, it is its own address
	})
	t.Run("the test query always gets the captcha", func(t *testing.T) {
		partner.get(g.url+"/xmlsearch?query=e48a2b93de1740f48f6de0d45dc4192a&key=partner-key-0123456789", "X-Real-Ip", "203.0.113.99").
			must(t, 200, `<error code="100">`)
	})
	t.Run("an unknown caller is its own address", func(t *testing.T) {
		partner.get(g.url+"/xmlsearch?query=go", "X-Real-Ip", user).must(t, 200, "site got GET")
	})
}

// TestXMLIsAlwaysXML: an XML client that is blocked, throttled, quarantined or tries too often gets XML, which says when to come again.
func TestXMLIsAlwaysXML(t *testing.T) {
	t.Parallel()
	g := configured(t, `
services:
  - name: search
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xmlsearch]}
    rules:
      answers: [{decision: OK, action: pass}, {decision: FAST, action: throttle}, {decision: ODD, action: quarantine}]
      text: |
        do regexpCheck(regexp=".*odd.*", attribute="path") mark even
        if not even stop as ODD
        do regexpCheck(regexp=".*fast.*", attribute="path") mark slow
        if slow stop as OK
        do bucketCheck(rate=1, per=3600, burst=1, attribute="ip", storage="store") mark empty
        if empty stop as FAST
        stop as OK
    captcha: {partners: [{name: acme, key: partner-key-0123456789}]}
`, site(t).URL)
	v := visitor(t)
	ask := func(path, user string) *response {
		return v.get(g.url+path+"?query=go&key=partner-key-0123456789", "X-Real-Ip", user)
	}
	refused := func(r *response, status int, says string) {
		t.Helper()
		r.must(t, status, says)
		if kind, mark := r.Header.Get("Content-Type"), `<?xml version="1.0"`; !strings.HasPrefix(kind, "text/xml") || !strings.HasPrefix(r.body, mark) || strings.Contains(r.body, "Robot request") {
			t.Errorf("%s: %s\n%s", r.Request.URL, kind, r.body)
		}
		if after := r.Header.Get("Retry-After"); (status == 429) != (after != "") {
			t.Errorf("%s: %d, Retry-After %q", r.Request.URL, status, after)
		}
	}
	g.api("POST", "/api/lists/block", map[string]string{"entry": "203.0.113.7", "reason": "test"})
	refused(ask("/xmlsearch", "203.0.113.7"), 403, "Blocked")
	refused(ask("/xmlsearch/odd", "203.0.113.8"), 409, "Quarantined")
	ask("/xmlsearch/fast", "203.0.113.8").must(t, 200, "site got")
	refused(ask("/xmlsearch/fast", "203.0.113.8"), 429, "Please try again in ")
	check := func() *response { return v.get(g.url+"/xcheckcaptcha?key=x&rep=1", "X-Real-Ip", "203.0.113.9") }
	check().must(t, 200, "Robot request")
	for range 300 { // what an address may try at once
		check()
	}
	refused(check(), 429, "Please try again in ")
}

// TestPitfall28NoCookieOnSharedAnswers: a cache between the gateway and its visitors may keep what the service allows, so
// such answers never set a visitor's cookie; other pages do.
func TestPitfall28NoCookieOnSharedAnswers(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for name, values := range r.URL.Query() {
			w.Header()[name] = values
		}
		if r.URL.Path == "/304" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte("<p>page</p>"))
	}))
	t.Cleanup(site.Close)
	g := serve(t, site.URL)
	for target, want := range map[string]bool{
		"/": true, "/?Cache-Control=no-store": true, "/?Cache-Control=private,+max-age%3D60": true, "/?Cache-Control=public": false,
		"/?Cache-Control=max-age%3D60": false, "/?Cache-Control=s-maxage%3D60": false,
		"/?Cache-Control=no-store&CDN-Cache-Control=max-age%3D60": false, "/?Cache-Control=private&Surrogate-Control=max-age%3D60": false,
		"/304": false, "/304?Cache-Control=private": true,
	} {
		r := visitor(t).get(g.url+target, "Accept", "text/html")
		if got := len(r.Header.Values("Set-Cookie")) > 0; got != want || r.StatusCode/100 != 2 && r.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %d with Set-Cookie %q", target, r.StatusCode, r.Header.Values("Set-Cookie"))
		}
	}
}

// TestPitfall28NothingSharedByGuesses: Apache's cache keeps what says only when it was last modified, and whatever cookie comes with it, so
// that all visitors would be one. With what the gateway says of its cookie, the cache keeps the answer without it.
func TestPitfall28NothingSharedByGuesses(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Last-Modified", "Thu, 01 Jan 2015 16:00:00 GMT")
		if r.URL.Path == "/expires" {
			w.Header().Set("Cache-Control", "must-revalidate")
			w.Header().Set("Expires", "Thu, 01 Dec 2033 16:00:00 GMT")
		}
		_, _ = w.Write([]byte("<p>page</p>"))
	}))
	t.Cleanup(site.Close)
	g, _, plain := http2Gateway(t, site.URL, "identity: {trusted_proxies: [127.0.0.1]}\n")
	g.url = "http://" + plain
	for protocol, tr := range map[string]*http.Transport{"HTTP/1.1": new(http.Transport), "HTTP/2": plainHTTP2(t)} {
		defer tr.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		r, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if cc := r.Header.Values("Cache-Control"); len(r.Cookies()) != 1 || len(cc) != 1 || cc[0] != `private="set-cookie"` {
			t.Errorf("%s: Set-Cookie %q, Cache-Control %q", protocol, r.Header.Values("Set-Cookie"), cc)
		}
	}
	apache := runApacheCache(t, plain)
	for path, first := range map[string]int{"/": 1, "/expires": 0} {
		for n := range 2 {
			r := visitor(t).get(apache+path, "Accept", "text/html", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", n)).must(t, 200, "page")
			if got := len(r.Header.Values("Set-Cookie")); got != first*(1-n) {
				t.Errorf("%s: visitor %d gets %d cookies; %s", path, n, got, r.Header.Get("X-Cache"))
			}
			if hit := strings.HasPrefix(r.Header.Get("X-Cache"), "HIT"); hit != (n == 1) {
				t.Errorf("%s: visitor %d: %s", path, n, r.Header.Get("X-Cache"))
			}
		}
	}
}

// runApacheCache runs Apache as a shared cache in front of a gateway.
func runApacheCache(t *testing.T, gateway string) string {
	t.Helper()
	bin := servertest.Need(t, "apache2")
	addr, dir := freePort(t), t.TempDir()
	kept := filepath.Join(dir, "kept")
	if err := os.Mkdir(kept, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{filepath.Dir(dir), dir, kept} { // Apache's workers are other users
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	conf := fmt.Sprintf("CacheRoot %s\nCacheEnable disk /\nCacheHeader on\nProxyPass / http://%s/\n", kept, gateway)
	return apache(t, bin, addr, dir, conf, "cache", "cache_disk")
}

// TestFourAnswers requests each kind of resource as a banned and as a blocked visitor.
func TestFourAnswers(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)

	t.Run("a page is redirected", func(t *testing.T) {
		r := v.get(g.url+"/a?b=1&c=2").must(t, 302, "")
		to := r.Header.Get("Location")
		if !strings.HasPrefix(to, g.url+"/showcaptcha?cc=1&retpath=") {
			t.Fatalf("Location %s", to)
		}
		if at := strings.Index(to, "retpath="); !strings.Contains(to[at:], "&") {
			t.Errorf("retpath is the last parameter of %s", to)
		}
		for name, want := range map[string]string{"X-Antirobot-Verdict": "captcha", "Cache-Control": "no-store"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, wanted %q", name, got, want)
			}
		}
		if r.Header.Get("X-Request-Id") == "" {
			t.Error("no X-Request-Id")
		}
	})
	t.Run("a script gets JSON", func(t *testing.T) {
		for _, header := range [][]string{
			{"X-Requested-With", "XMLHttpRequest"},
			{"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"},
			{"Accept", "application/json, text/plain, */*;q=0.1", "Referer", g.url + "/page"},
		} {
			r := v.get(g.url+"/api/list", header...).must(t, 200, `"type":"captcha"`)
			var a struct {
				Type    string
				Captcha map[string]any
			}
			if err := json.Unmarshal([]byte(r.body), &a); err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{"img-url", "key", "status", "captcha-page"} {
				if _, ok := a.Captcha[f].(string); !ok {
					t.Errorf("%v: no string %q in %s", header, f, r.body)
				}
			}
		}
	})
	t.Run("a sub-resource gets an empty 403", func(t *testing.T) {
		for _, dest := range []string{"image", "script", "style", "font"} {
			if r := v.get(g.url+"/x", "Sec-Fetch-Dest", dest).must(t, 403, ""); r.body != "" {
				t.Errorf("%s: got %q", dest, r.body)
			}
		}
	})
	t.Run("a preflight passes", func(t *testing.T) {
		if r := v.do("OPTIONS", g.url+"/api", "", "Origin", "https://example.org", "Access-Control-Request-Method", "POST").must(t, 200, ""); r.Header.Get("X-Served-By") != "site" {
			t.Errorf("a preflight got %v", r.Header)
		}
	})
	t.Run("blocked", func(t *testing.T) {
		g.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "10m", "reason": "test"})
		r := v.get(g.url+"/").must(t, 403, "")
		if got := r.Header.Get("X-Antirobot-Verdict"); got != "blocked" {
			t.Errorf("verdict header %q", got)
		}
		if !strings.Contains(r.body, r.Header.Get("X-Request-Id")) {
			t.Error("the page does not show the request id")
		}
		v.get(g.url+"/", "X-Requested-With", "XMLHttpRequest").must(t, 403, `"type":"blocked"`)
		v.do("OPTIONS", g.url+"/api", "", "Origin", "https://example.org", "Access-Control-Request-Method", "POST").must(t, 403, "")
		v.get(g.url+"/showcaptcha").must(t, 403, "")

		var d struct{ Verdict, Cause string }
		if err := json.Unmarshal(g.api("GET", "/api/decisions/"+r.Header.Get("X-Request-Id"), nil), &d); err != nil || d.Verdict != "blocked" {
			t.Errorf("decision of the blocked request: %+v %v", d, err)
		}
	})
}

// challenge is the JSON that a stopped script gets.
type challenge struct {
	Type    string
	Captcha struct {
		Img    string `json:"img-url"`
		Key    string `json:"key"`
		Status string `json:"status"`
		Page   string `json:"captcha-page"`

		WorkURL string `json:"work-url"`
		Work    *work
	}
}

func (r *response) challenge(t *testing.T) challenge {
	t.Helper()
	var c challenge
	if err := json.Unmarshal([]byte(r.body), &c); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return c
}

// TestInlineCaptcha draws the picture itself, as a front end of the inline kind does.
func TestInlineCaptcha(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	ajax := []string{"X-Requested-With", "XMLHttpRequest", "Accept", "application/json"}

	c := v.get(g.url+"/api/list", ajax...).must(t, 200, `"type":"captcha"`).challenge(t)
	if img := v.get(c.Captcha.Img); img.StatusCode != 200 || !strings.HasPrefix(img.Header.Get("Content-Type"), "image/") {
		t.Errorf("picture: %d %s", img.StatusCode, img.Header)
	}
	check := func(key, rep string) *response {
		return v.get(g.url+"/checkcaptcha?"+url.Values{"key": {key}, "rep": {rep}}.Encode(), ajax...)
	}
	wrong := check(c.Captcha.Key, "111").must(t, 200, `"status":"failed"`).challenge(t)
	if wrong.Captcha.Key == c.Captcha.Key {
		t.Error("a wrong answer brought no new key")
	}
	check(c.Captcha.Key, testAnswer).must(t, 200, "captcha-page") // spent: no success
	ok := check(wrong.Captcha.Key, testAnswer).must(t, 200, `{"type":"captcha","captcha":{"status":"success"}}`)
	if !strings.Contains(strings.Join(ok.Header.Values("Set-Cookie"), "\n"), "spravka=") {
		t.Errorf("no spravka: %v", ok.Header)
	}
	v.get(g.url+"/api/list", ajax...).must(t, 200, "site got GET /api/list")
	check(wrong.Captcha.Key, testAnswer).must(t, 200, `"type":"captcha"`) // an answer counts once
}

// TestReasonsInWords: who is asked reads whether it is for their network or for their own pace, on a page, on the page of a form and in
// JSON.
func TestReasonsInWords(t *testing.T) {
	t.Parallel()
	g := configured(t, signedConfig+`
    verdict: {limits: [{window: 1h, requests: 3, ban: 1h}]}
processor: {exempt: []}
`, site(t).URL)
	told := func(v *client, name, words string) {
		t.Helper()
		v.get(v.get(g.url+"/").must(t, 302, "").Header.Get("Location")).must(t, 200, words)
		v.do("POST", g.url+"/post", "a=b", "Content-Type", "application/x-www-form-urlencoded").must(t, 200, words)
		v.get(g.url+"/", "X-Requested-With", "XMLHttpRequest").must(t, 200, `"reason":"`+name+`"`)
	}
	reader := from(t, "203.0.113.1")
	reader.header.Set("Cookie", signed(t, "reader"))
	eventually(t, "a ban for pace", func() bool { return reader.get(g.url+"/").StatusCode == 302 })
	told(reader, "pace", "You have asked for a lot of pages in a short time.")
	g.ban("ip:203.0.113.2", "10m")
	told(from(t, "203.0.113.2"), "network", "Requests from your network look like those of a program.")
}

// limitedJar keeps what a browser with limits keeps of the cookies that it gets.
type limitedJar struct {
	http.CookieJar
	keep func(*http.Cookie) *http.Cookie // nil: not kept
}

// SetCookies implements http.CookieJar.
func (j limitedJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	var kept []*http.Cookie
	for _, c := range cookies {
		if k := j.keep(c); k != nil {
			kept = append(kept, k)
		}
	}
	j.CookieJar.SetCookies(u, kept)
}

// TestNobodyIsAskedTwice: whoever has answered rightly reads on, whatever becomes of their address and their cookies. Each
// kind of browser answers one question, and then opens five pages.
func TestNobodyIsAskedTwice(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	f := func(kind string, keep func(*http.Cookie) *http.Cookie, addresses ...string) {
		t.Run(kind, func(t *testing.T) {
			for _, a := range addresses {
				g.ban("ip:"+a, "10m")
			}
			v := visitor(t)
			v.Jar = limitedJar{v.Jar, keep}
			steps := 0
			step := func() []string { // each request comes from the next address
				steps++
				return []string{"X-Forwarded-For", addresses[(steps-1)%len(addresses)]}
			}
			page := v.get(v.get(g.url+"/articles", step()...).must(t, 302, "").Header.Get("Location"), step()...).must(t, 200, `name="rep"`)
			r := v.do("POST", g.url+"/checkcaptcha", answered(t, page.body, testAnswer), append(step(), "Content-Type", "application/x-www-form-urlencoded")...)
			if to := r.must(t, 303, "").Header.Get("Location"); strings.Contains(to, "showcaptcha") {
				t.Fatalf("a right answer leads to %s", to)
			}
			for range 5 {
				v.get(g.url+"/articles", step()...).must(t, 200, "site got")
			}
		})
	}
	all := func(c *http.Cookie) *http.Cookie { return c }
	f("with one address", all, "203.0.113.1")
	f("on IPv4 and IPv6", all, "203.0.113.2", "2001:db8:1::2")
	f("on a train", all, "203.0.113.3", "198.51.100.3", "192.0.2.3")
	f("with blocked cookies", func(*http.Cookie) *http.Cookie { return nil }, "203.0.113.4")
	f("where cookies live for a session only", func(c *http.Cookie) *http.Cookie {
		c.MaxAge, c.Expires = 0, time.Time{}
		return c
	}, "203.0.113.5")
	f("where cookies live for a day", func(c *http.Cookie) *http.Cookie { // as browsers limit those of servers behind a CNAME
		c.MaxAge = min(c.MaxAge, 24*60*60)
		return c
	}, "203.0.113.6")
	f("where a tracking protection takes marks away", func(c *http.Cookie) *http.Cookie {
		if c.Name != "spravka" {
			return nil
		}
		return c
	}, "203.0.113.7")
	t.Run("where the connection ends before the pass arrives", func(t *testing.T) {
		g.ban("ip:203.0.113.8", "10m")
		v := visitor(t)
		v.header.Set("X-Forwarded-For", "203.0.113.8")
		page := v.get(v.get(g.url+"/articles").must(t, 302, "").Header.Get("Location")).must(t, 200, `name="rep"`)
		answer := answered(t, page.body, testAnswer)
		solved := g.metric("antirobot_captcha_answers_total", `result="solved"`)
		cutOff(t, v, g, answer)
		eventually(t, "the answer counts", func() bool { return g.metric("antirobot_captcha_answers_total", `result="solved"`) == solved+1 })
		if to := v.do("POST", g.url+"/checkcaptcha", answer, "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "").Header.Get("Location"); strings.Contains(to, "showcaptcha") {
			t.Fatalf("the right answer, sent again, leads to %s", to)
		}
		v.get(g.url+"/articles").must(t, 200, "site got")
		if n := g.metric("antirobot_captcha_answers_total", `result="solved"`); n != solved+1 {
			t.Errorf("%v passes for one answer", n-solved)
		}
	})
}

// cutOff sends an answer, and ends the connection without reading what comes back.
func cutOff(t *testing.T, v *client, g *gateway, answer string) {
	t.Helper()
	u, err := url.Parse(g.url + "/checkcaptcha")
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest("POST", u.String(), strings.NewReader(answer))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = v.header.Clone()
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range v.Jar.Cookies(u) {
		r.AddCookie(c)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Write(conn), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// asking is a service that asks itself: on /signup for digits, and on /checkout for the moving picture, unless it is told that they
// were passed; on /always for the moving picture, whatever it is told.
func asking(t *testing.T) (url string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	told := regexp.MustCompile(`^digits;at=\d{10};id=[0-9a-f]{16}(;for=dynamic)?$`)
	moved := regexp.MustCompile(`^dynamic;at=\d{10};id=[0-9a-f]{16}$`)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		switch passed := r.Header.Values("X-Antirobot-Passed"); {
		case r.URL.Path == "/always":
			w.Header().Set("X-Antirobot-Require", "dynamic")
			w.WriteHeader(403)
			fmt.Fprintf(w, "never, told %q", passed)
		case r.URL.Path == "/checkout" && (len(passed) != 1 || !moved.MatchString(passed[0])):
			w.Header().Set("X-Antirobot-Require", "dynamic")
			w.WriteHeader(403)
			fmt.Fprint(w, "not yet")
		case r.URL.Path == "/checkout":
			fmt.Fprintf(w, "bought with %s", body)
		case len(passed) == 1 && told.MatchString(passed[0]):
			fmt.Fprintf(w, "signed up with %s", body)
		default:
			w.Header().Set("X-Antirobot-Require", "digits")
			w.WriteHeader(403)
			fmt.Fprint(w, "not yet")
		}
	}))
	t.Cleanup(service.Close)
	return service.URL, requests
}

// TestServiceAsks: the answer of a service that wants a step is withheld, the visitor is asked, and the request comes again
// with its body and with what was passed: a page, a form, a call of a script, over HTTP/1 and HTTP/2.
func TestServiceAsks(t *testing.T) {
	t.Parallel()
	upstream, requests := asking(t)
	g, secure, plain := http2Gateway(t, upstream, "")
	g.url = "http://" + plain
	f := func(base string, new func() *client) {
		const claimed, why = "digits;at=1795366800;id=0123456789abcdef", "asks everybody"
		page := func(v *client, path string) {
			t.Helper()
			asked := v.get(base+path).must(t, 302, "")
			if s := g.why(asked); s.Required == "" || s.Required != map[string]string{"/signup?a=b": "digits", "/always": "dynamic"}[path] {
				t.Errorf("%s: why says that the service asked for %q", path, s.Required)
			}
			to := asked.Header.Get("Location")
			for range 2 { // a moving picture has two acts
				shown := v.get(to).must(t, 200, why)
				r := v.do("POST", base+"/checkcaptcha", answered(t, shown.body, testAnswer), "Content-Type", "application/x-www-form-urlencoded")
				if to = r.must(t, 303, "").Header.Get("Location"); to == base+path {
					return
				}
			}
			t.Fatalf("right answers lead to %s", to)
		}
		v := new()
		page(v, "/signup?a=b")
		r := v.get(base+"/signup?a=b").must(t, 200, "signed up")
		if len(r.Header.Values("X-Antirobot-Require")) > 0 {
			t.Errorf("the visitor is told %v", r.Header)
		}
		v = new()
		page(v, "/always")
		if r := v.get(base+"/always").must(t, 403, "never, told"); len(r.Header.Values("X-Antirobot-Require")) > 0 || !strings.Contains(r.body, "dynamic") {
			t.Errorf("%v\n%s", r.Header, r.body)
		}

		v, before := new(), requests.Load()
		urlencoded := []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", base}
		kept := v.do("POST", base+"/signup", "name=Anna", append(urlencoded, "X-Antirobot-Passed", claimed)...).must(t, 200, "is kept")
		if !strings.Contains(kept.body, why) {
			t.Errorf("the page of a form does not say why:\n%s", kept.body)
		}
		again := answered(t, v.do("POST", base+"/checkcaptcha", answered(t, kept.body, "000000"), urlencoded...).must(t, 200, `name="rep"`).body, testAnswer)
		to := v.do("POST", base+"/checkcaptcha", again, urlencoded...).must(t, 307, "").Header.Get("Location")
		v.do("POST", to, again, urlencoded...).must(t, 200, "signed up with name=Anna")
		if n := requests.Load() - before; n != 2 {
			t.Errorf("the service saw the form %d times", n)
		}

		v, before = new(), requests.Load()
		shown := v.do("POST", base+"/checkout", "name=Anna", urlencoded...).must(t, 200, "data-moving")
		next := v.do("POST", base+"/checkcaptcha", followed(t, shown.body, testAnswer), urlencoded...).must(t, 200, "data-moving")
		again = followed(t, next.body, testAnswer)
		to = v.do("POST", base+"/checkcaptcha", again, urlencoded...).must(t, 307, "").Header.Get("Location")
		v.do("POST", to, again, urlencoded...).must(t, 200, "bought with name=Anna")
		if n := requests.Load() - before; n != 2 || to != base+"/checkout" {
			t.Errorf("the service saw the form %d times, at %s", n, to)
		}

		v = new()
		v.header.Set("Accept", "application/json")
		call := func() *response {
			return v.do("POST", base+"/signup", `{"name":"Anna"}`, "Content-Type", "application/json", "Origin", base)
		}
		var c struct {
			Captcha struct{ Key string }
			Reason  string
		}
		if err := json.Unmarshal([]byte(call().must(t, 200, `"type":"captcha"`).body), &c); err != nil || c.Reason != "service" {
			t.Fatalf("%+v, %v", c, err)
		}
		v.do("POST", base+"/checkcaptcha", url.Values{"key": {c.Captcha.Key}, "rep": {testAnswer}}.Encode(), urlencoded...).must(t, 200, "success")
		call().must(t, 200, `signed up with {"name":"Anna"}`)
	}
	f("http://"+plain, func() *client { return visitor(t) })
	f("https://"+secure, func() *client {
		v := visitor(t)
		v.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		t.Cleanup(v.CloseIdleConnections)
		return v
	})
	for result, want := range map[string]float64{"asked": 10, "passed": 2, "not-asked": 0, "not-understood": 0} {
		if n := g.metric("antirobot_service_requires_total", `result="`+result+`"`); n != want {
			t.Errorf("%v times %s, wanted %v", n, result, want)
		}
	}
}

// TestServiceAsksInVain: who can't be asked gets the service's own answer, and so does everybody where it may not ask.
func TestServiceAsksInVain(t *testing.T) {
	t.Parallel()
	upstream, _ := asking(t)
	g := start(t, "serve", "--config", configFile(t, `
defaults: {upstream: {urls: [%q]}}
services:
  - name: shop
    paths:
      - {prefix: /observed, verdict: {mode: observe}}
      - {prefix: /silent, captcha: {require: false}}
`, upstream), "--captcha-test-answer", testAnswer)
	v := visitor(t)
	v.get(g.url+"/observed").must(t, 403, "not yet")
	v.get(g.url+"/silent").must(t, 403, "not yet")
	v.get(g.url+"/picture.png", "Sec-Fetch-Dest", "image", "Accept", "image/*").must(t, 403, "not yet")
	v.get(g.url+"/signup").must(t, 302, "")
	big := v.do("POST", g.url+"/signup", "name="+strings.Repeat("a", 70<<10), "Content-Type", "application/x-www-form-urlencoded")
	big.must(t, 200, "larger than 64 KB")
}
