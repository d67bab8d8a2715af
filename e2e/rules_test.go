package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

const answersConfig = `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: shop
    upstream: {urls: [%[1]q]}
    requests:
      bodies:
        - {route: POST /login, fields: [{attribute: user, from: form, key: login}]}
    rules:
      time: 10s
      text: |
        do hasAttribute(attribute="body.user") mark login
        if login skip to 1
        do eventCheck(event="failed", attribute="ip, body.user", timeout=600, count=1) mark guessing
        if guessing stop as BLOCK
        stop as OK
        1: do bucketCheck(rate=1, per=3600, burst=2, attribute="ip", storage="store") mark fast
        if fast stop as THROTTLE
        stop as OK
      after: |
        do attributeCheck(attribute="status", value=401) mark other
        if not other do eventAdd(event="failed", attribute="ip, body.user", timeout=600)
`

// TestAnswersAndBuckets: failed logins of a user are counted by their answers, the service gets the body that was read for
// it, and an empty bucket is answered with 429.
func TestAnswersAndBuckets(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == "POST" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write(body)
	}))
	defer up.Close()
	g := configured(t, answersConfig, up.URL)
	one := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}} // an answer is counted before the next request of its connection
	login := func(user string, want int) {
		t.Helper()
		body := "login=" + user + "&password=x"
		resp, err := one.Post(g.url+"/login", "application/x-www-form-urlencoded", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		answer, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != want || want == 401 && string(answer) != body {
			t.Errorf("%s: %d %.200s, want %d", user, resp.StatusCode, answer, want)
		}
	}
	login("ann", 401)
	login("ann", 401)
	login("ann", 403)
	visitor(t).do("PUT", g.url+"/login?_method=POST", "login=ann", "Content-Type", form).must(t, 403, "")
	login("bob", 401)
	for i, want := range []int{200, 200, 429} {
		r := from(t, "192.0.2.7").get(g.url + "/search")
		if after := r.Header.Get("Retry-After"); r.StatusCode != want || (want == 429) != (after != "") {
			t.Errorf("request %d: %d, Retry-After %q", i, r.StatusCode, after)
		}
	}
}

const slowRules = `
services:
  - name: shop
    upstream: {urls: [%q]}
    rules:
      text: |
        do regexpCheck(regexp=".*\b(bot|crawler|spider)\b", attribute="ua") mark clean
        if not clean stop as BLOCK
        stop as OK
    paths:
      - prefix: /slow
        rules:
          text: |
            do hasAttribute(attribute="ua") mark none
            do regexpCheck(regexp=".*\b(bot|crawler|spider)\b", attribute="ua") mark clean
            do regexpCheck(regexp=".*\b(scraper|fetcher)\b", attribute="ua") mark fair
            stop as OK
          max_input: 65536
          time: 100us
`

// TestRulesThatFailAsk: a request that makes the rules exceed their read limit or their time is challenged. The rule that
// was too slow is named.
func TestRulesThatFailAsk(t *testing.T) {
	t.Parallel()
	g := configured(t, slowRules, site(t).URL)
	v := visitor(t)
	v.get(g.url+"/").must(t, 200, "site got")
	v.get(g.url+"/", "User-Agent", "a bot").must(t, 403, "")
	long := "Mozilla/5.0 Firefox/133.0 " + strings.Repeat("a b ", 12<<10)
	r := v.get(g.url+"/", "User-Agent", long).must(t, 302, "")
	if s := g.why(r); s.Cause != "rule" || !strings.Contains(s.Rules.Error, "the attribute ua has 49177 bytes, more than the limit of 8192") {
		t.Errorf("%+v", s.Rules)
	}
	r = v.get(g.url+"/slow", "User-Agent", long).must(t, 302, "")
	if s := g.why(r); s.Cause != "rule" || !strings.Contains(s.Rules.Error, "line 3: the rules took longer than 100µs, at last regexpCheck") {
		t.Errorf("%+v", s.Rules)
	}
	if n := g.metric(`antirobot_rules_slow_total{service="shop",line="3",rule="regexpCheck"}`); n != 1 {
		t.Errorf("%v slow rules are counted", n)
	}
	if g.logs.find(func(s string) bool { return strings.Contains(s, "more than the limit of 8192") }) == "" {
		t.Error("the log does not say why the rules failed")
	}
}

