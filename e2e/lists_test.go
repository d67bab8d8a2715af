package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBansAndEntriesEnd makes bans and entries of a second or two: they apply at once, and end by themselves.
func TestBansAndEntriesEnd(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	g.ban("ip:203.0.113.1", "1s")
	g.list("block", "203.0.113.2", "1s")
	g.list("ban", "203.0.113.0/30", "2s")
	g.ban("ip:203.0.113.9", "10m")
	g.list("white", "203.0.113.9", "1s")
	ask := func(addr string) int { return from(t, addr).get(g.url + "/").StatusCode }
	for addr, want := range map[string]int{"203.0.113.1": 302, "203.0.113.2": 403, "203.0.113.3": 302, "203.0.113.9": 200, "203.0.113.4": 200} {
		if got := ask(addr); got != want {
			t.Errorf("%s: %d, wanted %d", addr, got, want)
		}
	}
	eventually(t, "the block ends, and the wider ban around it speaks", func() bool { return ask("203.0.113.2") == 302 })
	eventually(t, "the white entry ends, and the ban speaks", func() bool { return ask("203.0.113.9") == 302 })
	eventually(t, "everything has ended", func() bool { return ask("203.0.113.1") == 200 && ask("203.0.113.2") == 200 })
	if got := string(g.api("GET", "/api/bans", nil)); strings.Contains(got, "203.0.113.1\"") || !strings.Contains(got, "203.0.113.9") {
		t.Errorf("bans that are told: %s", got)
	}
	for _, list := range []string{"block", "ban", "white"} {
		if got := string(g.api("GET", "/api/lists/"+list, nil)); strings.Contains(got, "203.0.113") {
			t.Errorf("%s entries that are told: %s", list, got)
		}
	}
}

// TestBansOfOneService checks that bans, entries and lists only affect the service they name, and lifts them one by one.
func TestBansOfOneService(t *testing.T) {
	t.Parallel()
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
defaults: {upstream: {urls: [%[1]q]}}
lists:
  lists: [{name: two-only, flag: ban, entries: ["203.0.113.7 only there"], service: two}]
services:
  - {name: one, hosts: [one.example]}
  - {name: two, hosts: [two.example]}
`, site(t).URL)
	both := func(what, addr string, one, two int) {
		t.Helper()
		for host, want := range map[string]int{"one.example": one, "two.example": two} {
			r := g.wire("GET / HTTP/1.1\r\nHost: " + host + "\r\nX-Forwarded-For: " + addr + "\r\nConnection: close\r\n\r\n")
			if r.StatusCode != want {
				t.Errorf("%s, %s: %d, wanted %d", what, host, r.StatusCode, want)
			}
		}
	}
	post := func(path string, body map[string]string) {
		t.Helper()
		body["ttl"], body["reason"] = "10m", "test"
		g.api("POST", path, body)
	}
	both("nothing", "203.0.113.1", 200, 200)
	post("/api/bans", map[string]string{"subject": "ip:203.0.113.1", "service": "one"})
	both("ban on one", "203.0.113.1", 302, 200)
	post("/api/bans", map[string]string{"subject": "ip:203.0.113.1", "service": "two"})
	both("ban on each", "203.0.113.1", 302, 302)
	g.api("DELETE", "/api/bans?subject=ip:203.0.113.1&service=one", nil)
	both("one lifted", "203.0.113.1", 200, 302)
	post("/api/bans", map[string]string{"subject": "ip:203.0.113.1"})
	g.api("DELETE", "/api/bans?subject=ip:203.0.113.1&service=*", nil)
	both("all lifted", "203.0.113.1", 200, 200)
	post("/api/lists/block", map[string]string{"entry": "203.0.113.2", "service": "two"})
	both("block on two", "203.0.113.2", 200, 403)
	post("/api/lists/white", map[string]string{"entry": "203.0.113.3", "service": "one"})
	post("/api/lists/ban", map[string]string{"entry": "203.0.113.3-203.0.113.4"})
	both("white on one", "203.0.113.3", 200, 302)
	both("a range", "203.0.113.4", 302, 302)
	both("a list of one service", "203.0.113.7", 200, 302)
	if status, body := g.tryAPI("POST", "/api/lists/ban", map[string]string{"entry": "0.0.0.0/0", "reason": "slip of the hand"}); status != 400 {
		t.Errorf("banning everybody: %d %s", status, body)
	}
}

// TestLastGoodCopyIsUsed fetches a list, then starts without its source: the last copy applies from the first request on.
func TestLastGoodCopyIsUsed(t *testing.T) {
	t.Parallel()
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "# bad people\n203.0.113.0/24 known robots\n198.51.100.7\n")
	}))
	t.Cleanup(source.Close)
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
lists: {lists: [{name: robots, flag: ban, url: %q}]}
services: [{name: site, upstream: {urls: [%q]}}]
`, source.URL+"/list.txt", site(t).URL)
	ask := func(addr string) int { return from(t, addr).get(g.url + "/").StatusCode }
	eventually(t, "the list is fetched", func() bool { return ask("203.0.113.5") == 302 })
	if ask("198.51.100.7") != 302 || ask("198.51.100.8") != 200 {
		t.Error("the list says something else")
	}
	source.Close()
	g.kill(syscall.SIGKILL)
	g.run()
	if got := ask("203.0.113.5"); got != 302 {
		t.Errorf("the first request after a start without the source: %d", got)
	}
	if got := string(g.api("GET", "/api/lists", nil)); !strings.Contains(got, `"from_disk":true`) {
		t.Errorf("the operator is not told that this is a copy: %s", got)
	}
	if status, body := g.tryAPI("GET", "/readyz", nil); status != 200 {
		t.Errorf("not ready with a copy on disk: %d %s", status, body)
	}
}

