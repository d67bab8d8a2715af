package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

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
