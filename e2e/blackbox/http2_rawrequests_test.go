package blackbox

import (
	"fmt"
	"slices"
	"strings"
)

// rawRequestCases are requests as the service reads them.
func rawRequestCases() []Case {
	var l rawList
	arrives := func(name string, send func(c *streams) uint32, check func(x *X, q Req)) {
		l.add(name, func(x *X, c *streams) {
			if a := c.await(send(c)); a.Status != 200 {
				x.Errorf("status %d %q, reset %v", a.Status, clip(a.Body.String()), a.Reset)
			}
			seen := x.Seen()
			if len(seen) != 1 || !seen[0].Complete {
				x.Fatalf("the service saw %s", describe(seen))
			}
			check(x, seen[0])
			c.lives()
		})
	}
	open := func(method string, more ...string) func(c *streams) uint32 {
		return func(c *streams) uint32 { return c.open(true, c.fields(method, "/a", more...)...) }
	}
	lengths := func(length, coding string) func(x *X, q Req) {
		return func(x *X, q Req) {
			if q.Fields.Get("Content-Length") != length || q.Fields.Get("Transfer-Encoding") != coding {
				x.Errorf("framing: %q", q.Head)
			}
		}
	}
	arrives("a GET has no framing", open("GET"), lengths("", ""))
	arrives("a HEAD has none", open("HEAD"), lengths("", ""))
	arrives("a GET with a length of nothing", open("GET", "content-length", "0"), func(x *X, q Req) {
		if v := q.Fields.Get("Content-Length"); v != "" && v != "0" || q.Fields.Has("Transfer-Encoding") {
			x.Errorf("framing: %q", q.Head)
		}
	})
	arrives("a POST without a body says so", open("POST"), lengths("0", ""))
	with := func(method, body string, more ...string) func(c *streams) uint32 {
		return func(c *streams) uint32 {
			id := c.open(false, c.fields(method, "/a", more...)...)
			c.send(id, body, true)
			return id
		}
	}
	whole := func(length, coding, body string) func(x *X, q Req) {
		return func(x *X, q Req) {
			if lengths(length, coding)(x, q); q.Body != body {
				x.Errorf("body %q", q.Body)
			}
		}
	}
	arrives("a body with a length", with("POST", "hello", "content-length", "5"), whole("5", "", "hello"))
	arrives("a body without one", with("POST", "hello"), whole("", "chunked", "hello"))
	arrives("a body of GET", with("GET", "hello", "content-length", "5"), whole("5", "", "hello"))
	arrives("a body of DELETE without a length", with("DELETE", "hello"), whole("", "chunked", "hello"))
	arrives("a body that looks like a request", with("POST", "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h1.test\r\n\r\n"), whole("", "chunked", "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h1.test\r\n\r\n"))
	arrives("one Host, nothing of HTTP/2, nothing of a connection", open("GET", "te", "trailers", "host", hostHTTP1, "http2-settings", "AAMAAABk", "priority", "u=1"), func(x *X, q Req) {
		if h := q.Fields.All("Host"); !slices.Equal(h, []string{hostHTTP1}) || !strings.HasPrefix(q.Head, "GET /a HTTP/1.1\r\n") {
			x.Errorf("%q", q.Head)
		}
		for _, f := range q.Fields {
			if strings.HasPrefix(f.Name, ":") || strings.EqualFold(f.Name, "upgrade") || strings.EqualFold(f.Name, "http2-settings") || strings.EqualFold(f.Name, "connection") && strings.Contains(strings.ToLower(f.Value), "http2") {
				x.Errorf("the service saw %s: %s", f.Name, f.Value)
			}
		}
	})
	arrives("a host in another case", func(c *streams) uint32 {
		return c.open(true, ":method", "GET", ":scheme", "http", ":authority", "H1.Test", ":path", "/a")
	}, func(x *X, q Req) {
		if h := q.Fields.All("Host"); len(h) != 1 || !strings.EqualFold(h[0], hostHTTP1) {
			x.Errorf("%q", q.Head)
		}
	})
	arrives("what a browser sends", open("GET", "range", "bytes=1-3", "if-range", `"a"`, "if-none-match", `W/"a", "b"`, "accept-encoding", "gzip, br", "authorization", "Basic YTpi",
		"cookie", "a=1", "cookie", `b="2; x"`, "origin", "https://a.test", "x-quoted", `"a, \"b"`, "dnt", "1"), func(x *X, q Req) {
		for name, want := range map[string]string{
			"Range": "bytes=1-3", "If-Range": `"a"`, "If-None-Match": `W/"a", "b"`, "Accept-Encoding": "gzip, br", "Authorization": "Basic YTpi",
			"Cookie": `a=1; b="2; x"`, "Origin": "https://a.test", "X-Quoted": `"a, \"b"`, "Dnt": "1",
		} {
			if got := q.Fields.Get(name); got != want {
				x.Errorf("%s: %q", name, got)
			}
		}
	})
	arrives("who is who", open("GET", "x-forwarded-for", "203.0.113.9", "x-forwarded-host", "evil.test", "x-forwarded-proto", "https", "forwarded", "for=203.0.113.9", "via", "1.1 mine",
		"x-antirobot-verdict", "human", "proxy", "http://evil.test", "x-forwarded-ja4", "t13d1516h2_8daaf6152771_02713d6af862"), func(x *X, q Req) {
		if strings.Contains(q.Fields.Get("X-Forwarded-For"), "203.0.113.9") || q.Fields.Get("X-Forwarded-Host") == "evil.test" || q.Fields.Get("X-Forwarded-Proto") == "https" ||
			q.Fields.Has("Forwarded") || q.Fields.Has("Proxy") || q.Fields.Get("X-Forwarded-JA4") != "" {
			x.Errorf("%q", q.Head)
		}
	})
	arrives("five hundred crumbs", func(c *streams) uint32 {
		var crumbs []string
		for i := range 200 {
			crumbs = append(crumbs, "cookie", fmt.Sprintf("c%d=%d", i, i))
		}
		return c.open(true, c.fields("GET", "/a", crumbs...)...)
	}, func(x *X, q Req) {
		if got := q.Fields.All("Cookie"); len(got) != 1 || strings.Count(got[0], "; ") != 199 {
			x.Errorf("%d fields: %q", len(got), clip(q.Fields.Get("Cookie")))
		}
	})
	return l
}

