package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
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
