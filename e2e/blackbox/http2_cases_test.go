package blackbox

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http2"
)

// serving is what the service does in a case; nil: ok.
type serving = func(c *call, w http.ResponseWriter, r *http.Request)

// http2List gathers cases over HTTP/2.
type http2List []Case

func (l *http2List) add(name string, run func(x *X, c *streams)) {
	l.with(name, nil, run)
}

// with adds a case whose service does something of its own.
func (l *http2List) with(name string, serve func(x *X) serving, run func(x *X, c *streams)) {
	*l = append(*l, Case{Cat: "http2", Name: name, Run: func(x *X) {
		if serve != nil {
			x.web().begin(serve(x))
		}
		run(x, x.dialHTTP2())
	}})
}

func http2Cases() []Case {
	var out []Case
	for _, f := range []func() []Case{malformedCases, requestCases, uploadCases, streamedCases, connectCases, windowCases, floodCases} {
		out = append(out, f()...)
	}
	return out
}

// malformedCases are requests that RFC 9113 section 8 forbids, or that HTTP/1.1 could read differently. None may reach the
// service. The client gets 4xx or a reset, and if its connection is spared, the next request of it is served.
func malformedCases() []Case {
	var l http2List
	refuse := func(name string, fields func(c *streams) []string) {
		l.add("refused: "+name, func(x *X, c *streams) {
			a := c.await(c.open(true, fields(c)...))
			if !c.gone && !c.away {
				c.mustLive()
			}
			if n := len(x.called()); n != 0 {
				x.Errorf("it reached the service: %s", seen(x.called()))
			}
			if !a.Reset && !c.gone && !c.away && (a.Status < 400 || a.Status >= 500 && a.Status != 501) {
				x.Errorf("status %d %q", a.Status, clip(a.Body.String()))
			}
		})
	}
	with := func(name string, more ...string) {
		refuse(name, func(c *streams) []string { return c.fields("GET", "/a", more...) })
	}
	for _, b := range []struct{ name, bytes string }{{"CR", "\r"}, {"LF", "\n"}, {"CR LF", "\r\nx-smuggled: 1"}, {"NUL", "\x00"}} {
		with(b.name+" in a value", "x", "a"+b.bytes+"b")
		with(b.name+" in a name", "x"+b.bytes+"y", "a")
		with(b.name+" in a cookie", "cookie", "a=b"+b.bytes+"c")
		refuse(b.name+" in the path", func(c *streams) []string { return c.fields("GET", "/a"+b.bytes) })
		refuse(b.name+" in the method", func(c *streams) []string { return c.fields("GET"+b.bytes, "/a") })
		refuse(b.name+" in the authority", func(c *streams) []string {
			return []string{":method", "GET", ":scheme", "http", ":authority", c.x.env.host + b.bytes, ":path", "/a"}
		})
	}
	with("space in a name", "transfer encoding", "chunked")
	with("colon in a name", "x:y", "a")
	with("upper case in a name", "X-Upper", "a")
	with("an empty name", "", "a")
	with("a byte above 0x7f in a name", "x\xe9", "a")
	for _, f := range [][2]string{
		{"connection", "close"},
		{"connection", "x-a"},
		{"keep-alive", "timeout=5"},
		{"proxy-connection", "keep-alive"},
		{"transfer-encoding", "chunked"},
		{"upgrade", "websocket"},
		{"te", "gzip"},
		{"te", "trailers, deflate"},
	} {
		with(f[0]+": "+f[1], f[0], f[1])
	}
	with("two hosts", "host", "h1.test", "host", "h2.test")
	with("a host other than the authority", "host", "other.test")
	with("two lengths", "content-length", "0", "content-length", "5")
	with("a length that is not there", "content-length", "5")
	with("a signed length", "content-length", "+0")
	with("a length in hexadecimal", "content-length", "0x0")
	pseudo := func(name string, fields ...string) {
		refuse(name, func(c *streams) []string {
			for i := range fields {
				fields[i] = strings.ReplaceAll(fields[i], "HOST", c.x.env.host)
			}
			return fields
		})
	}
	pseudo("a pseudo field behind a field", ":method", "GET", ":scheme", "http", ":authority", "HOST", "accept", "*/*", ":path", "/a")
	pseudo("two methods", ":method", "GET", ":method", "POST", ":scheme", "http", ":authority", "HOST", ":path", "/a")
	pseudo("two paths", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "/a", ":path", "/b")
	pseudo("two authorities", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":authority", "HOST", ":path", "/a")
	pseudo("two schemes", ":method", "GET", ":scheme", "http", ":scheme", "https", ":authority", "HOST", ":path", "/a")
	pseudo("an unknown pseudo field", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "/a", ":name", "x")
	pseudo("a pseudo field of answers", ":status", "200", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "/a")
	pseudo("no method", ":scheme", "http", ":authority", "HOST", ":path", "/a")
	pseudo("no scheme", ":method", "GET", ":authority", "HOST", ":path", "/a")
	pseudo("no path", ":method", "GET", ":scheme", "http", ":authority", "HOST")
	pseudo("an empty path", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "")
	pseudo("a path without a slash", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "a")
	pseudo("an absolute path", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "http://HOST/a")
	pseudo("* of a GET", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "*")
	pseudo("a path with a space", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "/a HTTP/1.1")
	pseudo("a method with a space", ":method", "GET /b", ":scheme", "http", ":authority", "HOST", ":path", "/a")
	pseudo("an authority with a user", ":method", "GET", ":scheme", "http", ":authority", "user@HOST", ":path", "/a")
	pseudo("no host at all", ":method", "GET", ":scheme", "http", ":path", "/a")
	return l
}

