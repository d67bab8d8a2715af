package blackbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
