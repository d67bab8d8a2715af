package foreign

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"antirobot/rules"
	"antirobot/rules/requestrules"
)

// visit is a request as rules see it: attributes of type Text, but for ip and asn.
type visit map[string]string

func (v visit) Attribute(name string) (rules.Value, bool) {
	switch {
	case name == "ip":
		return rules.Value{Kind: rules.IP, IP: netip.MustParseAddr(v["ip"])}, true
	case name == "asn" && v[name] != "":
		return rules.Value{Kind: rules.Int, Int: int64(len(v[name]))}, true // the number of its characters
	}
	s, ok := v[name]
	return rules.Value{Kind: rules.Text, Text: s}, ok
}

func compiled(t *testing.T, src string) *rules.Program {
	t.Helper()
	o := rules.DefaultOptions()
	o.Parts, o.Attributes, o.Places = requestrules.Parts, requestrules.KnownAttribute, true
	p, err := rules.Compile(src, o)
	if err != nil {
		t.Fatalf("%v of\n%s", err, src)
	}
	for _, w := range p.Warnings() {
		t.Errorf("%v of\n%s", &w, src)
	}
	return p
}

// decided runs rules over a visit, given as pairs.
func decided(t *testing.T, p *rules.Program, pairs ...string) string {
	t.Helper()
	v := visit{"ip": "192.0.2.1", "path": "/", "method": "GET"}
	for i := 0; i < len(pairs); i += 2 {
		v[pairs[i]] = pairs[i+1]
	}
	var r rules.Run
	if err := p.Run(context.Background(), &rules.Env{Attributes: v}, &r); err != nil {
		t.Errorf("%v: %v", pairs, err)
	}
	return r.Decision()
}

const aPolicy = `
bots:
  - import: ./more.yaml
  - import: (data)/away.yaml
  - {name: well-known, path_regex: '^/\.well-known/.*$', action: ALLOW}
  - {name: bad "bot", user_agent_regex: 'Evil"?Bot', action: DENY}
  - name: two conditions
    user_agent_regex: Curl|curl
    remote_addresses: [198.51.100.0/24, '2001:db8::/32']
    action: DENY
  - {name: worker, headers_regex: {CF-Worker: .*}, action: DENY}
  - {name: no agent, expression: userAgent == "", action: CHALLENGE}
  - name: git
    action: ALLOW
    expression:
      all:
        - (userAgent.startsWith("git/") || userAgent.contains("libgit"))
        - '"Accept" in headers'
        - headers["Accept"] == "*/*"
        - '!path.endsWith(".php")'
  - name: either
    action: DENY
    expression:
      any: ['remoteAddress == "203.0.113.9"', 'method == "TRACE" && host != "a.example"', 'path.matches("^/x[0-9]+$")']
  - {name: places, geoip: {countries: [BR, cn]}, action: WEIGH, weight: {adjust: 10}}
  - {name: networks, asns: {match: [3, 5]}, action: WEIGH}
  - {name: friend, headers_regex: {X-Friend: '^yes$'}, action: WEIGH, weight: {adjust: -20}}
  - {name: load, expression: load_1m >= 10.0, action: DENY}
  - {name: debug, path_regex: /, action: DEBUG_BENCHMARK}
thresholds:
  - {name: light, expression: weight <= 0, action: ALLOW}
  - {name: middle, expression: {all: [weight > 0, weight < 15]}, action: CHALLENGE, challenge: {algorithm: fast}}
  - {name: heavy, expression: weight >= 15, action: DENY}
dnsbl: true
status_codes: {DENY: 200}
`