// requestCases are requests whose meaning may not change on the way.
func requestCases() []Case {
	var l http2List
	l.add("cookie crumbs are joined", func(x *X, c *streams) {
		c.get("/a", "cookie", "a=1", "x-a", "y", "cookie", "b=2", "cookie", "c=3")
		if got := x.onlyCall().Header["Cookie"]; !slices.Equal(got, []string{"a=1; b=2; c=3"}) {
			x.Errorf("the service saw the cookies %q", got)
		}
	})
	l.add("the authority is the host", func(x *X, c *streams) {
		c.get("/a?b=c", "host", x.env.host)
		if q := x.onlyCall(); q.Host != x.env.host || q.Target != "/a?b=c" {
			x.Errorf("the service saw the host %q, the target %q", q.Host, q.Target)
		}
	})
	l.add("host without an authority", func(x *X, c *streams) {
		c.await(c.open(true, ":method", "GET", ":scheme", "http", ":path", "/a", "host", x.env.host))
		if q := x.onlyCall(); q.Host != x.env.host {
			x.Errorf("the service saw the host %q", q.Host)
		}
	})
	l.add("fields of one name stay apart, in their order", func(x *X, c *streams) {
		c.get("/a", "x-a", "1", "x-b", "2", "x-a", "3", "x-a", "")
		if got := x.onlyCall().Header["X-A"]; !slices.Equal(got, []string{"1", "3", ""}) && strings.Join(got, ", ") != "1, 3, " {
			x.Errorf("the service saw %q", got)
		}
	})
	l.add("te: trailers is nobody's error", func(x *X, c *streams) {
		if a := c.get("/a", "te", "trailers"); a.Status != 200 {
			x.Errorf("status %d", a.Status)
		}
	})
	l.add("the scheme does not say how the client came", func(x *X, c *streams) {
		c.await(c.open(true, ":method", "GET", ":scheme", "https", ":authority", x.env.host, ":path", "/a"))
		for _, q := range x.called() {
			if got := q.Header.Get("X-Forwarded-Proto"); got != "http" {
				x.Errorf("X-Forwarded-Proto %q over a connection without TLS", got)
			}
		}
	})
	l.add("who the client is can't be forged", func(x *X, c *streams) {
		c.get("/a", "x-forwarded-for", "203.0.113.9", "x-real-ip", "203.0.113.9", "forwarded", "for=203.0.113.9", "proxy", "http://evil.test")
		if q := x.onlyCall(); strings.Contains(strings.Join(q.Header["X-Forwarded-For"], ","), "203.0.113.9") || q.Header.Get("X-Real-Ip") == "203.0.113.9" || q.Header.Get("Forwarded") != "" {
			x.Errorf("the service saw %v", q.Header)
		}
	})
	l.add("* of OPTIONS", func(x *X, c *streams) {
		c.await(c.open(true, c.fields("OPTIONS", "*")...))
		if q := x.onlyCall(); q.Target != "*" || q.Method != "OPTIONS" {
			x.Errorf("the service saw %s %s", q.Method, q.Target)
		}
	})
	l.add("a path stays as it is", func(x *X, c *streams) {
		c.get("//a/../b%2Fc/./d;e?f=%20&g=h?i")
		if q := x.onlyCall(); q.Target != "//a/../b%2Fc/./d;e?f=%20&g=h?i" {
			x.Errorf("the service saw %s", q.Target)
		}
	})
	l.add("an unknown method", func(x *X, c *streams) {
		c.await(c.open(true, c.fields("PROPFIND", "/a")...))
		if q := x.onlyCall(); q.Method != "PROPFIND" {
			x.Errorf("the service saw %s", q.Method)
		}
	})
	l.add("a head in pieces", func(x *X, c *streams) { // RFC 9113 section 6.10: of any length, none too
		long := strings.Repeat("v", 20_000)
		block := c.encode(c.fields("GET", "/a", "x-long", long, "x-last", "1")...)
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true})
		for _, n := range []int{1, 0, 100, 15_000} {
			_ = c.WriteContinuation(id, false, block[:n])
			block = block[n:]
		}
		_ = c.WriteContinuation(id, true, block)
		c.await(id)
		if q := x.onlyCall(); q.Header.Get("X-Long") != long || q.Header.Get("X-Last") != "1" {
			x.Errorf("the service saw fields of %d bytes", len(q.Header.Get("X-Long")))
		}
	})
	l.add("padding and priorities are nobody's content", func(x *X, c *streams) {
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: c.encode(c.fields("POST", "/a")...), EndHeaders: true, PadLength: 200,
			Priority: http2.PriorityParam{StreamDep: 7, Exclusive: true, Weight: 3},
		})
		_ = c.WritePriority(id, http2.PriorityParam{StreamDep: 5})
		_ = c.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=3")) // PRIORITY_UPDATE, RFC 9218
		_ = c.WriteRawFrame(0xbb, 0xff, id, []byte("unknown"))
		_ = c.WriteDataPadded(id, false, []byte("he"), make([]byte, 255))
		_ = c.WriteDataPadded(id, true, []byte("llo"), []byte{0})
		c.await(id)
		if q := x.onlyCall(); q.Body != "hello" {
			x.Errorf("the service got %q", q.Body)
		}
	})
	l.add("too large a head", func(x *X, c *streams) {
		id := c.open(true, c.fields("GET", "/a", "x-a", strings.Repeat("a", 16_000))...) // the largest frame
		c.await(id)
		var many []string
		for range 30 {
			many = append(many, "x-a", strings.Repeat("a", 16_000))
		}
		block := c.encode(c.fields("GET", "/huge", many...)...)
		id = c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, BlockFragment: block[:10]})
		for block = block[10:]; len(block) > 16_000; block = block[16_000:] {
			_ = c.WriteContinuation(id, false, block[:16_000])
		}
		_ = c.WriteContinuation(id, true, block)
		a := c.answers[id]
		if c.until(func() bool { return a.Ended || a.Reset || c.away }); a.Status != 431 && a.Status != 400 && !a.Reset && !c.away && !c.gone {
			x.Errorf("status %d", a.Status)
		}
		for _, q := range x.called() {
			if q.Target == "/huge" {
				x.Errorf("half a megabyte of head reached the service")
			}
		}
	})
	return l
}
