package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

const rulesConfig = `
identity: {trusted_proxies: [127.0.0.1]}
lists:
  lists:
    - {name: tor, flag: white, entries: [192.0.2.99]}
    - {name: watched, flag: ban, entries: [198.51.100.0/24], service: nobody}
services:
  - name: nobody
    hosts: [nobody.example]
    upstream: {urls: [%[1]q]}
  - name: shop
    upstream: {urls: [%[1]q]}
    rules:
      text: |
        do regexpCheck(regexp=".*curl", attribute="header.user-agent") mark browser
        if not browser stop as BLOCK
        do regexpCheck(regexp="/odd(/|$)", attribute="path") mark notodd
        if not notodd stop as MARK
        do regexpCheck(regexp="/aside", attribute="path") mark inside
        if not inside stop as QUARANTINE
        do counterAdd(type=102, attribute="path", prefix="shop")
        do counterAddPair(type=300, attribute="subject", unique="header.x-many", prefix="shop")
        do counterCheck(type=102, attribute="path", limit=5, prefix="shop") mark busy score 1
        do userFrequencyCheck(attribute="ip", count=10) mark fast score 1
        do attributeCheck(attribute="verdict", value="human") mark suspect
        do scoreOver(limit=1.5) mark both
        if both stop as CAPTCHA
        if busy stop as BUSY
        stop as OK
      otherwise: mark
      on_error: pass
    paths:
      - {prefix: /free, rules: {text: ""}}
      - {prefix: /seen, verdict: {mode: observe}}
`

// TestRequestRules judges requests by rules: which pass, are marked, challenged, quarantined and blocked, and why.
func TestRequestRules(t *testing.T) {
	t.Parallel()
	up := mirror(t)
	g := configured(t, rulesConfig, up)
	ask := func(addr, path string, header ...string) *response {
		t.Helper()
		return from(t, addr).get(g.url+path, append([]string{"X-Many", "a"}, header...)...)
	}
	mark := func(r *response) string {
		t.Helper()
		h, _ := r.mirrored(t)
		return h.Get("X-Antirobot-Mark")
	}
	if got := mark(ask("192.0.2.1", "/")); got != "" {
		t.Errorf("a mark without need: %q", got)
	}
	if got := mark(ask("192.0.2.1", "/x/%2e%2e/odd/?q", "X-Antirobot-Mark", "forged")); got != "MARK;tags=browser,notodd" && got != "MARK;tags=browser" {
		t.Errorf("mark %q", got)
	}
	r := ask("192.0.2.1", "/aside", "X-Requested-With", "XMLHttpRequest").must(t, 409, `"type":"quarantine"`)
	if s := g.why(r); s.Verdict != "blocked" || s.Cause != "rule" || s.Rule != "line 6: if not inside stop as QUARANTINE" || s.Rules.Line != 6 || s.Rules.Action != "quarantine" {
		t.Errorf("%+v", s)
	}
	r = ask("192.0.2.1", "/", "User-Agent", "curl/8").must(t, 403, "")
	if s := g.why(r); s.Rule != "line 2: if not browser stop as BLOCK" || s.Rules.Decision != "BLOCK" {
		t.Errorf("%+v", s)
	}
	ask("192.0.2.99", "/", "User-Agent", "curl/8").must(t, 403, "") // a blocking rule comes before the allow list
	ask("192.0.2.1", "/free", "User-Agent", "curl/8").must(t, 200, "")
	ask("192.0.2.1", "/seen", "User-Agent", "curl/8").must(t, 200, "") // observed
	if n := g.metric(`antirobot_rules_total{service="shop",action="block"}`); n != 3 {
		t.Errorf("%v requests were blocked or would have been", n)
	}

	// A page that is busy, then a visitor who is fast as well: the captcha, which a pass pays for.
	for range 5 {
		ask("192.0.2.2", "/busy").must(t, 200, "")
	}
	if got := mark(ask("192.0.2.2", "/busy")); got != "BUSY;score=1;tags=browser,notodd,inside,busy" && !strings.HasPrefix(got, "BUSY;score=1;tags=") {
		t.Errorf("mark %q", got)
	}
	v := from(t, "192.0.2.2")
	for range 4 {
		v.get(g.url+"/busy", "X-Many", "a").must(t, 200, "")
	}
	r = v.get(g.url+"/busy", "X-Many", "a").must(t, 302, "")
	if s := g.why(r); s.Cause != "rule" || s.Rules.Decision != "CAPTCHA" || s.Rules.Score != 2 {
		t.Errorf("%+v", s)
	}
	page := v.get(r.Header.Get("Location")).must(t, 200, "<form") // the rules count no look at our own pages
	v.do("POST", g.url+"/checkcaptcha", answered(t, page.body, testAnswer), "Content-Type", form).must(t, 303, "")
	if s := g.whyAfter(v.get(g.url+"/busy", "X-Many", "a").must(t, 200, "")); s.Cause != "rule" || s.Pass == nil {
		t.Errorf("the pass did not pay: %+v", s)
	}

	// The API names the same counters.
	if got := string(g.api("POST", "/api/counters/read", map[string]any{"prefix": "shop", "queries": []any{
		map[string]any{"type": 102, "text": "/busy", "unit": "1d", "last": 1},
		map[string]any{"type": 300, "text": "a", "unit": "1d", "last": 1},
	}})); strings.TrimSpace(got) != `{"counts":[12,3]}` {
		t.Errorf("counters: %s", got)
	}
}