// TestRulesNeverPassByFailing: rules that count in a shared store which is slow, silent or gone, and rules that read more than they may, ask; what
// stands behind masses of cookies, parameters and fields is read. Rules that count in memory go on.
func TestRulesNeverPassByFailing(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	p := redistest.StartProxy(t, r.Addr)
	const countingSite = `
store: {url: "redis://%s", redis: {timeout: %s}}
keys: {secret_file: %q}
identity: {trusted_proxies: [127.0.0.1]}
defaults: {upstream: {urls: [%q]}}
services:
  - name: site
    paths:
      - {prefix: /frequency, rules: {text: "do userFrequencyCheck(attribute=\"ip\", timeout=600, count=3, storage=\"store\") mark fast\nif fast stop as BLOCK\nstop as OK"}}
      - {prefix: /bucket, rules: {text: "do bucketCheck(rate=3, per=600, burst=3, attribute=\"ip\", storage=\"store\") mark fast\nif fast stop as BLOCK\nstop as OK"}}
      - prefix: /event
        rules:
          text: "do eventCheck(event=\"failed\", attribute=\"ip\", timeout=600, count=3, storage=\"store\") mark guess\nif guess stop as BLOCK\nstop as OK"
          after: "do eventAdd(event=\"failed\", attribute=\"ip\", timeout=600, storage=\"store\")"
      - {prefix: /memory, rules: {text: "do userFrequencyCheck(attribute=\"ip\", timeout=600, count=3) mark fast\nif fast stop as BLOCK\nstop as OK"}}
      - {prefix: /cookie, rules: {text: "do regexpCheck(regexp=\".*evil\", attribute=\"cookie.role\") mark ok\nif not ok stop as BLOCK\nstop as OK"}}
      - {prefix: /query, rules: {text: "do regexpCheck(regexp=\".*evil\", attribute=\"query\") mark ok\nif not ok stop as BLOCK\nstop as OK"}}
      - {prefix: /header, rules: {text: "do regexpCheck(regexp=\".*evil\", attribute=\"header.x-key\") mark ok\nif not ok stop as BLOCK\nstop as OK"}}
      - {prefix: /agent, rules: {text: "do regexpCheck(regexp=\".*(a+)+(a|aa)+(.*)*(a?){100}a{100}.*evil$\", attribute=\"ua\") mark ok\nif not ok stop as BLOCK\nstop as OK"}}
`
	secret, up := secretFile(t), site(t).URL
	g := start(t, "serve", "--config", configFile(t, countingSite, p.Addr, "300ms", secret, up))
	patient := start(t, "serve", "--config", configFile(t, countingSite, r.Addr, "1m", secret, up)) // to which no store that works is slow
	addr, n := bare(g.url), 0
	newcomer := func() string { n++; return fmt.Sprintf("X-Forwarded-For: 203.%d.%d.1\r\n", 8+n/256, n%256) }
	const person = browserLines
	for name, c := range map[string]struct{ path, fields string }{
		"a cookie behind 2,000":         {"/cookie", "Cookie: " + strings.Repeat("a=bbbbbbbbbbbbbbbbbbbbb; ", 2000) + "role=evil\r\n"},
		"a cookie in a second field":    {"/cookie", "Cookie: " + strings.Repeat("a=b; ", 300) + "\r\nCookie: role=evil\r\n"},
		"a cookie of 9,000 bytes":       {"/cookie", "Cookie: role=" + strings.Repeat("a", 9000) + "evil\r\n"},
		"a cookie as others write it":   {"/cookie", "Cookie: $Version=1;\trole = \"evil\"\r\n"},
		"a cookie after a comma":        {"/cookie", "Cookie: x=1,role=evil\r\n"},
		"parameters of 7,000 bytes":     {"/query?" + strings.Repeat("a=b&", 1800) + "evil", ""},
		"parameters of 9,000 bytes":     {"/query?" + strings.Repeat("a=b&", 2250) + "evil", ""},
		"the last of 190 fields":        {"/header", strings.Repeat("X-H: v\r\n", 185) + "X-Key: evil\r\n"},
		"the last of 150 of one name":   {"/header", strings.Repeat("X-Key: "+strings.Repeat("b", 60)+"\r\n", 150) + "X-Key: evil\r\n"},
		"a pattern with many ways back": {"/agent", "User-Agent: " + strings.Repeat("a", 7900) + "evil\r\n"},
	} {
		if got := rawly(t, addr, "GET "+c.path, newcomer()+person+c.fields); got == 200 {
			t.Errorf("%s: %d", name, got)
		}
	}
	if got := rawly(t, addr, "GET /cookie", newcomer()+person+"Cookie: role=good\r\n"); got != 200 {
		t.Errorf("a cookie that is in order: %d", got)
	}
	counting := []string{"/frequency", "/bucket", "/event", "/memory"}
	first := func(g *gateway, path string) (got [5]int) {
		from := newcomer()
		for i := range got {
			got[i] = rawly(t, bare(g.url), "GET "+path, from+person)
		}
		return got
	}
	for _, path := range counting {
		if got := first(patient, path); got[0] != 200 {
			t.Errorf("%s: %v", path, got)
		}
		eventually(t, path+": the store answers in time", func() bool { return first(g, path)[0] == 200 })
	}
	for name, harm := range map[string]func(){"slow": func() { p.Slow(400 * time.Millisecond) }, "silent": p.Mute, "a hole": p.Hole, "gone": p.Cut} {
		harm()
		for _, path := range counting {
			got := first(g, path)
			if want := map[bool]int{true: 200, false: 302}[path == "/memory"]; got[0] != want || got[4] == 200 {
				t.Errorf("the store is %s: %s: %v", name, path, got)
			}
		}
		p.Heal()
		eventually(t, "the store is back", func() bool { status, _ := g.health(); return status == "ok" })
	}
}
