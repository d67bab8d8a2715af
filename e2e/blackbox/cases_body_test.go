package blackbox

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

const wsFields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="

func ws(target string, fields ...string) string {
	return get(target, append([]string{wsFields}, fields...)...)
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func sum(b []byte) string { h := sha256.Sum256(b); return fmt.Sprintf("%x", h[:8]) }

func hashSum(h hash.Hash) string { return fmt.Sprintf("%x", h.Sum(nil)[:8]) }

func streamingCases() []Case {
	var out []Case
	add := func(cat, name string, run func(x *X), services ...Script) *Case {
		out = append(out, Case{Cat: cat, Name: name, Run: run, Services: services})
		return &out[len(out)-1]
	}

	// Answers come as they are made.
	pieces := func(name, headFields string, frame func(string) string, end string, fin bool) {
		add("streaming", name, func(x *X) {
			c := x.Dial()
			c.Send(get("/stream"))
			p := c.Head()
			if p.Status != 200 {
				x.Fatalf("status %d", p.Status)
			}
			x.Signal("head")
			for i := range 3 {
				c.ReadUntil(fmt.Sprintf("piece %d", i))
				x.Signal(fmt.Sprint("got ", i))
			}
		}, func(s *Svc) {
			s.Request()
			s.Send("HTTP/1.1 200 OK\r\n" + headFields + "\r\n")
			s.X.Wait("head") // the head must come before any body
			for i := range 3 {
				s.Send(frame(fmt.Sprintf("piece %d", i)))
				s.X.Wait(fmt.Sprint("got ", i)) // each piece must arrive before the next is sent
			}
			s.Send(end)
			if fin {
				s.End()
			}
		})
	}
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	plain := func(s string) string { return s }
	pieces("chunked answer", "Transfer-Encoding: chunked\r\n", chunk, "0\r\n\r\n", false)
	pieces("server-sent events", "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", func(s string) string { return chunk("data: " + s + "\n\n") }, "0\r\n\r\n", false)
	pieces("answer with length", "Content-Length: 21\r\n", plain, "", false)
	pieces("answer until close", "Connection: close\r\n", plain, "", true)

	// Uploads go on as they come.
	upload := func(name string, fields string, frame func(string) string, end string) {
		add("streaming", name, func(x *X) {
			c := x.Dial()
			c.Send("POST /up HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n")
			for i := range 3 {
				c.Send(frame(fmt.Sprintf("piece %d", i)))
				x.Wait(fmt.Sprint("got ", i))
			}
			c.Send(end)
			if p := c.Get(); p.Status != 200 {
				x.Errorf("status %d", p.Status)
			}
		}, func(s *Svc) {
			s.Head()
			for i := range 3 {
				readUntil(s, fmt.Sprintf("piece %d", i))
				s.X.Signal(fmt.Sprint("got ", i))
			}
			if end != "" {
				readUntil(s, "0\r\n\r\n")
			}
			s.Send(response("200 OK", "ok"))
		})
	}
	upload("upload with length", "Content-Length: 21\r\n", plain, "")
	upload("chunked upload", "Transfer-Encoding: chunked\r\n", chunk, "0\r\n\r\n")
	add("streaming", "duplex: the echo comes while the upload goes on", func(x *X) {
		c := x.Dial()
		c.Send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
		c.Send(chunk("piece 0"))
		if p := c.Head(); p.Status != 200 {
			x.Fatalf("status %d", p.Status)
		}
		for i := range 5 {
			c.ReadUntil(fmt.Sprintf("piece %d", i))
			c.Send(chunk(fmt.Sprintf("piece %d", i+1)))
		}
		c.ReadUntil("piece 5")
		c.Send("0\r\n\r\n")
		c.ReadUntil("0\r\n\r\n")
	}, func(s *Svc) {
		s.Head()
		readUntil(s, "piece 0")
		s.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk("piece 0"))
		for i := 1; i <= 5; i++ {
			readUntil(s, fmt.Sprintf("piece %d", i))
			s.Send(chunk(fmt.Sprintf("piece %d", i)))
		}
		readUntil(s, "0\r\n\r\n")
		s.Send("0\r\n\r\n")
	})

	// Large ones.
	const large = 16 << 20
	data := noise(1 << 20)
	whole := func() string {
		h := sha256.New()
		for range large / len(data) {
			h.Write(data)
		}
		return hashSum(h)
	}()
	download := func(name string, chunked bool) {
		add("streaming", name, func(x *X) {
			c := x.Dial()
			c.Send(get("/big"))
			p := c.Get()
			if got := sum([]byte(p.Body)); len(p.Body) != large || got != whole {
				x.Errorf("%d bytes, hash %s, wanted %s", len(p.Body), got, whole)
			}
			c.MustLive()
		}, func(s *Svc) {
			s.Request()
			if chunked {
				s.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			} else {
				s.Send("HTTP/1.1 200 OK\r\nContent-Length: " + itoa(large) + "\r\n\r\n")
			}
			for range large / len(data) {
				if chunked {
					s.Send(chunk(string(data)))
				} else {
					s.Send(string(data))
				}
			}
			if chunked {
				s.Send("0\r\n\r\n")
			}
		}, ok)
	}
	download("download of 16 MiB with length", false)
	download("download of 16 MiB chunked", true)
	bigUpload := func(name string, chunked bool) {
		add("streaming", name, func(x *X) {
			c := x.Dial()
			if chunked {
				c.Send("POST /big HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
			} else {
				c.Send("POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: " + itoa(large) + "\r\n\r\n")
			}
			for range large / len(data) {
				if chunked {
					c.Send(chunk(string(data)))
				} else {
					c.Send(string(data))
				}
			}
			if chunked {
				c.Send("0\r\n\r\n")
			}
			if p := c.Get(); p.Body != whole {
				x.Errorf("got %q, wanted %s", p.Body, whole)
			}
			c.MustLive()
		}, func(s *Svc) {
			s.Head()
			s.Send(response("200 OK", sum([]byte(s.Body()))))
		}, ok)
	}
	bigUpload("upload of 16 MiB with length", false)
	bigUpload("upload of 16 MiB chunked", true)
	pressure := func(name string, toClient bool) {
		var sent atomic.Int64
		flood := func(c net.Conn) {
			for sent.Load() < 64<<20 {
				c.SetWriteDeadline(time.Now().Add(700 * time.Millisecond))
				n, err := c.Write(data)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		}
		add("streaming", name, func(x *X) {
			sent.Store(0)
			c := x.Dial()
			if toClient {
				c.Send(get("/flood"))
				c.Head()
				x.Wait("flooded")
			} else {
				c.Send("POST /flood HTTP/1.1\r\nHost: x\r\nContent-Length: 268435456\r\n\r\n")
				flood(c.Conn)
			}
			if n := sent.Load(); n >= 64<<20 {
				x.Errorf("the proxy swallowed %d MiB that nobody read", n>>20)
			}
		}, func(s *Svc) {
			s.Head()
			if !toClient {
				<-s.X.done
				s.End()
			}
			s.Send("HTTP/1.1 200 OK\r\nContent-Length: 268435456\r\n\r\n")
			flood(s.Conn)
			s.X.Signal("flooded")
			s.End()
		})
		out[len(out)-1].Slow = true
	}
	pressure("a client that does not read holds the service back", true)
	pressure("a service that does not read holds the client back", false)
	add("streaming", "gzip bytes pass as they are", func(x *X) {
		c := x.Dial()
		c.Send(get("/z", "Accept-Encoding: gzip"))
		if p := c.Get(); p.Body != string(data[:5000]) || p.Fields.Get("Content-Encoding") != "gzip" {
			x.Errorf("%d bytes, %q", len(p.Body), p.Fields.Get("Content-Encoding"))
		}
	}, Answer(response("200 OK", string(data[:5000]), "Content-Encoding: gzip")))

	// Early answers.
	early := func(name, status string, closes bool) {
		add("early answers", name, func(x *X) {
			c := x.Dial()
			c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n" + string(data[:65536]))
			p := c.Recv("POST")
			if fmt.Sprint(p.Status) != status[:3] || p.Body != "too early" {
				x.Errorf("status %d, body %q", p.Status, clip(p.Body))
			}
			v := x.Dial()
			v.Send(get("/victim"))
			if p := v.Get(); p.Body != "for /victim" {
				x.Errorf("the next client got %q", clip(p.Body))
			}
		}, func(s *Svc) {
			s.Head()
			s.Send(response(status, "too early"))
			if closes {
				s.Gone(2 * time.Second)
				s.End()
			}
			_, _ = io.Copy(io.Discard, s.R)
			s.End()
		}, ok)
	}
	early("413 while the upload goes on", "413 Content Too Large", false)
	early("401 while the upload goes on", "401 Unauthorized", false)
	early("200 while the upload goes on", "200 OK", false)
	early("403 and close while the upload goes on", "403 Forbidden", true)
	add("early answers", "401 to a chunked upload", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("hello"))
		if p := c.Recv("POST"); p.Status != 401 || p.Body != "who are you" {
			x.Errorf("status %d, body %q", p.Status, clip(p.Body))
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("401 Unauthorized", "who are you"))
		_, _ = io.Copy(io.Discard, s.R)
		s.End()
	})
	add("early answers", "answer and close while a client still sends", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
		for range 3 {
			c.Send(string(data))
		}
		p := c.Recv("POST")
		if p.Status != 413 || p.Body != "enough" {
			x.Errorf("status %d, body %q", p.Status, clip(p.Body))
		}
	}, func(s *Svc) {
		s.Head()
		s.ReadN(100_000)
		s.Send(response("413 Content Too Large", "enough", "Connection: close"))
		_ = s.Conn.(*net.TCPConn).CloseWrite()
		s.Gone(3 * time.Second)
		s.End()
	})
	add("early answers", "answer and reset while a client still sends", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
		for range 3 {
			c.Send(string(data))
		}
		p := c.TryRecv("POST")
		if p == nil || p.Status != 413 && p.Status != 502 {
			x.Errorf("got %v", p)
		}
	}, func(s *Svc) {
		s.Head()
		s.ReadN(100_000)
		s.Send(response("413 Content Too Large", "enough", "Connection: close"))
		s.End() // with bytes unread: a reset
	})
	add("early answers", "a complete upload after an early answer keeps order", func(x *X) {
		c := x.Dial()
		c.Send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
		if p := c.Recv("POST"); p.Body != "first" {
			x.Errorf("got %q", clip(p.Body))
		}
		c.Send("world" + get("/second"))
		p := c.TryRecv("GET")
		if p != nil && p.Body != "for /second" {
			x.Errorf("the second request got %d %q", p.Status, clip(p.Body))
		}
		for _, q := range x.Seen() {
			if q.Target != "/up" && q.Target != "/second" {
				x.Errorf("the service saw %s", describe(x.Seen()))
			}
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(response("200 OK", "first"))
		s.Body()
	}, ok)
	return out
}

func readUntil(s *Svc, mark string) {
	var b strings.Builder
	s.SetReadDeadline(time.Now().Add(patience))
	for !strings.Contains(b.String(), mark) {
		c, err := s.R.ReadByte()
		if err != nil {
			s.X.Errorf("service waits for %q, got %q: %v", mark, clip(b.String()), err)
			s.End()
		}
		b.WriteByte(c)
	}
}

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