// rawTargetCases are targets and hosts: what the service reads is what was meant, or nothing.
func rawTargetCases() []Case {
	var l rawList
	refuse := func(name string, fields ...string) {
		l.add("refused: "+name, func(x *X, c *streams) {
			a := c.await(c.open(true, fields...))
			if !a.Reset && !c.gone && !c.away && (a.Status < 400 || a.Status >= 500) {
				x.Errorf("status %d %q", a.Status, clip(a.Body.String()))
			}
			if seen := x.Seen(); len(seen) != 0 {
				x.Errorf("it reached the service: %s", describe(seen))
			}
		})
	}
	path := func(name, path string) {
		refuse("a path with "+name, ":method", "GET", ":scheme", "http", ":authority", hostHTTP1, ":path", path)
	}
	path("a fragment", "/a#b")
	path("a tab", "/a\tb")
	path("DEL", "/a\x7fb")
	path("a control", "/a\x01b")
	path("two spaces", "/a  HTTP/1.1")
	path("a query alone", "?a=b")
	path("a scheme and an authority of its own", "//h2.test:80@/a HTTP/1.0\r\nHost: h2.test\r\n\r\n")
	for name, authority := range map[string]string{
		"a path": "h1.test/a", "a query": "h1.test?a", "a fragment": "h1.test#a", "a backslash": `h1.test\a`, "a list": "h1.test, h2.test", "a space": "h1.test ",
		"half of IPv6": "[::1", "a port of letters": "h1.test:http", "two ports": "h1.test:80:81", "a scheme": "http://h1.test", "a password": "a:b@h1.test",
		"an escape": "h1%2etest:%38", "a bracket": "h1.test]",
	} {
		refuse("an authority with "+name, ":method", "GET", ":scheme", "http", ":authority", authority, ":path", "/a")
	}
	refuse("an empty authority", ":method", "GET", ":scheme", "http", ":authority", "", ":path", "/a")
	refuse("an empty host", ":method", "GET", ":scheme", "http", ":path", "/a", "host", "")
	refuse("a list of hosts", ":method", "GET", ":scheme", "http", ":path", "/a", "host", "h1.test, h2.test")
	refuse("an empty method", ":method", "", ":scheme", "http", ":authority", hostHTTP1, ":path", "/a")
	refuse("* with a query", ":method", "OPTIONS", ":scheme", "http", ":authority", hostHTTP1, ":path", "*?a")
	for _, p := range []string{"/a?b#", `/a\b`, "/%", "/%zz", "/a%00b", "/\xc3\xa9", `/a"b<c>`, "/a{b}|c^`"} {
		l.add("a path is read by all alike: "+fmt.Sprintf("%q", p), func(x *X, c *streams) {
			a := c.get(p)
			for _, q := range x.Seen() {
				if q.Target != p || a.Status != 200 {
					x.Errorf("status %d, the service saw %q", a.Status, q.Target)
				}
			}
			if len(x.Seen()) == 0 && !a.Reset && (a.Status < 400 || a.Status >= 500) {
				x.Errorf("status %d", a.Status)
			}
			c.lives()
		})
	}
	return l
}
