package blackbox

import (
	"strings"
	"time"
)

func lineCases() []Case {
	var out []Case
	add := func(cat, name, send string, check Check) {
		out = append(out, Case{Cat: cat, Name: name, Send: send, Check: check})
	}
	const h = "Host: example.test\r\n"

	// Request line.
	for _, v := range []struct {
		name, line string
		codes      []int
	}{
		{"two spaces before target", "GET  /a HTTP/1.1", nil},
		{"two spaces before version", "GET /a  HTTP/1.1", nil},
		{"tab before target", "GET\t/a HTTP/1.1", nil},
		{"tab before version", "GET /a\tHTTP/1.1", nil},
		{"leading space", " GET /a HTTP/1.1", nil},
		{"trailing space", "GET /a HTTP/1.1 ", nil},
		{"space in target", "GET /a b HTTP/1.1", nil},
		{"NUL in target", "GET /a\x00b HTTP/1.1", nil},
		{"control in target", "GET /a\x01b HTTP/1.1", nil},
		{"DEL in target", "GET /a\x7fb HTTP/1.1", nil},
		{"CR in target", "GET /a\rb HTTP/1.1", nil},
		{"CR before version", "GET /a\rHTTP/1.1", nil},
		{"vertical tab in target", "GET /a\vb HTTP/1.1", nil},
		{"no version", "GET /a", nil},
		{"no target", "GET HTTP/1.1", nil},
		{"only method", "GET", nil},
		{"words", "hello proxy how are you", nil},
		{"version 0.9", "GET /a HTTP/0.9", []int{400, 505}},
		{"version 1.2", "GET /a HTTP/1.2", []int{400, 505}},
		{"version 1.10", "GET /a HTTP/1.10", []int{400, 505}},
		{"version 1.9", "GET /a HTTP/1.9", []int{400, 505}},
		{"version 2.0", "GET /a HTTP/2.0", []int{400, 505}},
		{"version 3", "GET /a HTTP/3", []int{400, 505}},
		{"version 01.1", "GET /a HTTP/01.1", []int{400, 505}},
		{"version 1.01", "GET /a HTTP/1.01", []int{400, 505}},
		{"version 1", "GET /a HTTP/1", []int{400, 505}},
		{"version 1.1x", "GET /a HTTP/1.1x", []int{400, 505}},
		{"version lower case", "GET /a http/1.1", []int{400, 505}},
		{"version comma", "GET /a HTTP/1,1", []int{400, 505}},
		{"version other protocol", "GET /a FTP/1.1", []int{400, 505}},
		{"version minus", "GET /a HTTP/-1.1", []int{400, 505}},
		{"method with parenthesis", "GE(T /a HTTP/1.1", []int{400, 405, 501}},
		{"method with colon", "GET: /a HTTP/1.1", []int{400, 405, 501}},
		{"method with NUL", "G\x00ET /a HTTP/1.1", []int{400, 405, 501}},
		{"method quoted", `"GET" /a HTTP/1.1`, []int{400, 405, 501}},
		{"method with high byte", "G\xc9T /a HTTP/1.1", []int{400, 405, 501}},
		{"target without slash", "GET a HTTP/1.1", nil},
		{"target only query", "GET ?a=b HTTP/1.1", nil},
		{"target asterisk with GET", "GET * HTTP/1.1", nil},
		{"target authority with GET", "GET example.test:80 HTTP/1.1", nil},
		{"target backslash", "GET \\a HTTP/1.1", nil},
		{"CONNECT", "CONNECT example.test:443 HTTP/1.1", []int{400, 403, 405, 501}},
		{"CONNECT with path", "CONNECT /a HTTP/1.1", []int{400, 403, 405, 501}},
		{"absolute ftp", "GET ftp://example.test/a HTTP/1.1", nil},
		{"absolute without host", "GET http:///a HTTP/1.1", nil},
		{"absolute with user", "GET http://me@example.test/a HTTP/1.1", nil},
		{"absolute with bad port", "GET http://example.test:x/a HTTP/1.1", nil},
		{"absolute other host", "GET http://evil.test/a HTTP/1.1", nil},
		{"absolute javascript", "GET javascript:alert(1) HTTP/1.1", nil},
	} {
		check := refused(append(v.codes, 400, 421)...)
		if v.name == "absolute other host" {
			// RFC 9112 section 3.2.2 lets a proxy go by the target and replace Host; both are safe, mixing them is not.
			check = refusedOr(forwarded(target("/a"), field("Host", "evil.test")))
		}
		if v.name == "absolute with user" {
			check = refusedOr(forwarded(target("/a"), field("Host", "example.test")))
		}
		add("request line", v.name, v.line+"\r\n"+h+"\r\n", check)
	}
	add("request line", "HTTP/0.9", "GET /a\r\n", func(x *X, c *Client) {
		c.CloseWrite()
		c.SetReadDeadline(time.Now().Add(x.within()))
		_, _ = c.R.Peek(1)
		time.Sleep(settle)
		if s := x.Seen(); len(s) > 0 {
			x.Errorf("the service saw %s", describe(s))
		}
	})
	add("request line", "HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", func(x *X, c *Client) {
		c.SetReadDeadline(time.Now().Add(x.within()))
		_, _ = c.R.Peek(1)
		time.Sleep(settle)
		if s := x.Seen(); len(s) > 0 {
			x.Errorf("the service saw %s", describe(s))
		}
	})
	add("request line", "TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", func(x *X, c *Client) {
		c.CloseWrite()
		c.SetReadDeadline(time.Now().Add(x.within()))
		_, _ = c.R.Peek(1)
		time.Sleep(settle)
		if s := x.Seen(); len(s) > 0 {
			x.Errorf("the service saw %s", describe(s))
		}
	})
	add("request line", "empty line before", "\r\n"+get("/a"), refusedOr(forwarded(target("/a"))))
	for _, m := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "MKCOL", "REPORT", "FOO", "M-SEARCH"} {
		add("request line", "method "+m, m+" /a HTTP/1.1\r\n"+h+"Content-Length: 5\r\n\r\nhello", forwarded(func(x *X, q *Req) {
			if q.Method != m || q.Body != "hello" {
				x.Errorf("reached the service as %q with body %q", q.Method, q.Body)
			}
		}))
	}
	add("request line", "method lower case is another method", "get /a HTTP/1.1\r\n"+h+"\r\n", refusedOr(forwarded(func(x *X, q *Req) {
		if q.Method != "get" {
			x.Errorf("reached the service as %q", q.Method)
		}
	})))
	add("request line", "OPTIONS asterisk", "OPTIONS * HTTP/1.1\r\n"+h+"\r\n", func(x *X, c *Client) {
		if p := c.Recv("OPTIONS"); p.Status == 200 {
			once(x, target("*"))
		} else if p.Status < 400 || p.Status > 501 {
			x.Errorf("status %d", p.Status)
		}
	})
	add("request line", "OPTIONS asterisk reaches the service", "OPTIONS * HTTP/1.1\r\n"+h+"\r\n", forwarded(target("*")))
	out[len(out)-1].Should = true
	add("request line", "TRACE shows no credentials", "TRACE /a HTTP/1.1\r\n"+h+"\r\n", refusedTrace)

	// Absolute form.
	add("host", "absolute form", "GET http://example.test/a?b HTTP/1.1\r\n"+h+"\r\n", forwarded(target("/a?b"), field("Host", "example.test")))
	add("host", "absolute form upper-case scheme", "GET HTTP://example.test/a HTTP/1.1\r\n"+h+"\r\n", forwarded(target("/a"), field("Host", "example.test")))
	add("host", "absolute form without path", "GET http://example.test HTTP/1.1\r\n"+h+"\r\n", forwarded(target("/"), field("Host", "example.test")))
	add("host", "absolute form with query and no path", "GET http://example.test?a=b HTTP/1.1\r\n"+h+"\r\n", refusedOr(forwarded(target("/?a=b"))))
	add("host", "absolute form with port", "GET http://example.test:8080/a HTTP/1.1\r\nHost: example.test:8080\r\n\r\n", forwarded(target("/a"), field("Host", "example.test:8080")))
	add("host", "absolute form keeps the bytes of the path", "GET http://example.test//a/../%2e;b?c=http://d HTTP/1.1\r\n"+h+"\r\n", forwarded(target("//a/../%2e;b?c=http://d"), field("Host", "example.test")))
	add("host", "absolute form with https", "GET https://example.test/a HTTP/1.1\r\n"+h+"\r\n", refusedOr(forwarded(target("/a"), field("Host", "example.test"))))
	add("host", "absolute form in another case", "GET http://EXAMPLE.test/a HTTP/1.1\r\n"+h+"\r\n", forwarded(target("/a")))
	add("host", "absolute form with the default port", "GET http://example.test:80/a HTTP/1.1\r\n"+h+"\r\n", refusedOr(forwarded(target("/a"))))
	add("host", "absolute form with another port", "GET http://example.test:81/a HTTP/1.1\r\n"+h+"\r\n", refusedOr(forwarded(target("/a"), field("Host", "example.test:81"))))
	add("host", "absolute form without Host", "GET http://example.test/a HTTP/1.1\r\n\r\n", refusedOr(forwarded(target("/a"), field("Host", "example.test"))))
	add("host", "absolute form with two Hosts", "GET http://example.test/a HTTP/1.1\r\n"+h+h+"\r\n", refused())
	add("host", "absolute form HTTP/1.0", "GET http://example.test/a HTTP/1.0\r\n\r\n", refusedOr(forwarded(target("/a"), field("Host", "example.test"))))

	// Host.
	add("host", "kept as sent", "GET /a HTTP/1.1\r\nHost: ExAmPlE.test:81\r\n\r\n", forwarded(field("Host", "ExAmPlE.test:81")))
	add("host", "IPv6", "GET /a HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\n\r\n", forwarded(field("Host", "[2001:db8::1]:8080")))
	add("host", "IPv4", "GET /a HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", forwarded(field("Host", "192.0.2.1")))
	add("host", "underscore", "GET /a HTTP/1.1\r\nHost: my_app.test\r\n\r\n", forwarded(field("Host", "my_app.test")))
	add("host", "trailing dot", "GET /a HTTP/1.1\r\nHost: example.test.\r\n\r\n", refusedOr(forwarded(field("Host", "example.test."))))
	for _, v := range []struct{ name, fields string }{
		{"missing", ""},
		{"two same", h + h},
		{"two differing", h + "Host: evil.test\r\n"},
		{"two in mixed case", h + "HOST: evil.test\r\n"},
		{"list", "Host: example.test, evil.test\r\n"},
		{"space inside", "Host: example.test evil.test\r\n"},
		{"tab inside", "Host: example.test\tevil.test\r\n"},
		{"path", "Host: example.test/a\r\n"},
		{"user", "Host: me@example.test\r\n"},
		{"scheme", "Host: http://example.test\r\n"},
		{"query", "Host: example.test?a\r\n"},
		{"fragment", "Host: example.test#a\r\n"},
		{"backslash", "Host: example.test\\evil\r\n"},
		{"NUL", "Host: example.test\x00.evil\r\n"},
		{"control", "Host: example.test\x01\r\n"},
		{"high bytes", "Host: ex\xe4mple.test\r\n"},
		{"space before colon", "Host : example.test\r\n"},
		{"folded", "Host:\r\n example.test\r\n"},
		{"folded behind another", "X-A: b\r\n Host: example.test\r\n"},
		{"port is a word", "Host: example.test:http\r\n"},
		{"two ports", "Host: example.test:80:81\r\n"},
		{"port negative", "Host: example.test:-1\r\n"},
		{"IPv6 without end", "Host: [::1\r\n"},
		{"IPv6 with rest", "Host: [::1]evil\r\n"},
		{"angle brackets", "Host: <script>\r\n"},
		{"quotes", "Host: \"example.test\"\r\n"},
		{"bare CR", "Host: example.test\rX: y\r\n"},
		{"behind a look-alike", "H\x00ost: example.test\r\n"},
	} {
		add("host", v.name, "GET /a HTTP/1.1\r\n"+v.fields+"\r\n", refused(400, 421))
	}
	add("host", "empty", "GET /a HTTP/1.1\r\nHost:\r\n\r\n", refusedOr(forwarded()))
	add("host", "port out of range", "GET /a HTTP/1.1\r\nHost: example.test:99999\r\n\r\n", refusedOr(forwarded(field("Host", "example.test:99999"))))
	add("host", "empty port", "GET /a HTTP/1.1\r\nHost: example.test:\r\n\r\n", refusedOr(forwarded()))
	add("host", "one character wrong: percent", "GET /a HTTP/1.1\r\nHost: example%2etest\r\n\r\n", refusedOr(forwarded(field("Host", "example%2etest"))))
	add("host", "of 8 KiB", "GET /a HTTP/1.1\r\nHost: "+strings.Repeat("a", 8<<10)+"\r\n\r\n", refusedOr(forwarded()))

	// Path: the bytes stay what they were.
	for _, p := range []string{
		"/", "//", "//a", "/a//b", "/a/./b", "/a/../b", "/..", "/../../etc/passwd", "/%2e%2e/a", "/%2E%2E%2Fa", "/a%2fb", "/a%2Fb", "/%41", "/%7euser", "/a;x=y/b", "/a;b?c;d",
		"/a?", "/a?b", "/a?b?c", "/a?b=c&d=e", "/a?b=%20+", "/a?%", "/%", "/%zz", "/a%00b", "/a%0d%0aX:y", "/a%5cb", "/a+b", "/a:b@c", "/a,b!c$d'e(f)*g", "/a=b&c", "/~a", "/.", "/a/", "/a/.", "/?a=/../", "/%252e%252e/", "/%C3%A9", "/a%ffb", "/a?x=[1]",
	} {
		add("path", p, get(p), forwarded(target(p)))
	}
	for _, v := range []struct{ name, p string }{
		{"raw high bytes", "/\xc3\xa9"},
		{"invalid UTF-8", "/\xff\xfe"},
		{"quotes", `/a"b`},
		{"angle brackets", "/<a>"},
		{"backslash", `/a\b`},
		{"braces", "/{a}"},
		{"caret and bar", "/a^b|c"},
		{"backquote", "/a`b"},
		{"square brackets", "/a[b]"},
		{"fragment", "/a#b"},
	} {
		add("path", v.name, get(v.p), refusedOr(forwarded(target(v.p))))
	}
	long := "/" + strings.Repeat("a", 8000)
	add("limits", "target of 8000 bytes", get(long), forwarded(target(long)))
	huge := "/" + strings.Repeat("a", 300<<10)
	add("limits", "target of 300 KiB", get(huge), refused(414, 431, 400))

	// Line ends and odd bytes.
	for _, v := range []struct{ name, raw string }{
		{"NUL in value", get("/a", "X-A: b\x00c")},
		{"NUL in name", get("/a", "X-\x00A: b")},
		{"bare CR in value", get("/a", "X-A: b\rc")},
		{"bare CR as line end", "GET /a HTTP/1.1\r" + "Host: example.test\r\r"},
		{"CR CR LF", "GET /a HTTP/1.1\r\nHost: example.test\r\r\n\r\n"},
		{"CR before empty line", get("/a")[:len(get("/a"))-2] + "\r\r\n"},
		{"CR before empty line, and another", get("/a")[:len(get("/a"))-2] + "\r\r\n\r\n"},
		{"no colon", get("/a", "X-A")},
		{"empty name", get("/a", ": b")},
		{"space in name", get("/a", "X A: b")},
		{"space before colon", get("/a", "X-A : b")},
		{"tab before colon", get("/a", "X-A\t: b")},
		{"obs-fold with space", get("/a", "X-A: b\r\n c")},
		{"obs-fold with tab", get("/a", "X-A: b\r\n\tc")},
		{"first field line begins with space", "GET /a HTTP/1.1\r\n X-A: b\r\nHost: example.test\r\n\r\n"},
		{"first field line begins with tab", "GET /a HTTP/1.1\r\n\tX-A: b\r\nHost: example.test\r\n\r\n"},
		{"parenthesis in name", get("/a", "X(A): b")},
		{"slash in name", get("/a", "X/A: b")},
		{"at in name", get("/a", "X@A: b")},
		{"quote in name", get("/a", `X"A: b`)},
		{"comma in name", get("/a", "X,A: b")},
		{"semicolon in name", get("/a", "X;A: b")},
		{"equals in name", get("/a", "X=A: b")},
		{"bracket in name", get("/a", "X[A]: b")},
		{"backslash in name", get("/a", `X\A: b`)},
		{"brace in name", get("/a", "X{A}: b")},
		{"high byte in name", get("/a", "X-\xe4: b")},
		{"control in name", get("/a", "X-\x01A: b")},
		{"DEL in name", get("/a", "X-\x7fA: b")},
		{"vertical tab in name", get("/a", "X\vA: b")},
	} {
		if v.name == "bare CR as line end" {
			add("lines", v.name, v.raw, func(x *X, c *Client) {
				c.CloseWrite()
				c.SetReadDeadline(time.Now().Add(x.within()))
				_, _ = c.R.Peek(1)
				if s := x.Seen(); len(s) > 0 {
					x.Errorf("the service saw %s", describe(s))
				}
			})
			continue
		}
		add("lines", v.name, v.raw, refused())
	}
	for _, v := range []struct{ name, raw string }{
		{"control in value", get("/a", "X-A: b\x01c")},
		{"DEL in value", get("/a", "X-A: b\x7fc")},
		{"vertical tab in value", get("/a", "X-A: b\vc")},
		{"escape in value", get("/a", "X-A: b\x1b[0m")},
		{"LF for CRLF everywhere", strings.ReplaceAll(get("/a", "X-A: b"), "\r\n", "\n")},
		{"LF after a field", "GET /a HTTP/1.1\r\nHost: example.test\nX-A: b\r\n\r\n"},
		{"LF after request line", "GET /a HTTP/1.1\nHost: example.test\r\n\r\n"},
		{"LF as empty line", "GET /a HTTP/1.1\r\nHost: example.test\r\n\n"},
		{"LF LF", "GET /a HTTP/1.1\nHost: example.test\n\n"},
		{"two empty lines before", "\r\n\r\n" + get("/a")},
		{"LF before", "\n" + get("/a")},
	} {
		add("lines", v.name, v.raw, refusedOr(forwarded(target("/a"))))
	}
	add("lines", "smuggled behind LF CR LF", "GET /a HTTP/1.1\r\nHost: example.test\r\nX: y\n\r\nGET /smuggled HTTP/1.1\r\nHost: example.test\r\n\r\n", func(x *X, c *Client) {
		// LF CR LF ends the head for a lenient reader, and then the second request is honest; it must not be half of each.
		refusedOr(func(x *X, c *Client) {
			c.Recv("GET")
			for _, q := range x.Seen() {
				if q.Err != "" {
					x.Errorf("the service saw %s", describe(x.Seen()))
				}
			}
		})(x, c)
	})
	return out
}

// refusedTrace: a refusal, or forwarding without Cookie and Authorization, would do as well; here none is sent.
func refusedTrace(x *X, c *Client) {
	p := c.Recv("GET")
	if p.Status != 405 && p.Status != 501 && p.Status != 200 && p.Status != 400 && p.Status != 403 {
		x.Errorf("status %d", p.Status)
	}
}
