package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// balancers are real balancers with the files of deploy/, by which a gateway is asked about each request.
var balancers = map[string]struct {
	settings string
	run      func(t *testing.T, g *checker, service string) string
}{
	"nginx": {"", func(t *testing.T, g *checker, service string) string {
		return runNginx(t, "auth_request.conf", strings.TrimPrefix(g.check, "http://"), service)
	}},
	"HAProxy SPOE": {"spoe: [\"127.0.0.1:0\"]", func(t *testing.T, g *checker, service string) string {
		return runHAProxySPOE(t, strings.TrimPrefix(g.check, "http://"), g.listening("SPOE"), service)
	}},
	"Envoy": {"grpc: [\"127.0.0.1:0\"]", func(t *testing.T, g *checker, service string) string {
		return runEnvoy(t, strings.TrimPrefix(g.check, "http://"), g.listening("ext_authz"), service)
	}},
}

// rawly asks with a request line and fields as they stand, and returns the status of the answer; 0: the connection ended without one.
func rawly(t *testing.T, addr, line, fields string) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if !strings.Contains(fields, "User-Agent:") {
		fields += "User-Agent: t\r\n"
	}
	fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n%s\r\n", line, fields)
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: strings.Fields(line)[0]})
	if err != nil {
		return 0
	}
	_ = r.Body.Close()
	return r.StatusCode
}

// TestPitfall08BesideBalancers: what is set for a path holds for every spelling of it beside real balancers, too: the service gets none of them.
func TestPitfall08BesideBalancers(t *testing.T) {
	t.Parallel()
	for name, b := range balancers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := newGuestbook(t)
			g := serveCheck(t, book.URL, "style: verdict\n"+b.settings, "services: [{name: site, paths: [{prefix: /login, rules: {text: \"stop as BLOCK\"}}]}]")
			addr := strings.TrimPrefix(b.run(t, g, strings.TrimPrefix(book.URL, "http://")), "http://")
			for _, path := range []string{"/", "/logins", "/caf%c3%a9"} {
				if got := rawly(t, addr, "POST "+path, "Content-Length: 0\r\n"); got != 200 {
					t.Errorf("%s: %d", path, got)
				}
			}
			book.take()
			for _, way := range append(spellings("login"), "/login", "/login/x", "http://site.example/login", "http://SITE.example:80/%6cogin", "http://site.example/x/../login") {
				if name == "Envoy" && way == `/\\/h\login` {
					continue // Envoy escapes the backslashes: the service gets /%5C%5C/h%5Clogin
				}
				if got := rawly(t, addr, "POST "+way, "Content-Length: 0\r\n"); got == 200 {
					t.Errorf("%s: %d", way, got)
				}
			}
			for _, field := range []string{"X-Original-URL: /login", "X-Rewrite-URL: /x/../%6cogin?a", "X-Rewrite-URL: http://site.example/login"} { // the service may believe it
				if got := rawly(t, addr, "POST /", field+"\r\nContent-Length: 0\r\n"); got == 200 {
					t.Errorf("%s: %d", field, got)
				}
			}
			if bodies, _ := book.take(); len(bodies) > 0 {
				t.Errorf("the service got %d requests", len(bodies))
			}
		})
	}
}

// TestTargetsOfOddForms: a target that is no plain path of this host is refused or judged as what the service gets.
func TestTargetsOfOddForms(t *testing.T) {
	t.Parallel()
	g, _ := askers(t, "defaults: {upstream: {urls: [%q]}}\nservices: [{name: site, hosts: [site.example], paths: [{prefix: /login, rules: {text: \"stop as BLOCK\"}}]}]\n", site(t).URL)
	addr := strings.TrimPrefix(g.url, "http://")
	n := 0
	from := func() string { // nobody whom the judge knows from the requests before
		n++
		return fmt.Sprintf("203.7.%d.1", n)
	}
	for line, want := range map[string]int{"GET /": 200, "GET http://site.example/": 200, "GET http://site.example?/login": 200, "GET /login": 403} {
		if got := rawly(t, addr, line, "X-Forwarded-For: "+from()+"\r\n"); got != want {
			t.Errorf("%s: %d, wanted %d", line, got, want)
		}
	}
	for _, line := range []string{
		"GET http://site.example/login", "GET http://site.example:80/%6cogin?x", "GET http://site.example:/login", "GET HTTP://SITE.EXAMPLE.:80/login", "GET //site.example/login",
		"GET http:/login", "GET http:///login", `GET http:\\site.example\login`, `GET http://site.example\@x/login`, "GET http://u@site.example/login", "GET wss://site.example/login",
		"GET /login#", "GET /x#/../login", "GET /login?#/../x", "GET /login??", "GET *", "GET ?/login", "GET login", "GET /lo\tgin", "GET /login ", "GET  /login", "get /login", "TRACE /login",
		"PROPFIND /login", "HEAD /login", "OPTIONS /login", "GET /login%0d%0a",
	} {
		if got := rawly(t, addr, line, "X-Forwarded-For: "+from()+"\r\n"); got/100 == 2 {
			t.Errorf("%q: %d", line, got)
		}
	}
	over := func(fields ...string) int { return headHTTP2(t, addr, append(fields, "x-forwarded-for", from())...) }
	for _, authority := range []string{"site.example", "SITE.example.:80", "u@site.example", "other.example"} {
		for _, path := range []string{"/login", "login", "", "http://site.example/login", "/login#x", "/lo\tgin", "/x y/../login", "*", "/login?", "//site.example/login", `\login`, " /login", "/login "} {
			if got := over(":method", "GET", ":scheme", "http", ":authority", authority, ":path", path); got/100 == 2 {
				t.Errorf("HTTP/2: %q at %q: %d", path, authority, got)
			}
		}
	}
	for _, fields := range [][]string{
		{":method", "GET", ":scheme", "http", ":path", "/login", "host", "site.example"},
		{":method", "GET", ":scheme", "http", ":authority", "site.example", ":path", "/", "host", "other.example"},
		{":method", "GET", ":scheme", "http", ":authority", "site.example", ":path", "/", ":path", "/login"},
		{":method", "GET", ":scheme", "ftp", ":authority", "site.example", ":path", "/"},
		{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "site.example", ":path", "/login"},
	} {
		if got := over(fields...); got/100 == 2 {
			t.Errorf("HTTP/2: %q: %d", fields, got)
		}
	}
	if got := over(":method", "GET", ":scheme", "http", ":authority", "site.example", ":path", "/"); got != 200 {
		t.Errorf("HTTP/2: /: %d", got)
	}
}
