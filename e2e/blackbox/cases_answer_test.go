package blackbox

import (
	"fmt"
	"strings"
	"time"
)

func answerCases() []Case {
	var out []Case
	add := func(cat, name, reply string, check Check) {
		out = append(out, Case{Cat: cat, Name: name, Send: get("/a"), Services: []Script{Answer(reply), ok}, Check: check})
	}
	ending := func(cat, name, reply string, check Check) {
		out = append(out, Case{Cat: cat, Name: name, Send: get("/a"), Services: []Script{AnswerAndEnd(reply), ok}, Check: check})
		if cat == "strictness" || cat == "cut" {
			out[len(out)-1].Services = out[len(out)-1].Services[:1] // a second try fares no better
		}
	}

	// What a service says comes through.
	for _, s := range []string{"200 OK", "201 Created", "202 Accepted", "206 Partial Content", "299 Odd", "300 Multiple Choices", "301 Moved Permanently", "307 Temporary Redirect", "400 Bad Request", "401 Unauthorized", "404 Not Found", "418 I'm a teapot", "429 Too Many Requests", "451 Unavailable For Legal Reasons", "500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout", "599 Odd"} {
		var code int
		_, _ = fmt.Sscan(s, &code)
		add("answers", "status "+s, response(s, "body", "X-A: 1"), func(x *X, c *Client) {
			answered(code, body("body"), got("X-A", "1"), func(x *X, p *Resp) {
				if p.Reason != s[4:] {
					x.Errorf("reason %q", p.Reason)
				}
			})(x, c)
			c.MustLive()
		})
	}
	add("answers", "no reason phrase", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", answered(200, body("ok")))
	add("answers", "no space after the status", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", func(x *X, c *Client) {
		p := c.Recv("GET")
		if p.Status != 200 && p.Status != 502 {
			x.Errorf("status %d", p.Status)
		}
	})
	add("answers", "own reason phrase", response("200 Fine Thanks", "ok"), answered(200, body("ok")))
	add("answers", "several Set-Cookie", response("200 OK", "ok", "Set-Cookie: a=1; Path=/", "Set-Cookie: b=2; HttpOnly"), answered(200, func(x *X, p *Resp) {
		v := p.Fields.All("Set-Cookie")
		if len(v) < 2 || v[0] != "a=1; Path=/" || v[1] != "b=2; HttpOnly" {
			x.Errorf("Set-Cookie %q", v)
		}
	}))
	add("answers", "case of names kept", response("200 OK", "ok", "x-lower: 1", "X-UPPER: 2"), answered(200, func(x *X, p *Resp) {
		if !strings.Contains(p.Head, "\r\nx-lower: 1\r\n") || !strings.Contains(p.Head, "\r\nX-UPPER: 2\r\n") {
			x.Errorf("%q", p.Head)
		}
	}))
	add("answers", "order and duplicates kept", response("200 OK", "ok", "X-A: 1", "X-B: 2", "X-A: 3"), answered(200, got("X-A", "1", "3")))
	add("answers", "Server and Date kept", response("200 OK", "ok", "Server: mine/1.0", "Date: Sat, 29 Oct 1994 19:43:31 GMT"), answered(200, got("Server", "mine/1.0"), got("Date", "Sat, 29 Oct 1994 19:43:31 GMT")))
	out[len(out)-1].Should = true
	for _, n := range []string{"Content-Type", "Cache-Control", "ETag", "Last-Modified", "Content-Encoding", "Vary"} {
		add("answers", "nothing invented: "+n, response("200 OK", "ok"), answered(200, got(n)))
	}
	add("answers", "value with high bytes", response("200 OK", "ok", "X-A: \xe4\xd0\xbf"), answered(200, got("X-A", "\xe4\xd0\xbf")))
	add("answers", "empty value", response("200 OK", "ok", "X-A:"), answered(200, got("X-A", "")))
	add("answers", "Location untouched", response("302 Found", "", "Location: http://example.test/a/../b?x=%2F"), answered(302, got("Location", "http://example.test/a/../b?x=%2F")))
	add("answers", "length zero", response("200 OK", ""), func(x *X, c *Client) {
		answered(200, body(""))(x, c)
		c.MustLive()
	})
	add("answers", "Content-Length kept", response("200 OK", "hello"), answered(200, got("Content-Length", "5"), got("Transfer-Encoding")))
	add("answers", "chunked stays without length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", func(x *X, c *Client) {
		answered(200, body("hello"), got("Content-Length"))(x, c)
		c.MustLive()
	})
	ending("answers", "until close", "HTTP/1.1 200 OK\r\n\r\nuntil the end", answered(200, body("until the end")))
	ending("answers", "HTTP/1.0 until close", "HTTP/1.0 200 OK\r\n\r\nuntil the end", answered(200, body("until the end")))
	ending("answers", "HTTP/1.0 with length", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", func(x *X, c *Client) {
		answered(200, body("hello"), func(x *X, p *Resp) {
			if p.Proto != "HTTP/1.1" {
				x.Errorf("answered as %s", p.Proto)
			}
		})(x, c)
		c.MustLive()
	})
	ending("answers", "until close, empty", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", answered(200, body("")))

	// HEAD, 204, 304.
	head1 := func(name, method, reply string, check func(x *X, p *Resp)) {
		out = append(out, Case{Cat: "bodiless", Name: name, Send: newRequest(method, "/a", ""), Services: []Script{Answer(reply), ok}, Check: func(x *X, c *Client) {
			check(x, c.Recv(method))
			c.MustLive()
		}})
	}
	status := func(want int, more ...func(x *X, p *Resp)) func(x *X, p *Resp) {
		return func(x *X, p *Resp) {
			if p.Status != want {
				x.Errorf("status %d, wanted %d", p.Status, want)
			}
			for _, f := range more {
				f(x, p)
			}
		}
	}
	head1("HEAD with length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n", status(200, got("Content-Length", "12345")))
	head1("HEAD chunked", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", status(200))
	head1("HEAD without any", "HEAD", "HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\n", status(200, got("X-A", "1")))
	head1("HEAD 404 with length", "HEAD", "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n", status(404, got("Content-Length", "9")))
	head1("HEAD with huge length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 109951162777600\r\n\r\n", status(200, got("Content-Length", "109951162777600")))
	head1("204", "GET", "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", status(204, got("X-A", "1"), got("Transfer-Encoding")))
	head1("204 to POST", "POST", "HTTP/1.1 204 No Content\r\n\r\n", status(204))
	head1("204 with length zero", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", status(204))
	head1("304", "GET", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", status(304, got("ETag", `"x"`)))
	head1("304 with length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\nETag: \"x\"\r\n\r\n", status(304, got("ETag", `"x"`)))
	head1("205 with length zero", "GET", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", status(205))

	loose := func(want int) func(x *X, c *Client) {
		return func(x *X, c *Client) {
			p := c.Recv("GET")
			if p.Status == 502 {
				return
			}
			if p.Status != want || p.Fields.Has("Transfer-Encoding") {
				x.Errorf("%q", p.Head)
			}
			c.Send(get("/next"))
			if p := c.TryRecv("GET"); p != nil && p.Body != "for /next" {
				x.Errorf("the next request got %q", p.Body)
			}
		}
	}
	add("bodiless", "204 chunked", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", loose(204))
	add("bodiless", "204 chunked with its end", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", loose(204))
	add("bodiless", "204 with length", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", loose(204))

	// Trailers.
	trailers := func(name, send, reply string, check Check) {
		out = append(out, Case{Cat: "trailers", Name: name, Send: send, Services: []Script{Answer(reply), ok}, Check: check, Should: true})
	}
	trailers("of an answer", get("/a", "TE: trailers", "Connection: TE"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: abc\r\n\r\n", func(x *X, c *Client) {
		p := c.Get()
		if p.Body != "hello" || p.Trailer.Get("X-Sum") != "abc" {
			x.Errorf("body %q, trailer %q", p.Body, p.Trailer)
		}
		c.MustLive()
	})
	trailers("of an answer are not needed", get("/a"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: abc\r\n\r\n", func(x *X, c *Client) {
		p := c.Get()
		if p.Body != "hello" {
			x.Errorf("body %q", p.Body)
		}
		c.MustLive()
	})
	out[len(out)-1].Should = false
	trailers("of an answer never frame", get("/a", "TE: trailers", "Connection: TE"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\n\r\n", func(x *X, c *Client) {
		p := c.Recv("GET")
		if p.Trailer.Has("Content-Length") || p.Trailer.Has("Transfer-Encoding") || p.Fields.Has("Content-Length") {
			x.Errorf("trailer %q, head %q", p.Trailer, p.Head)
		}
	})
	out[len(out)-1].Should = false
	trailers("of a request", chunkedPost("/a", "5\r\nhello\r\n0\r\nX-Sum: abc\r\n\r\n", "Trailer: X-Sum"), response("200 OK", "ok"), func(x *X, c *Client) {
		answered(200)(x, c)
		for _, q := range x.Seen() {
			if q.Trailer.Get("X-Sum") != "abc" {
				x.Errorf("trailer %q", q.Trailer)
			}
		}
	})
	trailers("of a request are no trouble", chunkedPost("/a", "5\r\nhello\r\n0\r\nX-Sum: abc\r\nX-Other: d\r\n\r\n"), response("200 OK", "ok"), func(x *X, c *Client) {
		forwarded(func(x *X, q *Req) {
			if q.Body != "hello" || q.Fields.Has("X-Sum") {
				x.Errorf("%s", describe([]Req{*q}))
			}
		})(x, c)
		c.MustLive()
	})
	out[len(out)-1].Should = false
	trailers("many bytes of them", chunkedPost("/a", "5\r\nhello\r\n0\r\n"+strings.Repeat("X-T: "+strings.Repeat("t", 1000)+"\r\n", 5000)+"\r\n"), response("200 OK", "ok"), brokenOr(one("hello")))
	out[len(out)-1].Should = false

	// Strictness towards the service.
	for _, v := range []struct{ name, reply string }{
		{"garbage", "hello client how are you\r\n\r\n"},
		{"HTML without a head", "<html>secret</html>\r\n\r\n"},
		{"ICY", "ICY 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"HTTP/2", "HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"HTTP/2.0", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"status of two digits", "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"status of letters", "HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\nok"},
		{"status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"no version", "200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"negative status", "HTTP/1.1 -20 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"two lengths", head("200 OK", "Content-Length: 2", "Content-Length: 3") + "ok!"},
		{"length list differing", head("200 OK", "Content-Length: 2, 3") + "ok!"},
		{"length of letters", head("200 OK", "Content-Length: two") + "ok"},
		{"negative length", head("200 OK", "Content-Length: -2") + "ok"},
		{"length with plus", head("200 OK", "Content-Length: +2") + "ok"},
		{"length overflow", head("200 OK", "Content-Length: 18446744073709551618") + "ok"},
		{"NUL in a value", head("200 OK", "X-A: b\x00c", "Content-Length: 2") + "ok"},
		{"NUL in a name", head("200 OK", "X\x00A: b", "Content-Length: 2") + "ok"},
		{"two Transfer-Encodings differing", head("200 OK", "Transfer-Encoding: chunked", "Transfer-Encoding: identity") + "2\r\nok\r\n0\r\n\r\n"},
		{"chunked with a word before", head("200 OK", "Transfer-Encoding: xchunked") + "2\r\nok\r\n0\r\n\r\n"},
		{"chunked not last", head("200 OK", "Transfer-Encoding: chunked, gzip") + "2\r\nok\r\n0\r\n\r\n"},
	} {
		ending("strictness", v.name, v.reply, badGateway("secret"))
	}
	out = append(out, Case{Cat: "strictness", Name: "closed before any byte", Send: post("/a", "hello", "Content-Length: 5"), Services: []Script{func(s *Svc) { s.Request(); s.End() }}, Check: badGateway()})
	out = append(out, Case{Cat: "strictness", Name: "reset before any byte", Send: post("/a", "hello", "Content-Length: 5"), Services: []Script{func(s *Svc) { s.Request(); s.Reset() }}, Check: badGateway()})
	ending("strictness", "closed within the head", "HTTP/1.1 200 OK\r\nContent-Le", badGateway())
	ending("strictness", "closed after the status line", "HTTP/1.1 200 OK\r\n", badGateway())
	ending("strictness", "only 100 and then the end", "HTTP/1.1 100 Continue\r\n\r\n", badGateway())
	// Either mended or refused, never passed on as it is: the client's parser in this suite is strict.
	for _, v := range []struct{ name, reply string }{
		{"bare CR in a value", head("200 OK", "X-A: b\rSet-Cookie: evil=1", "Content-Length: 2") + "ok"},
		{"bare LF line ends", "HTTP/1.1 200 OK\nX-A: b\nContent-Length: 2\n\nok"},
		{"bare LF in a value", head("200 OK", "X-A: b\nX-B: c", "Content-Length: 2") + "ok"},
		{"obs-fold", head("200 OK", "X-A: b\r\n c", "Content-Length: 2") + "ok"},
		{"fold with tab", head("200 OK", "X-A: b\r\n\tc", "Content-Length: 2") + "ok"},
		{"space before colon", head("200 OK", "X-A : b", "Content-Length: 2") + "ok"},
		{"space in a name", head("200 OK", "X A: b", "Content-Length: 2") + "ok"},
		{"no colon", head("200 OK", "X-A", "Content-Length: 2") + "ok"},
		{"empty name", head("200 OK", ": b", "Content-Length: 2") + "ok"},
		{"control in a value", head("200 OK", "X-A: b\x01c", "Content-Length: 2") + "ok"},
		{"length and chunked", head("200 OK", "Content-Length: 2", "Transfer-Encoding: chunked") + "2\r\nok\r\n0\r\n\r\n"},
		{"length twice the same", head("200 OK", "Content-Length: 2", "Content-Length: 2") + "ok"},
		{"length list the same", head("200 OK", "Content-Length: 2, 2") + "ok"},
		{"space before colon of length", head("200 OK", "Content-Length : 2") + "ok"},
		{"CR in the reason", "HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok"},
		{"first field begins with space", "HTTP/1.1 200 OK\r\n X-A: b\r\nContent-Length: 2\r\n\r\nok"},
		{"HTTP/1.2", "HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"TE chunked on HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"empty Transfer-Encoding", head("200 OK", "Transfer-Encoding: ", "Content-Length: 2") + "ok"},
		{"high byte in a name", head("200 OK", "X-\xe4: b", "Content-Length: 2") + "ok"},
	} {
		ending("strictness", v.name, v.reply, func(x *X, c *Client) {
			p := c.Recv("GET")
			if p.Status == 502 {
				return
			}
			if p.Status != 200 || !strings.HasPrefix(p.Body, "ok") && !strings.HasPrefix(p.Body, "2\r\nok") && p.Complete {
				x.Errorf("%d %q", p.Status, p.Body)
			}
			for _, v := range p.Fields.All("Set-Cookie") {
				if strings.Contains(v, "evil") {
					x.Errorf("injected %q", v)
				}
			}
		})
	}
	ending("strictness", "head of 2 MiB", head("200 OK", "X-A: "+strings.Repeat("a", 2<<20), "Content-Length: 2")+"ok", badGateway())
	out = append(out, Case{Cat: "strictness", Name: "endless 1xx", Send: get("/a"), Services: []Script{func(s *Svc) {
		s.Request()
		for range 100_000 {
			s.Send("HTTP/1.1 103 Early Hints\r\n\r\n")
		}
		s.End()
	}}, Check: func(x *X, c *Client) {
		for range 100_000 {
			p := c.TryHead()
			if p == nil {
				return
			}
			if p.Status >= 200 {
				if p.Status != 502 {
					x.Errorf("status %d", p.Status)
				}
				return
			}
		}
		x.Errorf("all of them were passed on")
	}, Should: true})
	// Cut answers.
	for _, v := range []struct{ name, reply string }{
		{"length", head("200 OK", "Content-Length: 10") + "hello"},
		{"length, nothing of the body", head("200 OK", "Content-Length: 10")},
		{"chunked within data", head("200 OK", "Transfer-Encoding: chunked") + "a\r\nhello"},
		{"chunked before the last chunk", head("200 OK", "Transfer-Encoding: chunked") + "5\r\nhello\r\n"},
		{"chunked within the last chunk", head("200 OK", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n"},
		{"chunked within a size", head("200 OK", "Transfer-Encoding: chunked") + "5\r\nhello\r\n1"},
		{"chunked, nothing of the body", head("200 OK", "Transfer-Encoding: chunked")},
		{"bad chunk size", head("200 OK", "Transfer-Encoding: chunked") + "5\r\nhello\r\nxyz\r\nhello\r\n0\r\n\r\n"},
		{"chunk overflow", head("200 OK", "Transfer-Encoding: chunked") + "5\r\nhello\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"},
		{"no CRLF after chunk", head("200 OK", "Transfer-Encoding: chunked") + "5\r\nhelloXX5\r\nhello\r\n0\r\n\r\n"},
		{"chunk size with plus", head("200 OK", "Transfer-Encoding: chunked") + "5\r\nhello\r\n+5\r\nhello\r\n0\r\n\r\n"},
	} {
		ending("cut", v.name, v.reply, cut)
		out = append(out, Case{Cat: "cut", Name: v.name + ", by reset", Send: get("/a"), Services: []Script{func(s *Svc) {
			s.Request()
			s.Send(v.reply)
			time.Sleep(settle)
			s.Reset()
		}}, Check: cut})
	}
	out = append(out, Case{Cat: "cut", Name: "until close, by reset", Send: get("/a"), Services: []Script{func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 200 OK\r\n\r\nhello")
		time.Sleep(settle)
		s.Reset()
	}}, Check: cut})
	return append(out, poisonCases()...)
}

func interimCases() []Case {
	var out []Case
	add := func(name string, run func(x *X), services ...Script) {
		out = append(out, Case{Cat: "1xx", Name: name, Run: run, Services: services})
	}
	should := func(name string, run func(x *X), services ...Script) {
		add(name, run, services...)
		out[len(out)-1].Should = true
	}
	const expecting = "POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"

	add("100 of the service reaches the client", func(x *X) {
		c := x.Dial()
		c.Send(expecting)
		if p := c.Head(); p.Status != 100 {
			x.Fatalf("status %d, wanted 100", p.Status)
		}
		c.Send("hello")
		if p := c.Get(); p.Status != 200 || p.Body != "hello" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 100 Continue\r\n\r\n")
		s.Send(response("200 OK", s.Body()))
	}, ok)
	should("the proxy does not say 100 for the service", func(x *X) {
		c := x.Dial()
		c.Send(expecting)
		x.Await("the head", func(r []Req) bool { return len(r) == 1 })
		if p := c.Head(); p.Status != 417 {
			x.Errorf("status %d, wanted the service's 417", p.Status)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("417 Expectation Failed", "no"))
		s.Gone(patience)
		s.End()
	})
	add("refusal instead of 100", func(x *X) {
		c := x.Dial()
		c.Send(expecting)
		p := c.TryRecv("POST")
		if p == nil || p.Status != 401 {
			x.Fatalf("got %v, wanted 401", p)
		}
		v := x.Dial()
		v.Send(get("/victim"))
		if p := v.Get(); p.Body != "for /victim" {
			x.Errorf("the next client got %q", clip(p.Body))
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("401 Unauthorized", "no"))
		s.Gone(patience)
		s.End()
	}, ok)
	add("a client that does not wait for 100", func(x *X) {
		c := x.Dial()
		c.Send(expecting + "hello")
		if p := c.Get(); p.Status != 200 || p.Body != "hello" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 100 Continue\r\n\r\n")
		s.Send(response("200 OK", s.Body()))
	}, ok)
	add("a service that never says 100", func(x *X) {
		c := x.Dial()
		c.Send(expecting)
		// The client waits a while, as RFC 9110 allows, and then sends.
		if !c.Silent(300 * time.Millisecond) {
			if p := c.Head(); p.Status != 100 {
				x.Errorf("status %d", p.Status)
			}
		}
		c.Send("hello")
		if p := c.Get(); p.Status != 200 || p.Body != "hello" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("200 OK", s.Body()))
	})
	add("Expect with empty body", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n")
		if p := c.Get(); p.Status != 200 {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	})
	add("Expect on GET", func(x *X) {
		c := x.Dial()
		c.Send(get("/a", "Expect: 100-continue"))
		if p := c.Get(); p.Status != 200 {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	})
	add("Expect upper case and chunked", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-Continue\r\n\r\n")
		if p := c.Head(); p.Status != 100 {
			x.Fatalf("status %d, wanted 100", p.Status)
		}
		c.Send("5\r\nhello\r\n0\r\n\r\n")
		if p := c.Get(); p.Status != 200 || p.Body != "hello" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 100 Continue\r\n\r\n")
		s.Send(response("200 OK", s.Body()))
	})
	add("Expect from HTTP/1.0 brings no 100", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.0\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello")
		if p := c.Head(); p.Status != 200 {
			x.Errorf("status %d", p.Status)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 100 Continue\r\n\r\n")
		s.Send(response("200 OK", s.Body()))
	})
	add("Expect of something else", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 200-ok\r\n\r\nhello")
		if p := c.Recv("POST"); p.Status != 417 && p.Status != 400 && p.Status != 200 {
			x.Errorf("status %d", p.Status)
		}
	})
	add("unasked 100 is not the answer", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Get(); p.Status != 200 || p.Body != "real" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, Answer("HTTP/1.1 100 Continue\r\n\r\n"+response("200 OK", "real")), ok)
	for _, status := range []string{"103 Early Hints", "102 Processing", "199 Odd"} {
		add(status[:3]+" is not the answer", func(x *X) {
			c := x.Dial()
			c.Send(get("/a"))
			if p := c.Get(); p.Status != 200 || p.Body != "real" || p.Fields.Has("Link") {
				x.Errorf("%d %q %q", p.Status, p.Body, p.Fields)
			}
			c.MustLive()
		}, Answer("HTTP/1.1 "+status+"\r\nLink: </s.css>; rel=preload\r\n\r\n"+response("200 OK", "real")), ok)
	}
	should("103 reaches the client before the answer is made", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Head(); p.Status != 103 || p.Fields.Get("Link") != "</s.css>; rel=preload" {
			x.Fatalf("%d %q", p.Status, p.Fields)
		}
		x.Signal("hinted")
		if p := c.Get(); p.Status != 200 {
			x.Errorf("%d", p.Status)
		}
	}, func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 103 Early Hints\r\nLink: </s.css>; rel=preload\r\n\r\n")
		s.X.Wait("hinted")
		s.Send(response("200 OK", "real"))
	})
	add("several 1xx", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Get(); p.Status != 200 || p.Body != "real" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, Answer(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n", 5)+response("200 OK", "real")), ok)
	add("1xx never reaches HTTP/1.0", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\n\r\n")
		if p := c.Head(); p.Status != 200 {
			x.Errorf("status %d", p.Status)
		}
	}, Answer("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n"+response("200 OK", "real")))
	add("103 for HEAD", func(x *X) {
		c := x.Dial()
		c.Send(newRequest("HEAD", "/a", ""))
		if p := c.Recv("HEAD"); p.Status != 200 || p.Fields.Get("Content-Length") != "4" {
			x.Errorf("%d %q", p.Status, p.Fields)
		}
		c.MustLive()
	}, Answer("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"), ok)
	add("103 with a length has no body", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Get(); p.Status != 200 || p.Body != "real" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, Answer("HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n"+response("200 OK", "real")), ok)
	add("hop-by-hop fields of 103", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		p := c.Get()
		for _, i := range p.Interim {
			if i.Fields.Has("Keep-Alive") || i.Fields.Has("Upgrade") || i.Fields.Has("Content-Length") || i.Fields.Has("Transfer-Encoding") {
				x.Errorf("%q", i.Fields)
			}
		}
	}, Answer("HTTP/1.1 103 Early Hints\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\nLink: </s.css>\r\n\r\n"+response("200 OK", "real")))
	return out
}

// abortCases: one side leaves, completely or by closing half of the connection.
func abortCases() []Case {
	var l caseList

	l.add("aborts", "half-close after the request still gets the answer", func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		c.CloseWrite()
		if p := c.Get(); p.Body != "for /a" {
			x.Errorf("%q", p.Body)
		}
	}, func(s *Svc) {
		q := s.Request()
		time.Sleep(200 * time.Millisecond)
		s.Send(response("200 OK", "for "+q.Target))
	})
	l.add("aborts", "half-close within the head", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.1\r\nHost: x\r\n")
		c.CloseWrite()
		c.Ended()
		if s := x.Seen(); len(s) > 0 {
			x.Errorf("the service saw %s", describe(s))
		}
	})
	l.add("aborts", "half-close within the body", func(x *X) {
		c := x.Dial()
		c.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
		c.CloseWrite()
		neverWhole(x, c)
	})
	noticed := func(name string, send string, leave func(c *Client), service func(s *Svc)) {
		l.add("aborts", name, func(x *X) {
			c := x.Dial()
			c.Send(send)
			x.Wait("there")
			leave(c)
			if !x.Signalled("gone", x.within()) {
				x.Errorf("the service did not learn that the client has left")
			}
		}, service)
	}
	waitGone := func(s *Svc) {
		s.X.Signal("there")
		if s.Gone(patience) {
			s.X.Signal("gone")
		}
		s.End()
	}
	noticed("client resets while the service thinks", get("/a"), (*Client).Abort, func(s *Svc) { s.Request(); waitGone(s) })
	noticed("client closes while the service thinks", get("/a"), func(c *Client) { c.Close() }, func(s *Svc) { s.Request(); waitGone(s) })
	noticed("client resets after an upload", newRequest("POST", "/a", "hello"), (*Client).Abort, func(s *Svc) { s.Request(); waitGone(s) })
	noticed("client resets within an upload", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhello", (*Client).Abort, func(s *Svc) { s.Head(); waitGone(s) })
	noticed("client resets within a chunked upload", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", (*Client).Abort, func(s *Svc) { s.Head(); waitGone(s) })
	stream := func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	}
	noticed("client resets within a quiet stream", get("/a"), (*Client).Abort, func(s *Svc) { stream(s); waitGone(s) })
	noticed("client closes within a quiet stream", get("/a"), func(c *Client) { c.Close() }, func(s *Svc) { stream(s); waitGone(s) })
	noticed("client resets within a busy stream", get("/a"), (*Client).Abort, func(s *Svc) {
		stream(s)
		s.X.Signal("there")
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			s.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := s.Write([]byte("400\r\n" + strings.Repeat("x", 0x400) + "\r\n")); err != nil {
				s.X.Signal("gone")
				break
			}
		}
		s.End()
	})
	l.add("aborts", "an aborted upload is never whole", func(x *X) {
		c := x.Dial()
		c.Send("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		x.Await("the head", func(r []Req) bool { return len(r) == 1 })
		c.Abort()
		r := x.Await("the end of the upload", func(r []Req) bool { return r[0].Err != "" || r[0].Complete })
		if r[0].Complete {
			x.Errorf("%s", describe(r))
		}
	})
	l.add("aborts", "the proxy lives after many aborts", func(x *X) {
		for range 50 {
			c := x.Dial()
			c.Send(get("/a"))
			c.Abort()
		}
		c := x.Dial()
		c.Send(get("/b"))
		if p := c.Get(); p.Body != "for /b" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
	})
	return l
}

// timeoutCases: one side stays silent.
func timeoutCases() []Case {
	var l caseList

	slow := func(name string, level bool, run func(x *X), services ...Script) {
		l.add("timeouts", name, run, services...)
		c := l.last()
		c.Slow, c.Should = true, level
	}
	slow("a head that never ends is given up", true, func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.1\r\nHost: x\r\n")
		stop := time.After(25 * time.Second)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.SetReadDeadline(time.Now().Add(26 * time.Second))
			for {
				if _, err := c.R.ReadByte(); err != nil {
					return
				}
			}
		}()
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			case <-stop:
				x.Errorf("a client may take more than 25 s for one head")
				return
			case <-time.After(500 * time.Millisecond):
				c.Send(fmt.Sprintf("X-%d: slow\r\n", i))
			}
		}
	})
	slow("a slow body is taken", false, func(x *X) {
		c := x.Dial()
		c.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
		for _, b := range []byte("hello") {
			time.Sleep(700 * time.Millisecond)
			c.Send(string(b))
		}
		if p := c.Get(); p.Status != 200 {
			x.Errorf("status %d", p.Status)
		}
	})
	slow("a slow answer is awaited", false, func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Get(); p.Status != 200 {
			x.Errorf("status %d", p.Status)
		}
	}, func(s *Svc) {
		s.Request()
		time.Sleep(4 * time.Second)
		s.Send(response("200 OK", "at last"))
	})
	slow("a slow stream is not cut", false, func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Get(); p.Body != "abc" {
			x.Errorf("%q", p.Body)
		}
	}, func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, b := range "abc" {
			time.Sleep(1500 * time.Millisecond)
			s.Send("1\r\n" + string(b) + "\r\n")
		}
		s.Send("0\r\n\r\n")
	})
	slow("an unused connection lives for three seconds", false, func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		c.Get()
		time.Sleep(3 * time.Second)
		c.MustLive()
	})
	slow("a client that says nothing costs nobody else", false, func(x *X) {
		for range 100 {
			x.Dial()
		}
		c := x.Dial()
		c.Send(get("/a"))
		if p := c.Get(); p.Status != 200 {
			x.Errorf("status %d", p.Status)
		}
	})
	return l
}