// TestFileListIsTakenOver changes a list file while the gateway runs.
func TestFileListIsTakenOver(t *testing.T) {
	t.Parallel()
	file := listFile(t, "203.0.113.1\n")
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
lists: {lists: [{name: mine, flag: block, file: %q, own: true}]}
services: [{name: site, upstream: {urls: [%q]}}]
`, file, site(t).URL)
	ask := func(addr string) int { return from(t, addr).get(g.url + "/").StatusCode }
	if a, b := ask("203.0.113.1"), ask("203.0.113.2"); a != 403 || b != 200 {
		t.Fatalf("at the start: %d and %d", a, b)
	}
	write(t, file, "203.0.113.2\n# longer now\n")
	eventually(t, "the file is read again", func() bool { return ask("203.0.113.1") == 200 && ask("203.0.113.2") == 403 })
}

// TestAskedFromLists: who comes from a list is asked, as soon as it is on the list, and no more when the configuration says so.
func TestAskedFromLists(t *testing.T) {
	t.Parallel()
	file := listFile(t, "198.51.100.0/24\n")
	const settings = `
identity: {trusted_proxies: [127.0.0.1]}
lists: {lists: [{name: hosting, flag: rules, file: %q}]}
services:
  - name: site
    upstream: {urls: [%q]}
    verdict: {limits: [{window: 1h, requests: 3, ban: 1h}], when: {networks: [%s]}}
`
	upstream := site(t).URL
	config := configFile(t, settings, file, upstream, "192.0.2.0/24, hosting")
	g := start(t, "serve", "--config", config, "--captcha-test-answer", testAnswer)
	ask := func() *response { return from(t, "203.0.113.9").get(g.url + "/") }
	waived := func() bool {
		s := g.whyIn(t, "a robot from elsewhere", ask())
		return s.Verdict == "human" && s.Cause == "ban"
	}
	eventually(t, "the ban has no consequence", waived)
	write(t, file, "203.0.113.0/28 a longer line now\n")
	eventually(t, "the list is read again", func() bool { return ask().StatusCode == 302 })
	write(t, config, fmt.Sprintf(settings, file, upstream, "192.0.2.0/24"))
	g.api("POST", "/api/reload", nil)
	eventually(t, "the list does not matter any more", waived)
}

// TestPitfall07CrawlersAreVerified admits a crawler from its published ranges, and nobody just because of their User-Agent.
func TestPitfall07CrawlersAreVerified(t *testing.T) {
	t.Parallel()
	ranges := listFile(t, `{"creationTime":"2026-01-02T03:04:05","prefixes":[{"ipv4Prefix":"203.0.113.0/28"},{"ipv6Prefix":"2001:db8:77::/48"}]}`)
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
lists:
  ban: ["203.0.113.0/24 the whole data centre", "2001:db8::/32 all of it"]
  crawlers: {own: [{name: findbot, user_agent: [findbot/], range_files: [%q]}]}
services: [{name: site, upstream: {urls: [%q]}}]
`, ranges, site(t).URL)
	const bot = "Mozilla/5.0 (compatible; FindBot/2.1; +https://findbot.example/bot)"
	ask := func(addr, agent string) *response { return from(t, addr).get(g.url+"/", "User-Agent", agent) }
	for _, c := range []struct {
		what, addr, agent string
		want              int
	}{
		{"the crawler, first request", "203.0.113.3", bot, 200},
		{"the crawler over IPv6", "2001:db8:77::5", bot, 200},
		{"its name from elsewhere", "203.0.113.200", bot, 403},
		{"its name from elsewhere, not banned", "198.51.100.1", bot, 200},
		{"its network without its name", "203.0.113.3", "curl/8", 403},
	} {
		if r := ask(c.addr, c.agent); r.StatusCode != c.want {
			t.Errorf("%s: %d, wanted %d", c.what, r.StatusCode, c.want)
		}
	}
	if s := g.whyIn(t, "the crawler", ask("203.0.113.3", bot)); s.Cause != "white" {
		t.Errorf("the crawler: %+v", s)
	}
	if s := g.whyIn(t, "an impostor", ask("198.51.100.1", bot)); s.Cause != "none" {
		t.Errorf("an impostor is %+v", s)
	}
	// a name that nobody could prove is no definition at all
	file := configFile(t, "lists: {crawlers: {own: [{name: nobot, user_agent: [nobot/]}]}}\nservices: [{name: a, upstream: {urls: [\"http://127.0.0.1:1\"]}}]\n")
	if code, out := command(t, "check-config", file); code == 0 || !strings.Contains(out, "a user agent alone proves nothing") {
		t.Errorf("check-config: %d %s", code, out)
	}
}

