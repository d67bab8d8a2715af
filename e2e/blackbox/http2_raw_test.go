package blackbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"antirobot/servertest"
)

// rawList gathers cases whose client speaks frames and whose service speaks bytes: what becomes of HTTP/1.1 in HTTP/2, and
// of HTTP/2 in HTTP/1.1.
type rawList []Case

func (l *rawList) add(name string, run func(x *X, c *streams), services ...Script) {
	*l = append(*l, Case{Cat: "http2 raw", Name: name, Services: services, Run: func(x *X) { run(x, x.dialHTTP2()) }})
}

func rawCases() []Case {
	var out []Case
	for _, f := range []func() []Case{rawAnswerCases, rawPoisonCases, rawCutCases, rawInterimCases, rawRequestCases, rawTargetCases, rawFieldCases, rawUploadCases} {
		out = append(out, f()...)
	}
	return out
}

// lives expects the connection, and the service, to serve another request with its own answer.
func (c *streams) lives() {
	for i := range 2 {
		t := fmt.Sprintf("/lives%d", i)
		if a := c.get(t); !a.Whole() || a.Status != 200 || !strings.HasSuffix(a.Body.String(), t) {
			c.x.Errorf("the next request got %d %q, reset %v %v, GOAWAY %v %v", a.Status, clip(a.Body.String()), a.Reset, a.Code, c.away, c.code)
		}
	}
}

// then answers the first request with what, and those behind it as ok does.
func then(what Script) []Script {
	return []Script{what, ok}
}