// TestAnubis: what a policy says is what its rules decide, and the rest is listed.
func TestAnubis(t *testing.T) {
	res, err := Anubis([]byte(aPolicy), func(name string) ([]byte, error) {
		if name == "./more.yaml" {
			return []byte("- {name: imported, path_regex: ^/imported, action: DENY}\n"), nil
		}
		return nil, errors.New("not here")
	})
	if err != nil {
		t.Fatal(err)
	}
	p := compiled(t, res.Rules)
	f := func(want string, pairs ...string) {
		t.Helper()
		if got := decided(t, p, pairs...); got != want {
			t.Errorf("%q: %s, wanted %s", pairs, got, want)
		}
	}
	f("OK", "ua", "Mozilla/5.0")
	f("CAPTCHA") // no User-Agent at all
	f("CAPTCHA", "ua", "")
	f("BLOCK", "ua", "x", "path", "/imported/1")
	f("OK", "ua", "EvilBot", "path", "/.well-known/x") // the first that matches decides
	f("BLOCK", "ua", `an Evil"Bot/1.0`)
	f("OK", "ua", "curl/8")
	f("BLOCK", "ua", "curl/8", "ip", "198.51.100.7")
	f("BLOCK", "ua", "curl/8", "ip", "2001:db8::7")
	f("OK", "ua", "x", "ip", "198.51.100.7")
	f("BLOCK", "ua", "x", "header.cf-worker", "")
	f("OK", "ua", "git/2", "header.accept", "*/*", "country", "BR", "asn", "ccc")
	f("BLOCK", "ua", "git/2", "country", "BR", "asn", "ccc") // no Accept: 10 + 5 weigh 15
	f("BLOCK", "ua", "git/2", "header.accept", "*/*", "path", "/a.php", "country", "CN", "asn", "fiver")
	f("CAPTCHA", "ua", "x", "country", "CN")
	f("CAPTCHA", "ua", "x", "asn", "ccc")
	f("OK", "ua", "x", "asn", "four")
	f("OK", "ua", "x", "country", "CN", "header.x-friend", "yes")
	f("CAPTCHA", "ua", "x", "country", "CN", "header.x-friend", "yes no")
	f("BLOCK", "ua", "x", "ip", "203.0.113.9")
	f("BLOCK", "ua", "x", "method", "TRACE", "host", "b.example")
	f("OK", "ua", "x", "method", "TRACE", "host", "a.example")
	f("BLOCK", "ua", "x", "path", "/x12")
	f("OK", "ua", "x", "path", "/x12y")
	unsaid := strings.Join(res.Unsaid, "\n")
	for _, want := range []string{"import (data)/away.yaml: not here", "bot load: ", "bot debug: ", "dnsbl", "status_codes", "ALLOW ends these rules alone"} {
		if !strings.Contains(unsaid, want) {
			t.Errorf("nothing is said of %q in\n%s", want, unsaid)
		}
	}
}

