package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestCommands does with commands what an operator does in a day: who was stopped and why, from the log and from the journal, set it
// right, block, let through, and be told that nobody is stopped yet.
func TestCommands(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - {name: shop, hosts: [127.0.0.1], upstream: {urls: [%q]}}
  - {name: blog, hosts: [blog.example], upstream: {urls: [%q]}, verdict: {mode: observe}}
`, site(t).URL, site(t).URL))
	f := func(code int, args []string, want ...string) string {
		t.Helper()
		got, out := command(t, append(args, "--admin", g.admin, "--data-dir", g.dir)...)
		if got != code {
			t.Errorf("%s: status %d\n%s", strings.Join(args, " "), got, out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s does not say %q:\n%s", strings.Join(args, " "), w, out)
			}
		}
		if strings.Contains(out, "\x1b[") {
			t.Errorf("%s has colours where there is no terminal", args[0])
		}
		return out
	}
	f(0, []string{"ban", "203.0.113.7", "--for", "1h", "--reason", "copies prices"}, "ip:203.0.113.7 is banned until", "service blog is in mode observe: it stops nobody yet")
	person := from(t, "203.0.113.7")
	stopped := person.get(g.url+"/goods?secret=1", "Accept", "text/html", "User-Agent", "Mozilla/5.0 (test) Firefox/140.0", "Referer", "https://search.example/?q=x").must(t, 302, "")
	number := stopped.Header.Get("X-Request-Id")
	line := g.logs.find(func(s string) bool { return strings.Contains(s, `"message":"decision"`) && strings.Contains(s, number) })
	for _, want := range []string{`"client":"203.0.113.7"`, `"path":"/goods"`, `"user_agent":"Mozilla/5.0 (test) Firefox/140.0"`, `"referer":"https://search.example/"`, `"reason":"copies prices"`} {
		if !strings.Contains(line, want) {
			t.Errorf("the decision's line has no %s: %s", want, line)
		}
	}
	f(0, []string{"why", number}, "copies prices", "set right", "antirobot unban "+number)
	f(0, []string{"subject", "203.0.113.7"}, "ip:203.0.113.7", "copies prices", "antirobot unban ip:203.0.113.7")
	var known struct{ Subject string }
	if err := json.Unmarshal([]byte(f(0, []string{"subject", number, "--json"})), &known); err != nil || known.Subject != "ip:203.0.113.7" {
		t.Errorf("subject --json: %v %+v", err, known)
	}
	eventually(t, "the journal has the request", func() bool {
		_, out := command(t, "top", "--by", "path", "--admin", g.admin, "--data-dir", g.dir)
		return strings.Contains(out, "/goods")
	})
	f(0, []string{"top", "--by", "ip"}, "203.0.113.7")
	f(0, []string{"unban", number}, "ip:203.0.113.7 is not banned any more")
	person.get(g.url+"/goods").must(t, 200, "site got")
	g.ban("ip:203.0.113.7", "1h")
	f(0, []string{"allow", "203.0.113.7", "--for", "1d"}, "203.0.113.7 passes until")
	person.get(g.url+"/goods").must(t, 200, "site got")
	f(0, []string{"block", "203.0.113.0/24", "--for", "1h"}, "203.0.113.0/24 is blocked until", "it stops nobody yet")
	person.get(g.url+"/goods").must(t, 403, "")
	f(0, []string{"allow", "203.0.113.7", "--for", "1d"}, "your own block of 203.0.113.0/24 stands above it; antirobot unblock 203.0.113.0/24 removes that")
	f(1, []string{"unblock", "203.0.113.7"}, "the list has 203.0.113.0/24")
	f(0, []string{"unblock", "203.0.113.0/24"}, "is not blocked any more")
	person.get(g.url+"/goods").must(t, 200, "site got")
	f(0, []string{"unallow", "203.0.113.7"}, "203.0.113.7 is judged again")
	f(0, []string{"unban", "203.0.113.7"})
	f(0, []string{"ban", "203.0.113.0/24", "--for", "1h", "--reason", "a farm"}, "203.0.113.0/24 is challenged until", "it stops nobody yet")
	person.get(g.url+"/goods", "Accept", "text/html").must(t, 302, "")
	f(1, []string{"unban", "203.0.113.0/25"}, "the list has 203.0.113.0/24")
	f(0, []string{"unban", "203.0.113.0/24"}, "203.0.113.0/24 is not challenged any more")
	person.get(g.url+"/goods").must(t, 200, "site got")
	f(0, []string{"allow", "203.0.113.7", "--for", "1d"}, "203.0.113.7 passes until")
	f(0, []string{"unallow", "203.0.113.7", "--json"}, `"removed":"203.0.113.7"`)
	f(0, []string{"label", "203.0.113.7", "human"}, "is labelled human")
	f(0, []string{"label", "list", "--json"}, `{"items":[{"subject":"ip:203.0.113.7"`)
	f(0, []string{"label", "remove", "203.0.113.7", "--json"}, `{"removed":"ip:203.0.113.7"}`)
	f(0, []string{"label", "203.0.113.99", "human"}, "is labelled human", "ip:203.0.113.99 was not seen of late")
	f(0, []string{"status"}, "gateway  ready", "service  shop, mode enforce", "service  blog, mode observe: it stops nobody yet", "hour     human")
	f(0, []string{"status", "--json"}, `"ready"`)
	f(2, []string{"ban", "nobody"}, "kind")
	for _, wrong := range [][]string{{"ban"}, {"top", "--bye", "ip"}, {"block", "a", "b"}, {"frobnicate"}, {"why", "x"}, {"allow", "1.2.3.4", "--for"}} {
		if code, out := command(t, wrong...); code != 2 {
			t.Errorf("%v: status %d\n%s", wrong, code, out)
		}
	}
}