// rawAnswerCases are answers that mean the same in HTTP/2, and leave the service's connection as it has to be.
func rawAnswerCases() []Case {
	var l rawList
	good := func(name, method, reply string, check func(x *X, a *streamed)) {
		script := Answer(reply)
		if strings.HasPrefix(reply, "HTTP/1.0") || strings.Contains(reply, "Connection: close") {
			script = AnswerAndEnd(reply)
		}
		l.add(name, func(x *X, c *streams) {
			a := c.await(c.open(true, c.fields(method, "/a")...))
			if !a.Whole() {
				x.Errorf("%d, %q, reset %v %v", a.Status, clip(a.Body.String()), a.Reset, a.Code)
			}
			check(x, a)
			c.lives()
		}, then(script)...)
	}
	body := func(want string) func(x *X, a *streamed) {
		return func(x *X, a *streamed) {
			if a.Status != 200 || a.Body.String() != want {
				x.Errorf("%d %q", a.Status, clip(a.Body.String()))
			}
		}
	}
	good("fields of the service's connection stay there", "GET", response("200 OK", "a", "Connection: X-Hop, keep-alive", "X-Hop: 1", "x-hop: 2",
		"Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "Upgrade: h2c", "X-Kept: 1"), func(x *X, a *streamed) {
		if a.Fields.Has("x-hop") || a.Fields.Get("x-kept") != "1" { // the others are looked for in every answer
			x.Errorf("%q", a.Fields)
		}
	})
	good("an answer of HTTP/1.0 ends with its connection", "GET", "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it", body("all of it"))
	good("an answer of HTTP/1.1 ends with its connection", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it", body("all of it"))
	good("an answer of HTTP/1.0 with a length", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", body("abc"))
	good("chunks with extensions and trailers", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3;a=b\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n", func(x *X, a *streamed) {
		if body("abcdefg")(x, a); a.Trailer.Get("x-sum") != "7" || a.Fields.Has("x-sum") || a.Fields.Has("content-length") && a.Fields.Get("content-length") != "7" {
			x.Errorf("%q, trailers %q", a.Fields, a.Trailer)
		}
	})
	good("trailers can't say what heads say", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nX-Sum: 1\r\n\r\n", func(x *X, a *streamed) {
		if a.Trailer.Has("content-length") || a.Trailer.Has("transfer-encoding") || a.Trailer.Has("connection") {
			x.Errorf("trailers %q", a.Trailer)
		}
	})
	good("no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", body("a"))
	good("a 206 and its range", "GET", response("206 Partial Content", "bcd", "Content-Range: bytes 1-3/5"), func(x *X, a *streamed) {
		if a.Status != 206 || a.Fields.Get("content-range") != "bytes 1-3/5" || a.Body.String() != "bcd" || a.Fields.Get("content-length") != "3" {
			x.Errorf("%d %q %q", a.Status, a.Fields, a.Body.String())
		}
	})
	good("what is compressed stays so", "GET", response("200 OK", "\x1f\x8b\x08\x00not really", "Content-Encoding: gzip", "Vary: Accept-Encoding", `ETag: W/"a"`), func(x *X, a *streamed) {
		if body("\x1f\x8b\x08\x00not really")(x, a); a.Fields.Get("content-encoding") != "gzip" || a.Fields.Get("etag") != `W/"a"` {
			x.Errorf("%q", a.Fields)
		}
	})
	good("HEAD of chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body(""))
	good("a 304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\nETag: \"a\"\r\n\r\n", func(x *X, a *streamed) {
		if a.Status != 304 || a.Body.Len() != 0 || a.Fields.Get("etag") != `"a"` {
			x.Errorf("%d %q", a.Status, a.Fields)
		}
	})
	good("a 204 with a length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", func(x *X, a *streamed) {
		if a.Status != 204 || a.Fields.Has("content-length") {
			x.Errorf("%d %q", a.Status, a.Fields)
		}
	})
	good("fields of one name, empty ones, UTF-8", "GET", response("200 OK", "a", "X-A: 1", "X-B:", "x-a: 2", "X-C: \xc3\xa9\xff"), func(x *X, a *streamed) {
		if !slices.Equal(a.Fields.All("x-a"), []string{"1", "2"}) || !a.Fields.Has("x-b") || a.Fields.Get("x-c") != "\xc3\xa9\xff" {
			x.Errorf("%q", a.Fields)
		}
	})
	good("an error of the service is its own", "GET", response("503 Busy", "later", "Retry-After: 7"), func(x *X, a *streamed) {
		if a.Status != 503 || a.Fields.Get("retry-after") != "7" || a.Body.String() != "later" {
			x.Errorf("%d %q", a.Status, a.Fields)
		}
	})
	return l
}

// rawPoisonCases are answers with another one behind them.
func rawPoisonCases() []Case {
	var l rawList
	const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
	for name, reply := range map[string]string{
		"an answer":         response("200 OK", "a"),
		"a 204":             "HTTP/1.1 204 No Content\r\n\r\n",
		"a 304":             "HTTP/1.1 304 Not Modified\r\nContent-Length: 44\r\n\r\n",
		"chunks":            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"more than asked":   "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
		"an interim answer": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + response("200 OK", "a"),
	} {
		l.add("an answer behind "+name+" is nobody's", func(x *X, c *streams) {
			if a := c.get("/a"); strings.Contains(a.Body.String(), "poison") {
				x.Errorf("%q", a.Body.String())
			}
			c.lives()
		}, then(Answer(reply+poison))...)
	}
	return l
}

// rawCutCases are answers that are no HTTP/1.1, or end too early. They never look whole, and hurt nobody else.
func rawCutCases() []Case {
	var l rawList
	bad := func(name, reply string) {
		l.add("bad answer: "+name, func(x *X, c *streams) {
			if a := c.get("/a"); a.Whole() && a.Status < 500 && a.Body.String() != "for /a" { // a GET may be asked again
				x.Errorf("%d %q %q looks whole", a.Status, a.Fields, clip(a.Body.String()))
			}
			if c.away || c.gone {
				x.Errorf("a bad answer ended the connection of all: GOAWAY %v %v", c.away, c.code)
				return
			}
			c.lives()
		}, then(AnswerAndEnd(reply))...)
	}
	bad("nothing", "")
	bad("half a status line", "HTTP/1.1 20")
	bad("half a head", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n")
	bad("a body that is too short", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nabc")
	bad("chunks without an end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
	bad("chunks without the last line end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")
	bad("half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n30\r\nabc")
	bad("a chunk's size that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n0\r\n\r\n")
	bad("a chunk longer than it says", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n")
	bad("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd")
	bad("a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc")
	bad("an unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc")
	bad("a NUL in a value", "HTTP/1.1 200 OK\r\nX-A: a\x00b\r\nContent-Length: 1\r\n\r\na")
	bad("a CR in a value", "HTTP/1.1 200 OK\r\nX-A: a\rb\r\nContent-Length: 1\r\n\r\na")
	bad("a space in a name", "HTTP/1.1 200 OK\r\nX A: a\r\nContent-Length: 1\r\n\r\na")
	bad("an empty name", "HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 1\r\n\r\na")
	bad("a pseudo field", "HTTP/1.1 200 OK\r\n:status: 201\r\nContent-Length: 1\r\n\r\na")
	bad("no colon", "HTTP/1.1 200 OK\r\nnothing\r\nContent-Length: 1\r\n\r\na")
	bad("a status of two digits", "HTTP/1.1 20 OK\r\nContent-Length: 1\r\n\r\na")
	bad("a status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 1\r\n\r\na")
	bad("another protocol", "HTTP/3.0 200 OK\r\nContent-Length: 1\r\n\r\na")
	bad("a page alone", "<html>hello</html>")
	bad("a switch that nobody asked for", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nabc")
	bad("a head of 2 MB", "HTTP/1.1 200 OK\r\nX-A: "+strings.Repeat("a", 2<<20)+"\r\nContent-Length: 1\r\n\r\na")
	bad("interim answers alone", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
	l.add("bad answer: a reset in the middle", func(x *X, c *streams) {
		if a := c.get("/a"); a.Whole() && a.Status < 500 {
			x.Errorf("%d %q looks whole", a.Status, clip(a.Body.String()))
		}
		c.lives()
	}, then(func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nabc")
		s.Reset()
	})...)
	return l
}

// rawInterimCases are 1xx answers.
func rawInterimCases() []Case {
	var l rawList
	l.add("103 reaches the client before the answer", func(x *X, c *streams) {
		id := c.open(true, c.fields("GET", "/a")...)
		a := c.answers[id]
		c.until(func() bool { return len(a.Interim) > 0 || a.Status > 0 })
		x.Signal("hinted")
		if c.await(id); !slices.Equal(a.Interim, []int{103}) || a.Status != 200 || a.Body.String() != "a" {
			x.Errorf("%v, %d %q", a.Interim, a.Status, a.Body.String())
		}
	}, func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n")
		s.X.Wait("hinted")
		s.Send(response("200 OK", "a"))
	})
	l.add("100 that nobody waits for is no answer", func(x *X, c *streams) {
		if a := c.get("/a"); !a.Whole() || a.Status != 200 || a.Body.String() != "a" {
			x.Errorf("%v, %d %q", a.Interim, a.Status, a.Body.String())
		}
		c.lives()
	}, then(Answer("HTTP/1.1 100 Continue\r\n\r\n"+response("200 OK", "a")))...)
	l.add("interim answers without end", func(x *X, c *streams) {
		if a := c.get("/a"); a.Whole() && a.Status < 500 {
			x.Errorf("%d after %d interim answers", a.Status, len(a.Interim))
		}
		c.lives()
	}, then(func(s *Svc) {
		s.Request()
		for range 10_000 {
			s.Send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
		}
		s.Send(response("200 OK", "a"))
		s.End()
	})...)
	l.add("a client that waits for 100", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a", "expect", "100-continue", "content-length", "5")...)
		a := c.answers[id]
		c.until(func() bool { return len(a.Interim) > 0 || a.Status > 0 })
		c.send(id, "hello", true)
		if c.await(id); a.Status != 200 || !slices.Contains(a.Interim, 100) {
			x.Errorf("%v, %d", a.Interim, a.Status)
		}
		if q := x.Seen(); len(q) != 1 || q[0].Body != "hello" || !q[0].Complete {
			x.Errorf("the service saw %s", describe(q))
		}
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 100 Continue\r\n\r\n")
		s.Body()
		s.Send(response("200 OK", "a"))
	})
	return l
}

// suiteRaw runs these cases, one after another.
func suiteRaw(t *testing.T, l launcher, tries int, known map[string]bool) (results []result) {
	t.Helper()
	svc, err := newService()
	if err != nil {
		t.Fatal(err)
	}
	defer svc.stop()
	addr, stop := l(t, svc.url())
	defer stop()
	e := &env{addr: addr, host: hostHTTP1, svc: svc}
	cases := rawCases()
	for i := range cases {
		c := &cases[i]
		fails, _ := e.run(c, known[c.ID()])
		for again := 1; again < tries && len(fails) > 0 && !known[c.ID()]; again++ {
			fails, _ = e.run(c, false)
		}
		results = append(results, result{c: c, fails: fails})
	}
	return results
}

// TestHTTP2Raw runs the cases against the binary.
func TestHTTP2Raw(t *testing.T) {
	t.Parallel()
	report(t, suiteRaw(t, gatewayHTTP2(binary(t)), 1, nil), nil)
}

// TestReferenceHTTP2Raw runs them against nginx: an unlisted failure there is an error of the suite.
func TestReferenceHTTP2Raw(t *testing.T) {
	t.Parallel()
	report(t, suiteRaw(t, nginxHTTP2(servertest.Need(t, "nginx")), 3, nginxFailsRaw), nginxFailsRaw)
}

// rawFieldCases are fields in numbers and sizes that only HTTP/2 makes cheap.
func rawFieldCases() []Case {
	var l rawList
	tooLarge := func(x *X, c *streams, id uint32) {
		a := c.answers[id]
		c.until(func() bool { return a.Ended || a.Reset || c.away })
		if a.Status/100 != 4 && !a.Reset && !c.away && !c.gone {
			x.Errorf("status %d", a.Status)
		}
		if seen := x.Seen(); len(seen) != 0 {
			x.Errorf("it reached the service: %d bytes", len(seen[0].Head))
		}
		other := x.dialHTTP2()
		other.lives()
	}
	l.add("too many fields", func(x *X, c *streams) {
		var many []string
		for i := range 5000 {
			many = append(many, fmt.Sprintf("x-%d", i), "")
		}
		block := c.encode(c.fields("GET", "/a", many...)...)
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, BlockFragment: block[:10]})
		for block = block[10:]; len(block) > 16_000; block = block[16_000:] {
			_ = c.WriteContinuation(id, false, block[:16_000])
		}
		_ = c.WriteContinuation(id, true, block)
		tooLarge(x, c, id)
	})
	l.add("a field that is one byte each time", func(x *X, c *streams) { // RFC 7541 section 7.3
		block := c.encode(c.fields("GET", "/a", "x-large", strings.Repeat("a", 3900))...)
		block = append(block, slices.Repeat([]byte{0x80 | 62}, 16_000-len(block))...) // the newest of the table, 60 MB
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true, BlockFragment: block})
		tooLarge(x, c, id)
	})
	broken := func(name string, block func(c *streams) []byte) {
		l.add("a head that can't be read: "+name, func(x *X, c *streams) {
			id := c.begin()
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true, BlockFragment: block(c)})
			if c.until(func() bool { return c.away }); !c.away && !c.gone {
				x.Errorf("nobody minds")
			}
			if seen := x.Seen(); len(seen) != 0 {
				x.Errorf("it reached the service: %s", describe(seen))
			}
		})
	}
	fields := func(c *streams) []byte { return c.encode(c.fields("GET", "/a")...) }
	broken("an entry that is not there", func(c *streams) []byte { return append(fields(c), 0xff, 0x80, 0x10) })
	broken("entry 0", func(c *streams) []byte { return append(fields(c), 0x80) })
	broken("half a string", func(c *streams) []byte { return append(fields(c), 0x00, 0x05, 'a') })
	broken("a table larger than allowed", func(c *streams) []byte { return append([]byte{0x3f, 0xe1, 0xff, 0x7f}, fields(c)...) })
	broken("a table that changes at the end", func(c *streams) []byte { return append(fields(c), 0x20) })
	broken("a number without end", func(c *streams) []byte {
		return append(fields(c), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	})
	broken("Huffman code that ends with EOS", func(c *streams) []byte { return append(fields(c), 0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, 'a') })
	for name, value := range map[string]string{"a control": "a\x01b", "DEL": "a\x7fb", "an escape": "a\x1bb", "a vertical tab": "a\x0bb"} {
		l.add("a value with "+name+" is refused, or a value", func(x *X, c *streams) {
			a := c.get("/a", "x-a", value)
			for _, q := range x.Seen() {
				if q.Fields.Get("X-A") != value {
					x.Errorf("the service saw %q", q.Head)
				}
			}
			if len(x.Seen()) == 0 && !a.Reset && a.Status/100 != 4 {
				x.Errorf("status %d", a.Status)
			}
			c.lives()
		})
	}
	for name, value := range map[string]string{"before": " a", "behind": "a ", "a tab": "\ta", "alone": " "} {
		l.add("white space around a value, "+name+", is nobody's content", func(x *X, c *streams) {
			c.get("/a", "x-a", value)
			for _, q := range x.Seen() {
				if got := q.Fields.Get("X-A"); got != strings.TrimSpace(value) {
					x.Errorf("the service saw %q", got)
				}
			}
			c.lives()
		})
	}
	l.add("a secret field stays out of tables", func(x *X, c *streams) {
		c.block.Reset()
		for _, f := range []hpack.HeaderField{
			{Name: ":method", Value: "GET"},
			{Name: ":scheme", Value: "http"},
			{Name: ":authority", Value: hostHTTP1},
			{Name: ":path", Value: "/a"},
			{Name: "authorization", Value: "Basic YTpi", Sensitive: true},
		} {
			_ = c.enc.WriteField(f)
		}
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true, BlockFragment: slices.Clone(c.block.Bytes())})
		c.await(id)
		if seen := x.Seen(); len(seen) != 1 || seen[0].Fields.Get("Authorization") != "Basic YTpi" {
			x.Errorf("the service saw %s", describe(seen))
		}
		c.lives()
	})
	return l
}

