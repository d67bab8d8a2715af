package e2e

import (
	"strings"
	"testing"
)

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
