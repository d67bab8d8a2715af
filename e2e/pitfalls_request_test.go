package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

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
