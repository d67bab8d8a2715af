package e2e

import (
	"strings"
	"testing"
)

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
