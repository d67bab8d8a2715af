package blackbox

import (
	"strings"
	"time"
)

// smuggle is what an attacker hides behind the first request.
const smuggle = "GET /smuggled HTTP/1.1\r\nHost: example.test\r\nX-Ignore: x"

func post(target, body string, fields ...string) string {
	return "POST " + target + " HTTP/1.1\r\nHost: " + hostName + "\r\n" + lines(fields) + "\r\n" + body
}

func framingCases() []Case {
	var out []Case
	add := func(cat, name, send string, check Check) {
		out = append(out, Case{Cat: cat, Name: name, Send: send, Check: check})
	}

	// Content-Length.
	add("framing", "CL plain", post("/a", "hello", "Content-Length: 5"), one("hello"))
	add("framing", "CL zero", post("/a", "", "Content-Length: 0"), one(""))
	add("framing", "POST without length", post("/a", ""), refusedOr(one("")))
	add("framing", "GET with CL body", "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", one("hello"))
	add("framing", "DELETE with CL body", "DELETE /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", one("hello"))
	add("framing", "CL surrounded by spaces", post("/a", "hello", "Content-Length:   5  "), one("hello"))
	add("framing", "CL surrounded by tabs", post("/a", "hello", "Content-Length: \t 5 \t"), refusedOr(one("hello")))
	add("framing", "CL lower case", post("/a", "hello", "content-length: 5"), one("hello"))
	add("framing", "CL leading zeros", post("/a", "hello", "Content-Length: 0005"), refusedOr(one("hello")))
	add("framing", "CL many leading zeros", post("/a", "hello", "Content-Length: "+strings.Repeat("0", 40)+"5"), refusedOr(one("hello")))
	for _, v := range []struct{ name, v string }{
		{"plus", "+5"},
		{"minus", "-5"},
		{"minus zero", "-0"},
		{"hex", "0x5"},
		{"two numbers", "5 5"},
		{"fraction", "5.0"},
		{"exponent", "5e0"},
		{"letters after", "5abc"},
		{"letters", "five"},
		{"semicolon", "5;"},
		{"quoted", `"5"`},
		{"underscore", "0_5"},
		{"empty", ""},
		{"comma empty", "5,"},
		{"empty comma", ",5"},
		{"list differing", "5, 6"},
		{"list differing reversed", "6, 5"},
		{"2^63", "9223372036854775808"},
		{"2^64 plus 5", "18446744073709551621"},
		{"twenty nines", "99999999999999999999"},
		{"NUL after", "5\x00"},
		{"vertical tab before", "\v5"},
		{"form feed after", "5\f"},
		{"full width digit", "\uff15"},
		{"no-break space", "\u00a05"},
		{"bare CR after", "5\r "},
	} {
		add("framing", "CL "+v.name, post("/a", "hello", "Content-Length: "+v.v), refused(400, 413))
	}
	add("framing", "CL list same", post("/a", "hello", "Content-Length: 5, 5"), refusedOr(one("hello")))
	add("framing", "CL twice same", post("/a", "hello", "Content-Length: 5", "Content-Length: 5"), refusedOr(one("hello")))
	add("framing", "CL twice differing", post("/a", "hello", "Content-Length: 5", "Content-Length: 6"), refused())
	add("framing", "CL twice differing, zero first", post("/a", smuggle, "Content-Length: 0", "Content-Length: "+itoa(len(smuggle))), refused())
	add("framing", "CL twice differing, zero last", post("/a", smuggle, "Content-Length: "+itoa(len(smuggle)), "Content-Length: 0"), refused())
	add("framing", "CL twice in mixed case", post("/a", "hello", "Content-Length: 5", "CONTENT-LENGTH: 6"), refused())
	add("framing", "CL space before colon", post("/a", "hello", "Content-Length : 5"), refused())
	add("framing", "CL tab before colon", post("/a", "hello", "Content-Length\t: 5"), refused())
	add("framing", "CL folded", post("/a", "hello", "Content-Length:\r\n 5"), refused())
	add("framing", "CL value on next line after LF", post("/a", "hello", "Content-Length:\n 5"), refused())
	add("framing", "CL NUL in name", post("/a", "hello", "Content\x00-Length: 5"), refused())
	add("framing", "CL as first line with leading space", "POST /a HTTP/1.1\r\n Content-Length: 5\r\nHost: x\r\n\r\nhello", refused())
	add("smuggling", "CL underscore look-alike", post("/a", smuggle+"\r\n\r\n", "Content-Length: 0", "Content_Length: "+itoa(len(smuggle)+4)),
		func(x *X, c *Client) {
			// The smuggled text is a second request on the wire, whatever the look-alike says: it may be served as one, but
			// the look-alike must not reach a service that reads it as Content-Length.
			for _, q := range x.Await("a request", func(r []Req) bool { return len(r) > 0 }) {
				if q.Fields.Has("Content_Length") {
					x.Errorf("Content_Length reached the service")
				}
			}
			drain(x, c)
		})

	// Transfer-Encoding.
	const five = "5\r\nhello\r\n0\r\n\r\n"
	add("framing", "TE plain", post("/a", five, "Transfer-Encoding: chunked"), one("hello"))
	for _, v := range []struct{ name, f string }{
		{"upper case", "TRANSFER-ENCODING: CHUNKED"},
		{"mixed case", "tRaNsFeR-eNcOdInG: ChUnKeD"},
		{"no space", "Transfer-Encoding:chunked"},
		{"spaces around", "Transfer-Encoding:   chunked  "},
	} {
		add("framing", "TE "+v.name, post("/a", five, v.f), one("hello"))
	}
	for _, v := range []struct{ name, f string }{
		{"xchunked", "Transfer-Encoding: xchunked"},
		{"chunkedx", "Transfer-Encoding: chunkedx"},
		{"chunk", "Transfer-Encoding: chunk"},
		{"identity", "Transfer-Encoding: identity"},
		{"identity, chunked", "Transfer-Encoding: identity, chunked"},
		{"chunked, identity", "Transfer-Encoding: chunked, identity"},
		{"chunked, chunked", "Transfer-Encoding: chunked, chunked"},
		{"chunked, gzip", "Transfer-Encoding: chunked, gzip"},
		{"gzip", "Transfer-Encoding: gzip"},
		{"gzip, chunked", "Transfer-Encoding: gzip, chunked"},
		{"deflate, chunked", "Transfer-Encoding: deflate, chunked"},
		{"cow", "Transfer-Encoding: cow"},
		{"single quotes", "Transfer-Encoding: 'chunked'"},
		{"double quotes", `Transfer-Encoding: "chunked"`},
		{"parameter", "Transfer-Encoding: chunked;q=1"},
		{"parameter spaced", "Transfer-Encoding: chunked ; foo=bar"},
		{"space inside", "Transfer-Encoding: chun ked"},
		{"vertical tab before", "Transfer-Encoding: \vchunked"},
		{"vertical tab after", "Transfer-Encoding: chunked\v"},
		{"form feed", "Transfer-Encoding: \fchunked"},
		{"NUL after", "Transfer-Encoding: chunked\x00"},
		{"NUL before", "Transfer-Encoding: \x00chunked"},
		{"high byte", "Transfer-Encoding: \xffchunked"},
		{"no-break space", "Transfer-Encoding: \u00a0chunked"},
		{"kelvin sign", "Transfer-Encoding: chun\u212aed"},
		{"long s", "Tran\u017ffer-Encoding: chunked"},
		{"bare CR before", "Transfer-Encoding: \rchunked"},
		{"bare CR after", "Transfer-Encoding: chunked\r\r"},
		{"folded", "Transfer-Encoding:\r\n chunked"},
		{"folded behind another", "X-A: b\r\n Transfer-Encoding: chunked"},
		{"folded after", "Transfer-Encoding: chunked\r\n , identity"},
		{"space before colon", "Transfer-Encoding : chunked"},
		{"tab before colon", "Transfer-Encoding\t: chunked"},
		{"space in name", "Transfer Encoding: chunked"},
		{"NUL in name", "Transfer\x00-Encoding: chunked"},
		{"NUL after name", "Transfer-Encoding\x00: chunked"},
		{"space before name", "X-A: b\r\n Transfer-Encoding: chunked"},
		{"CR before name", "X-A: b\r\n\rTransfer-Encoding: chunked"},
		{"behind bare CR", "X-A: b\rTransfer-Encoding: chunked"},
		{"LF before colon", "Transfer-Encoding\n: chunked"},
		{"CRLF before colon", "Transfer-Encoding\r\n : chunked"},
		{"twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"},
		{"chunked then identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"},
		{"identity then chunked", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"},
		{"cow then chunked", "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked"},
		{"chunked then cow", "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow"},
		{"empty", "Transfer-Encoding:"},
		{"empty then chunked", "Transfer-Encoding:\r\nTransfer-Encoding: chunked"},
		{"comma", "Transfer-Encoding: ,"},
	} {
		add("framing", "TE "+v.name, post("/a", five, v.f), refused(400, 501))
	}
	for _, v := range []struct{ name, f string }{
		{"tabs around", "Transfer-Encoding:\tchunked\t"}, {"empty element first", "Transfer-Encoding: ,chunked"}, {"empty element last", "Transfer-Encoding: chunked,"},
	} {
		add("framing", "TE "+v.name, post("/a", five, v.f), refusedOr(one("hello")))
	}
	add("framing", "TE behind bare LF", post("/a", five, "X-A: b\nTransfer-Encoding: chunked"), refusedOr(one("hello")))
	add("framing", "TE on HTTP/1.0", "POST /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+five, refusedOr(oneClosed("hello")))
	add("framing", "Content-Encoding chunked is no framing", post("/a", "hello", "Content-Encoding: chunked", "Content-Length: 5"), one("hello"))

	// Both.
	both := func(name, body string, fields ...string) {
		add("smuggling", name, post("/a", body, fields...)+"\r\n\r\n"+get("/smuggled"), func(x *X, c *Client) {
			refusedOr(func(x *X, c *Client) {
				// Accepted by RFC 9112 section 6.1: Transfer-Encoding wins, Content-Length is removed, the connection ends.
				once(x, noField("Content-Length"))
				c.Recv("GET")
				c.MustEnd()
			})(x, c)
			noSmuggled(x, c)
		})
	}
	both("CL.TE", "0\r\n\r\n"+smuggle, "Content-Length: 60", "Transfer-Encoding: chunked")
	both("TE.CL", "37\r\n"+smuggle+"\r\n0\r\n\r\n", "Content-Length: 4", "Transfer-Encoding: chunked")
	both("TE before CL", "0\r\n\r\n"+smuggle, "Transfer-Encoding: chunked", "Content-Length: 60")
	both("TE with CL zero", "0\r\n\r\n"+smuggle, "Content-Length: 0", "Transfer-Encoding: chunked")
	both("TE with right CL", five, "Content-Length: 15", "Transfer-Encoding: chunked")
	both("TE with two CL", five, "Content-Length: 15", "Transfer-Encoding: chunked", "Content-Length: 15")
	both("TE with bad CL", five, "Content-Length: x", "Transfer-Encoding: chunked")
	both("TE upper case with CL", "0\r\n\r\n"+smuggle, "CONTENT-LENGTH: 60", "TRANSFER-ENCODING: CHUNKED")
	both("GET with CL and TE", five, "content-length:15", "transfer-encoding:chunked")
	for _, v := range []struct{ name, f string }{
		{"xchunked", "Transfer-Encoding: xchunked"},
		{"space before colon", "Transfer-Encoding : chunked"},
		{"vertical tab", "Transfer-Encoding:\vchunked"},
		{"underscore", "Transfer_Encoding: chunked"},
		{"identity", "Transfer-Encoding: identity"},
		{"quoted", `Transfer-Encoding: "chunked"`},
		{"folded", "Transfer-Encoding:\r\n chunked"},
		{"twice", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked"},
		{"empty", "Transfer-Encoding: "},
		{"hidden behind LF", "X: x\nTransfer-Encoding: chunked"},
		{"hidden behind CR", "X: x\rTransfer-Encoding: chunked"},
	} {
		send := post("/a", "0\r\n\r\n"+smuggle+"\r\n\r\n", "Content-Length: 5", v.f)
		add("smuggling", "TE.TE with CL, "+v.name, send, func(x *X, c *Client) {
			// What follows the five bytes is honestly a second request if the decorated field is no Transfer-Encoding: then
			// that field must not reach the service.
			refusedOr(func(x *X, c *Client) {
				for _, q := range x.Seen() {
					if q.Fields.Has("Transfer-Encoding") || q.Fields.Has("Transfer_Encoding") || strings.Contains(q.Head, "Transfer-Encoding") {
						x.Errorf("the decorated field reached the service: %q", q.Head)
					}
				}
				drain(x, c)
			})(x, c)
		})
	}
	out = append(out, chunkCases()...)
	return append(out, smuggleCases()...)
}

func chunkCases() []Case {
	var out []Case
	add := func(name, raw string, check Check) {
		out = append(out, Case{Cat: "chunks", Name: name, Send: chunkedPost("/a", raw), Check: check})
	}
	add("several", "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", one("hello"))
	add("upper and lower hex", "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", one("01234567890123456789"))
	add("leading zeros", "0005\r\nhello\r\n0\r\n\r\n", brokenOr(one("hello")))
	add("last chunk of several zeros", "5\r\nhello\r\n000\r\n\r\n", brokenOr(one("hello")))
	add("extension", "5;a\r\nhello\r\n0\r\n\r\n", brokenOr(one("hello")))
	add("extension with value", "5;a=b\r\nhello\r\n0;c=d\r\n\r\n", brokenOr(one("hello")))
	add("extension quoted", "5;a=\"b c\"\r\nhello\r\n0\r\n\r\n", brokenOr(one("hello")))
	add("white space before extension", "5 ;a=b\r\nhello\r\n0\r\n\r\n", brokenOr(one("hello")))
	add("trailing space", "5 \r\nhello\r\n0\r\n\r\n", brokenOr(one("hello")))
	add("trailing tab", "5\t\r\nhello\r\n0\r\n\r\n", brokenOr(one("hello")))
	add("empty body", "0\r\n\r\n", one(""))
	add("data that looks like chunks", "f\r\n0\r\n\r\nGET /x HTT\r\n0\r\n\r\n", one("0\r\n\r\nGET /x HTT"))
	for _, v := range []struct{ name, raw string }{
		{"LF after size", "5\nhello\r\n0\r\n\r\n"},
		{"LF after data", "5\r\nhello\n0\r\n\r\n"},
		{"LF everywhere", "5\nhello\n0\n\n"},
		{"LF at the very end", "5\r\nhello\r\n0\r\n\n"},
		{"LF after last size", "5\r\nhello\r\n0\n\r\n"},
		{"bare LF in extension", "5;a\nhello\r\n0\r\n\r\n"},
	} {
		add(v.name, v.raw, brokenOr(one("hello")))
	}
	for _, v := range []struct{ name, raw string }{
		{"0x prefix", "0x5\r\nhello\r\n0\r\n\r\n"},
		{"plus", "+5\r\nhello\r\n0\r\n\r\n"},
		{"minus", "-5\r\nhello\r\n0\r\n\r\n"},
		{"minus zero", "-0\r\n\r\n"},
		{"leading space", " 5\r\nhello\r\n0\r\n\r\n"},
		{"leading tab", "\t5\r\nhello\r\n0\r\n\r\n"},
		{"empty size", "\r\nhello\r\n0\r\n\r\n"},
		{"only extension", ";a=b\r\nhello\r\n0\r\n\r\n"},
		{"letter g", "g\r\nhello\r\n0\r\n\r\n"},
		{"underscore", "0_5\r\nhello\r\n0\r\n\r\n"},
		{"fraction", "5.0\r\nhello\r\n0\r\n\r\n"},
		{"comma", "5,5\r\nhello\r\n0\r\n\r\n"},
		{"quoted", "\"5\"\r\nhello\r\n0\r\n\r\n"},
		{"h suffix", "5h\r\nhello\r\n0\r\n\r\n"},
		{"letters after space", "5 x\r\nhello\r\n0\r\n\r\n"},
		{"NUL in size", "5\x00\r\nhello\r\n0\r\n\r\n"},
		{"overflow 2^64 plus 5", "10000000000000005\r\nhello\r\n0\r\n\r\n"},
		{"overflow 2^32 plus 5 of 64 bits", "8000000000000005\r\nhello\r\n0\r\n\r\n"},
		{"all ones", "ffffffffffffffff\r\nhello\r\n0\r\n\r\n"},
		{"no CRLF after data", "5\r\nhello0\r\n\r\n"},
		{"data longer than size", "5\r\nhelloX\r\n0\r\n\r\n"},
		{"data shorter than size", "6\r\nhello\r\n0\r\n\r\n"},
		{"CR only after data", "5\r\nhello\r0\r\n\r\n"},
		{"CR CR LF after data", "5\r\nhello\r\r\n0\r\n\r\n"},
		{"two bytes instead of CRLF", "5\r\nhelloXX0\r\n\r\n"},
		{"CR in size line", "5\rX\r\nhello\r\n0\r\n\r\n"},
		{"CR in extension", "5;a\rb\r\nhello\r\n0\r\n\r\n"},
		{"not hex at all", "GET /smuggled HTTP/1.1\r\n\r\n"},
		{"zero with letters", "0g\r\n\r\n"},
		{"NUL in extension", "5;a\x00b\r\nhello\r\n0\r\n\r\n"},
	} {
		add(v.name, v.raw, neverWhole)
	}
	add("endless size of zeros", strings.Repeat("0", 1<<20)+"5\r\nhello\r\n0\r\n\r\n", brokenOr(one("hello")))
	add("extension of 1 MiB", "5;"+strings.Repeat("a", 1<<20)+"\r\nhello\r\n0\r\n\r\n", brokenOr(one("hello")))
	out = append(out, Case{Cat: "chunks", Name: "a thousand of one byte", Send: chunkedPost("/a", strings.Repeat("1\r\nx\r\n", 1000)+"0\r\n\r\n"), Check: one(strings.Repeat("x", 1000))})
	for name, raw := range map[string]string{
		"end inside size": "5", "end inside data": "5\r\nhel", "end before last chunk": "5\r\nhello\r\n", "end inside last chunk": "5\r\nhello\r\n0\r\n",
	} {
		out = append(out, Case{Cat: "chunks", Name: name, Run: func(x *X) {
			c := x.Dial()
			c.Send(chunkedPost("/a", raw))
			c.CloseWrite()
			neverWhole(x, c)
		}})
	}
	return out
}

func smuggleCases() []Case {
	var out []Case
	add := func(name, send string, check Check) {
		out = append(out, Case{Cat: "smuggling", Name: name, Send: send, Check: check})
	}
	// What looks like a request inside a body is body.
	add("request in CL body", post("/a", smuggle+"\r\n\r\n", "Content-Length: "+itoa(len(smuggle)+4)), one(smuggle+"\r\n\r\n"))
	add("request in chunk", chunkedPost("/a", "5a\r\n"+smuggle+strings.Repeat("x", 0x5a-len(smuggle))+"\r\n0\r\n\r\n"),
		one(smuggle+strings.Repeat("x", 0x5a-len(smuggle))))
	add("request in GET body", "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: "+itoa(len(smuggle))+"\r\n\r\n"+smuggle, one(smuggle))
	add("request in HEAD body", "HEAD /a HTTP/1.1\r\nHost: x\r\nContent-Length: "+itoa(len(smuggle))+"\r\n\r\n"+smuggle, func(x *X, c *Client) {
		c.Recv("HEAD")
		once(x)
		noSmuggled(x, c)
	})
	add("request in OPTIONS body", "OPTIONS /a HTTP/1.1\r\nHost: x\r\nContent-Length: "+itoa(len(smuggle))+"\r\n\r\n"+smuggle, one(smuggle))
	add("request in trailer section", chunkedPost("/a", "0\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"), func(x *X, c *Client) {
		neverWhole(x, c)
		noSmuggled(x, c)
	})
	for _, v := range []struct{ name, trailer string }{
		{"space before colon", "X-T : a"}, {"no colon", "X-T"}, {"folded", "X-T: a\r\n b"}, {"NUL", "X-T: a\x00b"}, {"bare CR", "X-T: a\rb"}, {"empty name", ": a"},
	} {
		add("bad trailer, "+v.name, chunkedPost("/a", "5\r\nhello\r\n0\r\n"+v.trailer+"\r\n\r\n"), brokenOr(func(x *X, c *Client) {
			one("hello")(x, c)
			for _, q := range x.Seen() {
				if len(q.Trailer) > 0 {
					x.Errorf("a malformed trailer reached the service: %q", q.Trailer)
				}
			}
		}))
	}
	for _, name := range []string{"Host: evil", "Content-Length: 100", "Transfer-Encoding: chunked", "X-Forwarded-For: 6.6.6.6", "Authorization: Basic eDp5", "Cookie: a=b", "Connection: close"} {
		add("trailer "+name, chunkedPost("/a", "5\r\nhello\r\n0\r\n"+name+"\r\n\r\n"), brokenOr(func(x *X, c *Client) {
			one("hello")(x, c)
			n, _, _ := strings.Cut(name, ":")
			for _, q := range x.Seen() {
				if q.Trailer.Has(n) {
					x.Errorf("the trailer %s reached the service", n)
				}
				if strings.Contains(q.Head, name) && n != "Transfer-Encoding" && n != "Connection" {
					x.Errorf("the trailer %s became a header", n)
				}
			}
		}))
	}
	add("upgrade request with body", newRequest("GET", "/a", smuggle, "Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), func(x *X, c *Client) {
		refusedOr(one(smuggle))(x, c)
		noSmuggled(x, c)
	})
	// A body that the service did not wait for is not left behind on its connection.
	out = append(out, Case{Cat: "smuggling", Name: "0.CL: early answer, body follows later", Services: []Script{
		func(s *Svc) {
			s.Head()
			s.Send(response("200 OK", "early"))
			// A service that takes the rest for a new request would read it here.
			for {
				h, err := readHeadBytes(s.R)
				if err != nil {
					return
				}
				if q := parseRequestHead(h); strings.HasPrefix(q.Target, "/victim") && s.N == 1 {
					s.X.Errorf("the connection with an unfinished body was used again")
				}
			}
		}, ok,
	}, Run: func(x *X) {
		c := x.Dial()
		c.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: " + itoa(len(smuggle)+4) + "\r\n\r\n")
		if p := c.Recv("POST"); p.Body != "early" {
			x.Errorf("got %d %q", p.Status, p.Body)
		}
		v := x.Dial()
		v.Send(get("/victim"))
		if p := v.Get(); p.Body != "for /victim" {
			x.Errorf("the next client got %q", p.Body)
		}
		c.Send(smuggle + "\r\n\r\n")
		noSmuggled(x, c)
	}})
	// A body that comes after its answer is still a body, never a request.
	late := func(name, fields string, wait bool) {
		hidden := smuggle + "\r\n\r\n"
		out = append(out, Case{Cat: "smuggling", Name: name, Services: []Script{func(s *Svc) {
			s.Head()
			s.Send(response("401 Unauthorized", "no"))
			s.Gone(patience)
			s.End()
		}, ok}, Run: func(x *X) {
			c := x.Dial()
			c.Send("POST /a HTTP/1.1\r\nHost: x\r\n" + fields + "Content-Length: " + itoa(len(hidden)) + "\r\n\r\n")
			p := c.TryRecv("POST")
			if p == nil || p.Status != 401 {
				x.Fatalf("wanted 401")
			}
			if wait {
				time.Sleep(50 * time.Millisecond)
			}
			c.Send(hidden)
			noSmuggled(x, c)
		}})
	}
	late("body after a refused expectation", "Expect: 100-continue\r\n", false)
	late("body some time after a refused expectation", "Expect: 100-continue\r\n", true)
	late("body after an early answer", "", false)
	late("body some time after an early answer", "", true)
	return out
}