// TestPatternsMatchRequests: patterns match method, path, header and user agent, and white ones take precedence over a ban.
func TestPatternsMatchRequests(t *testing.T) {
	t.Parallel()
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
lists:
  patterns:
    - {name: scanners, flag: block, path_glob: "/**.php", reason: "there is no PHP here"}
    - {name: tool, flag: ban, user_agent: EvilTool/}
    - {name: hook, flag: white, methods: [POST], path: /hook, headers: [{name: X-Hook-Key, value: sesame}]}
    - {name: no-language, flag: ban, path_prefix: /shop, headers: [{name: Accept-Language, absent: true}]}
services: [{name: site, upstream: {urls: [%q]}}]
`, site(t).URL)
	g.ban("ip:203.0.113.1", "10m")
	for _, c := range []struct {
		addr, method, path string
		header             []string
		want               int
	}{
		{"198.51.100.1", "GET", "/wp/login.php", nil, 403},
		{"198.51.100.1", "GET", "/wp/login.%70hp", nil, 403},
		{"198.51.100.1", "GET", "/login.php5", nil, 200},
		{"198.51.100.1", "GET", "/", []string{"User-Agent", "x eviltool/1"}, 403},
		{"198.51.100.1", "GET", "/shop/a", []string{"Accept-Language", ""}, 403},
		{"198.51.100.1", "GET", "/shop/a", []string{"Accept-Language", "en"}, 200},
		{"203.0.113.1", "POST", "/hook", []string{"X-Hook-Key", "sesame"}, 200},
		{"203.0.113.1", "POST", "/hook", []string{"X-Hook-Key", "sesame2"}, 403},
		{"203.0.113.1", "GET", "/hook", []string{"X-Hook-Key", "sesame"}, 302},
	} {
		if r := from(t, c.addr).do(c.method, g.url+c.path, "", c.header...); r.StatusCode != c.want {
			t.Errorf("%s %s %q: %d, wanted %d", c.method, c.path, c.header, r.StatusCode, c.want)
		}
	}
}

// TestLoadOfTheLists: the operator can see which lists are in force.
func TestLoadOfTheLists(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "198.18.%d.%d\n", i/250, i%250)
	}
	lines.WriteString("not an address\n")
	g := configured(t, `
lists: {lists: [{name: many, flag: ban, file: %q}]}
services: [{name: site, upstream: {urls: [%q]}}]
`, listFile(t, lines.String()), site(t).URL)
	var l struct {
		Sources []struct {
			Name     string
			Entries  int
			BadLines int `json:"bad_lines"`
		}
	}
	if err := json.Unmarshal(g.api("GET", "/api/lists", nil), &l); err != nil {
		t.Fatal(err)
	}
	if len(l.Sources) != 1 || l.Sources[0].Name != "many" || l.Sources[0].Entries != 5000 || l.Sources[0].BadLines != 1 {
		t.Errorf("sources: %+v", l.Sources)
	}
	if n := g.metric("antirobot_cbb_list_entries", `many`); n != 5000 {
		t.Errorf("the metric counts %v entries", n)
	}
}

// TestTextsByTheHundredThousand: lists of a hundred thousand keys, words and domains, from files and by URL, decide over requests
// and messages.
func TestTextsByTheHundredThousand(t *testing.T) {
	t.Parallel()
	const entries = 100_000
	all := func(format string) string {
		var lines strings.Builder
		for i := range entries {
			fmt.Fprintf(&lines, format+"\n", i)
		}
		return lines.String()
	}
	domains := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, all("throwaway%d.example"))
	}))
	t.Cleanup(domains.Close)
	up := mirror(t)
	before := configured(t, `services: [{name: site, upstream: {urls: [%q]}}]`, up).metric("process_resident_memory_bytes")
	began := time.Now()
	g := configured(t, `
lists:
  lists:
    - {name: keys, of: keys, file: %q}
    - {name: words, of: words, file: %q}
    - {name: domains, of: domains, url: %q, refresh: 15m}
services:
  - name: site
    upstream: {urls: [%q]}
    rules:
      text: |
        do listCheck(list="keys", attribute="header.x-key") mark key
        do listCheck(list="words", attribute="header.x-text") mark word
        do listCheck(list="domains", attribute="header.x-text") mark domain
        if key stop as BLOCK
        if word stop as BLOCK
        if domain stop as BLOCK
        stop as OK
`, listFile(t, all("KEY-%06d")), listFile(t, all("badword%d")), domains.URL, up)
	v := visitor(t)
	ask := func(key, text string) int { return v.get(g.url+"/", "X-Key", key, "X-Text", text).StatusCode }
	eventually(t, "the list behind the URL is in force", func() bool { return ask("-", "at throwaway0.example") == 403 })
	took, memory := time.Since(began), g.metric("process_resident_memory_bytes")-before
	var l struct{ Sources []struct{ Entries int } }
	if err := json.Unmarshal(g.api("GET", "/api/lists", nil), &l); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.Sources {
		if s.Entries != entries {
			t.Errorf("lists: %+v", l)
		}
	}
	for _, c := range []struct {
		key, text string
		want      int
	}{
		{"KEY-000000", "-", 403},
		{"KEY-099999", "-", 403},
		{"KEY-100000", "-", 200},
		{"-", "so badword77777 it is", 403},
		{"-", "so badword it is", 200},
		{"-", "see https://www.throwaway99999.example/page", 403},
		{"-", "see https://throwaway100000.example/page", 200},
	} {
		if got := ask(c.key, c.text); got != c.want {
			t.Errorf("key %q, text %q: %d, wanted %d", c.key, c.text, got, c.want)
		}
	}
	t.Logf("%d entries after %v, %.0f MB more than without", 3*entries, took, memory/1e6)
}