// whyAfter asks why for an answer of the service, using the request ID that the service got.
func (g *gateway) whyAfter(r *response) story {
	g.t.Helper()
	h, _ := r.mirrored(g.t)
	return g.whyID(h.Get("X-Request-Id"))
}

// TestRulesReload loads new rules from a file, and refuses a file with errors as a whole, with line and column.
func TestRulesReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.rules")
	write(t, file, "stop as OK")
	cfg := configFile(t, "services:\n  - {name: shop, upstream: {urls: [%q]}, rules: {file: %s}}\n", site(t).URL, file)
	g := start(t, "serve", "--config", cfg)
	v := visitor(t)
	v.get(g.url+"/").must(t, 200, "site got")
	write(t, file, "stop as OK\ndo listChek(list=\"tor\")")
	if status, body := g.tryAPI("POST", "/api/reload", nil); status == 200 || !strings.Contains(string(body), "line 2, column 4: there is no rule listChek; did you mean listCheck?") {
		t.Errorf("%d %s", status, body)
	}
	code, out := command(t, "check-config", cfg)
	if code == 0 || !strings.Contains(out, "services[0].rules.file: "+file+": line 2, column 4") {
		t.Errorf("check-config: %d %s", code, out)
	}
	v.get(g.url+"/").must(t, 200, "site got")
	write(t, file, "stop as BLOCK")
	g.api("POST", "/api/reload", nil)
	v.get(g.url+"/").must(t, 403, "")
	write(t, file, "do listCheck(list=\"no\")")
	if code, out := command(t, "check-config", cfg); code == 0 || !strings.Contains(out, "line 1, column 19: there is no list no") {
		t.Errorf("check-config: %d %s", code, out)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if status, _ := g.tryAPI("POST", "/api/reload", nil); status == 200 {
		t.Error("rules that are gone were taken over")
	}
}

// TestMessageFirewallComesUp: if the shared store is unavailable at the start, the gateway serves, reports that messages
// are not judged, and judges them once the store is back, including counters and lists.
func TestMessageFirewallComesUp(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	book := newGuestbook(t)
	cfg := configFile(t, `
store: {url: "redis://%s", redis: {timeout: 2s}}
keys: {secret_file: %s}
services:
  - name: book
    upstream: {urls: [%q]}
    messages:
      routes:
        - {route: POST /comments, sources: [{attribute: text, from: form, key: words}, {attribute: ip, from: address}], on_error: quarantine}
message:
  partners:
    - name: default
      domain:
        properties:
          - {name: storage, class: DomainStoreStorage}
          - name: messageAnalyzer
            class: Firewall
            rules: |
              do counterAdd(type=104, attribute="text")
              do counterCheck(type=104, attribute="text", limit=1) mark often
              do listCheck(list="api") mark listed
              if often stop as FREQUENT
              if listed stop as BLOCK
              stop as OK
          - {name: messageLog, class: MessageLog}
          - {name: model, class: BayesModel}
`, r.Addr, secretFile(t), book.URL)
	g := start(t, "serve", "--config", cfg, "--captcha-test-answer", testAnswer)
	v := visitor(t)
	post := func(words string) *response {
		t.Helper()
		return v.do("POST", g.url+"/comments", "words="+words, "Content-Type", form)
	}
	post("first").must(t, 200, "posted")
	post("first").must(t, 200, "<form")
	r.Kill()
	g.kill(syscall.SIGTERM)
	g.run()
	v.get(g.url+"/").must(t, 200, "posted")
	if s := g.why(post("second").must(t, 409, "quarantine")); s.Message.Error != "the message firewall is not there yet" {
		t.Errorf("%+v", s.Message)
	}
	if status, body := g.tryAPI("GET", "/api/messages", nil); status != 503 || !strings.Contains(string(body), "store_away") {
		t.Errorf("%d %s", status, body)
	}
	r.Restart(t)
	took := eventually(t, "messages are judged", func() bool {
		return post(fmt.Sprintf("n%d", time.Now().UnixNano())).StatusCode == 200
	})
	t.Logf("judged %v after the store was back", took)
	post("third").must(t, 200, "posted")
	post("third").must(t, 200, "<form")
}