// rawUploadCases are bodies that end before, or after, the answer.
func rawUploadCases() []Case {
	var l rawList
	l.add("an answer before the end of the body", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a", "content-length", "1000000")...)
		c.send(id, "hello", false)
		a := c.answers[id]
		c.until(func() bool { return a.Ended || a.Reset })
		if a.Status != 413 || a.Body.String() != "too large" || a.Reset && a.Code != http2.ErrCodeNo {
			x.Errorf("%d %q, reset %v %v", a.Status, a.Body.String(), a.Reset, a.Code)
		}
		if c.until(func() bool { return a.Reset }); a.Code != http2.ErrCodeNo { // RFC 9113 section 8.1
			x.Errorf("the client is not told to stop: %v", a.Code)
		}
		c.lives()
	}, then(func(s *Svc) {
		s.Head()
		s.Send(response("413 Content Too Large", "too large", "Connection: close"))
		s.X.Wait("never")
	})...)
	l.add("an answer while the body goes on", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		a := c.answers[id]
		for i, word := range []string{"one", "two", "three"} {
			c.send(id, word, i == 2)
			c.until(func() bool { return strings.HasSuffix(a.Body.String(), word) })
		}
		if c.await(id); a.Body.String() != "onetwothree" || !a.Whole() {
			x.Errorf("%q", a.Body.String())
		}
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, word := range []string{"one", "two", "three"} {
			if got := s.ReadN(1 + 2 + len(word) + 2); got != fmt.Sprintf("%x\r\n%s\r\n", len(word), word) {
				s.X.Errorf("the service got %q", got)
			}
			s.Send(fmt.Sprintf("%x\r\n%s\r\n", len(word), word))
		}
		s.ReadN(len("0\r\n\r\n"))
		s.Send("0\r\n\r\n")
	})
	gone := func(name string, leave func(c *streams, id uint32)) {
		l.add("the service is freed: "+name, func(x *X, c *streams) {
			id := c.open(false, c.fields("POST", "/a")...)
			c.send(id, "half", false)
			x.Wait("reading")
			leave(c, id)
			x.Wait("gone")
			for _, q := range x.Seen() {
				if q.Complete {
					x.Errorf("the body looked whole: %q", q.Body)
				}
			}
		}, then(func(s *Svc) {
			s.Head()
			s.ReadN(len("4\r\nhalf\r\n"))
			s.X.Signal("reading")
			if !s.Gone(patience) {
				s.X.Errorf("the connection stays")
			}
			s.X.Signal("gone")
			s.End()
		})...)
	}
	gone("a stream is taken back", func(c *streams, id uint32) { _ = c.WriteRSTStream(id, http2.ErrCodeCancel) })
	gone("a connection is closed", func(c *streams, _ uint32) { c.Close() })
	gone("a connection error", func(c *streams, _ uint32) { _ = c.WriteRawFrame(http2.FrameData, 0, 0, []byte("a")) })
	l.add("a body is not sent twice", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a", "content-length", "5")...)
		c.send(id, "hello", true)
		if a := c.await(id); a.Status/100 != 5 {
			x.Errorf("status %d", a.Status)
		}
		if n := len(x.Seen()); n != 1 {
			x.Errorf("the service saw it %d times", n)
		}
		c.lives()
	}, then(func(s *Svc) { s.Request(); s.End() })...)
	l.add("trailers without a body", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode("x-sum", "0"), EndStream: true, EndHeaders: true})
		a := c.await(id)
		if seen := x.Seen(); a.Status != 200 || len(seen) != 1 || !seen[0].Complete || seen[0].Body != "" || seen[0].Fields.Has("X-Sum") {
			x.Errorf("%d, the service saw %s", a.Status, describe(seen))
		}
		c.lives()
	})
	l.add("a length with trailers behind it", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a", "content-length", "5")...)
		c.send(id, "hello", false)
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode("x-sum", "5"), EndStream: true, EndHeaders: true})
		a := c.await(id)
		if seen := x.Seen(); a.Status != 200 || len(seen) != 1 || !seen[0].Complete || seen[0].Body != "hello" {
			x.Errorf("%d, the service saw %s", a.Status, describe(seen))
		}
		c.lives()
	})
	l.add("a slow reader holds the service back, not the gateway's memory", func(x *X, _ *streams) {
		c := x.dialHTTP2()
		c.stingy = true
		id := c.open(true, c.fields("GET", "/a")...)
		x.Wait("stuck")
		_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
		c.stingy = false
	}, then(func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
		piece := make([]byte, 1<<16)
		_ = s.Conn.SetWriteDeadline(time.Now().Add(settle * 20))
		for range 1_000_000_000 >> 16 {
			if _, err := s.Conn.Write(piece); err != nil {
				s.X.Signal("stuck")
				s.End()
			}
		}
		s.X.Errorf("the gateway took a gigabyte that nobody read")
		s.X.Signal("stuck")
	})...)
	return l
}

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
