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