// TestAnubisDefaults: without thresholds whoever weighs something is asked; JSON is read too, and nonsense is an error.
func TestAnubisDefaults(t *testing.T) {
	res, err := Anubis([]byte(`{"bots":[{"name":"b","user_agent_regex":"Mozilla","action":"WEIGH"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := compiled(t, res.Rules)
	if heavy, light := decided(t, p, "ua", "Mozilla"), decided(t, p, "ua", "x"); heavy != "CAPTCHA" || light != "OK" {
		t.Errorf("%s and %s", heavy, light)
	}
	for _, src := range []string{"", "a: b", "bots: []", "bots: 1", `{"bots":[{"name":"b","user_agent_regex":"(","action":"DENY"}]}`} {
		if res, err := Anubis([]byte(src), nil); err == nil {
			t.Errorf("%q becomes %q", src, res.Rules)
		}
	}
}

const aRobots = "\ufeffUser-agent: *\r\nDisallow: /admin/ # not you\nDisallow: /*?sort=\nAllow: /admin/public\nDisallow: *.pdf$\n\n" +
	"User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /\n\nuser-agent: Googlebot\nDisallow: /private\n" +
	"User-agent: Googlebot-Image\nAllow: /\nDisallow: nothing\nUser-agent: Free\nDisallow:\nSitemap: https://example.com/s.xml\n"

// TestRobots: robots are held to what is asked of them, and nobody else is.
func TestRobots(t *testing.T) {
	res, err := Robots([]byte(aRobots))
	if err != nil {
		t.Fatal(err)
	}
	p := compiled(t, res.Rules)
	f := func(want, ua, path, query string) {
		t.Helper()
		pairs := []string{"path", path, "query", query}
		if ua != "" {
			pairs = append(pairs, "ua", ua)
		}
		if got := decided(t, p, pairs...); got != want {
			t.Errorf("%s asks for %s?%s: %s, wanted %s", ua, path, query, got, want)
		}
	}
	f("OK", "Mozilla/5.0 Firefox/133.0", "/admin/", "")
	f("OK", "", "/admin/", "")
	f("BLOCK", "Mozilla/5.0 (compatible; bingbot/2.0)", "/admin/x", "")
	f("OK", "Mozilla/5.0 (compatible; bingbot/2.0)", "/admin/public/x", "")
	f("OK", "Mozilla/5.0 (compatible; bingbot/2.0)", "/a", "page=2")
	f("BLOCK", "Mozilla/5.0 (compatible; bingbot/2.0)", "/a", "sort=up")
	f("BLOCK", "somebot", "/x/y.pdf", "")
	f("OK", "somebot", "/x/y.pdfs", "")
	f("BLOCK", "Mozilla/5.0; compatible; GPTBot/1.1", "/", "")
	f("BLOCK", "CCBot/2.0", "/a", "")
	f("OK", "CCBot/2.0", "/robots.txt", "")
	f("BLOCK", "Googlebot/2.1", "/private/a", "")
	f("OK", "Googlebot/2.1", "/admin/", "") // its own group stands in place of that for all
	f("OK", "Googlebot-Image/1.0", "/private/a", "")
	f("OK", "Free crawler", "/admin/", "")
	unsaid := strings.Join(res.Unsaid, "\n")
	for _, want := range []string{`"nothing" is no path`, "sitemap", "call themselves one"} {
		if !strings.Contains(unsaid, want) {
			t.Errorf("nothing is said of %q in\n%s", want, unsaid)
		}
	}
	slow, err := Robots([]byte("User-agent: a\nCrawl-delay: 2.6\n"))
	if err != nil || !strings.Contains(slow.Rules, "bucketCheck(rate=1, per=3, ") {
		t.Errorf("%v of %v", err, slow)
	}
	compiled(t, slow.Rules)
	for _, src := range []string{"", "User-agent: *\nDisallow:\n", "<html>", "\xff", strings.Repeat("#", maxRobots+1)} {
		if res, err := Robots([]byte(src)); err == nil {
			t.Errorf("%.40q becomes %q", src, res.Rules)
		}
	}
}

// compiles reports what became of a file: rules that are too big are refused, any other mistake is ours.
func compiles(t *testing.T, res *Result) {
	o := rules.DefaultOptions()
	o.Parts, o.Attributes = requestrules.Parts, requestrules.KnownAttribute
	_, err := rules.Compile(res.Rules, o)
	if err != nil && !strings.Contains(err.Error(), "too ") && !strings.Contains(err.Error(), "more than") {
		t.Fatalf("%v of\n%s", err, res.Rules)
	}
}

// FuzzAnubis: whatever the policy, its rules are rules.
func FuzzAnubis(f *testing.F) {
	f.Add([]byte(aPolicy))
	f.Add([]byte(`{"bots":[{"name":"a\nb","action":"DENY","headers_regex":{"x\"":"a\\"},"expression":"!(host == 'a\\\\')"}]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		if res, err := Anubis(src, func(string) ([]byte, error) { return []byte("- {import: a}"), nil }); err == nil {
			compiles(t, res)
		}
	})
}

// FuzzRobots: whatever the file, its rules are rules.
func FuzzRobots(f *testing.F) {
	f.Add([]byte(aRobots))
	f.Add([]byte("User-agent: \"\\\nDisallow: /a\"b\\\nAllow: /?\"\nCrawl-delay: 1e3"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if res, err := Robots(src); err == nil {
			compiles(t, res)
		}
	})
}