// poisonCases: an unrequested answer must not reach the next client.
func poisonCases() []Case {
	var out []Case
	const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
	add := func(name, method, reply string, late time.Duration) {
		out = append(out, Case{Cat: "poisoning", Name: name, Services: []Script{func(s *Svc) {
			s.Request()
			s.Send(reply)
			if late > 0 {
				time.Sleep(late)
				s.Send(poison)
			}
			if s.N == 1 {
				s.X.Signal("poisoned")
			}
		}, ok}, Run: func(x *X) {
			c := x.Dial()
			c.Send(newRequest(method, "/a", ""))
			c.Recv(method)
			x.Wait("poisoned")
			time.Sleep(5 * time.Millisecond)
			for i := range 3 {
				v := x.Dial()
				t := fmt.Sprintf("/victim%d", i)
				v.Send(get(t))
				if p := v.Recv("GET"); p.Body != "for "+t {
					x.Errorf("the next client got %d %q", p.Status, clip(p.Body))
				}
			}
			// The one that asked must not get it either.
			c.Send(get("/mine"))
			if p := c.TryRecv("GET"); p != nil && p.Body != "for /mine" {
				x.Errorf("the same client got %d %q", p.Status, clip(p.Body))
			}
		}})
	}
	add("answer after the answer", "GET", response("200 OK", "a")+poison, 0)
	add("answer after the answer, 2 ms later", "GET", response("200 OK", "a"), 2*time.Millisecond)
	add("answer after the answer, 50 ms later", "GET", response("200 OK", "a"), 50*time.Millisecond)
	add("answer after a chunked answer", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"+poison, 0)
	add("answer after a chunked answer, later", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 10*time.Millisecond)
	add("body of an answer to HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: "+itoa(len(poison))+"\r\n\r\n"+poison, 0)
	add("body of an answer to HEAD, later", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: "+itoa(len(poison))+"\r\n\r\n", 5*time.Millisecond)
	add("chunked body of an answer to HEAD", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"+poison, 0)
	add("body of a 204", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: "+itoa(len(poison))+"\r\n\r\n"+poison, 0)
	add("body of a 204 without length", "GET", "HTTP/1.1 204 No Content\r\n\r\n"+poison, 0)
	add("body of a 304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: "+itoa(len(poison))+"\r\n\r\n"+poison, 0)
	add("body of a 304, later", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: "+itoa(len(poison))+"\r\n\r\n", 5*time.Millisecond)
	add("more than the length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"+poison, 0)
	add("CRLF after the answer", "GET", response("200 OK", "a")+"\r\n", 0)
	add("garbage after the answer", "GET", response("200 OK", "a")+"garbage", 0)
	add("1xx after the answer", "GET", response("200 OK", "a")+"HTTP/1.1 100 Continue\r\n\r\n", 0)
	out = append(out, Case{Cat: "poisoning", Name: "408 on an unused connection", Services: []Script{func(s *Svc) {
		s.Request()
		s.Send(response("200 OK", "a"))
		time.Sleep(5 * time.Millisecond)
		s.Send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		s.X.Signal("408")
		s.End()
	}, ok}, Run: func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		c.Get()
		x.Wait("408")
		time.Sleep(5 * time.Millisecond)
		c.Send(get("/b"))
		if p := c.Recv("GET"); p.Body != "for /b" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
	}})
	out = append(out, Case{Cat: "poisoning", Name: "answer to an aborted request", Services: []Script{func(s *Svc) {
		s.Request()
		s.X.Signal("asked")
		s.X.Wait("aborted")
		time.Sleep(100 * time.Millisecond)
		s.Send(poison)
	}, ok}, Run: func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		x.Wait("asked")
		c.Abort()
		x.Signal("aborted")
		for i := range 5 {
			v := x.Dial()
			t := fmt.Sprintf("/victim%d", i)
			v.Send(get(t))
			if p := v.Recv("GET"); p.Body != "for "+t {
				x.Errorf("the next client got %d %q", p.Status, clip(p.Body))
			}
			time.Sleep(40 * time.Millisecond)
		}
	}})
	out = append(out, Case{Cat: "poisoning", Name: "rest of an answer to a client that left", Services: []Script{func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("x", 100_000))
		s.X.Wait("aborted")
		s.Send(strings.Repeat("x", 200_000))
	}, ok}, Run: func(x *X) {
		c := x.Dial()
		c.Send(get("/a"))
		c.Head()
		c.Abort()
		x.Signal("aborted")
		for i := range 5 {
			v := x.Dial()
			t := fmt.Sprintf("/victim%d", i)
			v.Send(get(t))
			if p := v.Recv("GET"); p.Body != "for "+t {
				x.Errorf("the next client got %d %q", p.Status, clip(p.Body))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}})
	return out
}
