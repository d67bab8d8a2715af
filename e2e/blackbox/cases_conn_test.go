package blackbox

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// keepAliveCases: one connection carries many requests.
func keepAliveCases() []Case {
	var l caseList

	l.add("keep-alive", "twenty requests on one connection", func(x *X) {
		c := x.Dial()
		for i := range 20 {
			t := fmt.Sprintf("/n%d", i)
			c.Send(get(t))
			if p := c.Get(); p.Body != "for "+t {
				x.Fatalf("request %d got %q", i, p.Body)
			}
		}
	})
	l.should("keep-alive", "the service's connection is used again", func(x *X) {
		c := x.Dial()
		for range 10 {
			c.Send(get("/a"))
			c.Get()
		}
		if s := x.Seen(); s[len(s)-1].Conn > 2 {
			x.Errorf("%d connections for ten requests", s[len(s)-1].Conn)
		}
	})
	l.add("keep-alive", "after POST", func(x *X) {
		c := x.Dial()
		for range 3 {
			c.Send(newRequest("POST", "/a", "hello"))
			c.Get()
			c.Send(chunkedPost("/a", "5\r\nhello\r\n0\r\n\r\n"))
			c.Get()
		}
		for _, q := range x.Seen() {
			if q.Body != "hello" {
				x.Errorf("%s", describe([]Req{q}))
			}
		}
	})
	for _, v := range []string{"close", "Close", "keep-alive, close", "close, x-foo"} {
		l.add("keep-alive", "client says "+v, func(x *X) {
			c := x.Dial()
			c.Send(get("/a", "Connection: "+v))
			if p := c.Get(); p.Body != "for /a" {
				x.Errorf("%d %q", p.Status, p.Body)
			}
			c.MustEnd()
		})
	}
	l.add("keep-alive", "what follows a close is not served", func(x *X) {
		c := x.Dial()
		c.Send(get("/a", "Connection: close") + get("/b"))
		c.Get()
		c.MustEnd()
		for _, q := range x.Seen() {
			if q.Target == "/b" {
				x.Errorf("it was")
			}
		}
	})
	l.add("keep-alive", "closed after 400, nothing more is read", func(x *X) {
		c := x.Dial()
		c.Send("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n" + get("/smuggled"))
		refused()(x, c)
	})
	l.add("keep-alive", "good, then bad", func(x *X) {
		c := x.Dial()
		c.Send(get("/a") + "GET /b\r\n\r\n")
		if p := c.Get(); p.Body != "for /a" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		if p := c.TryRecv("GET"); p != nil && p.Status != 400 {
			x.Errorf("status %d", p.Status)
		}
		c.MustEnd()
	})
	l.add("keep-alive", "HTTP/1.0 closes", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\n\r\n")
		if p := c.Get(); p.Body != "for /a" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustEnd()
	})
	l.should("keep-alive", "HTTP/1.0 with keep-alive", func(x *X) {
		c := x.Dial()
		for range 3 {
			c.Send("GET /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
			p := c.Get()
			if p.Body != "for /a" || !strings.EqualFold(p.Fields.Get("Connection"), "keep-alive") {
				x.Errorf("%d %q %q", p.Status, p.Body, p.Fields.Get("Connection"))
			}
		}
	})
	l.add("HTTP/1.0", "asks the service in HTTP/1.1 with a Host", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: example.test\r\n\r\n")
		c.Get()
		once(x, field("Host", "example.test"), func(x *X, q *Req) {
			if q.Proto != "HTTP/1.1" {
				x.Errorf("%s", q.Proto)
			}
		})
	})
	l.add("HTTP/1.0", "without Host", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\n\r\n")
		if p := c.Recv("GET"); p.Status == 200 {
			once(x) // with exactly one Host
		} else if p.Status != 400 {
			x.Errorf("status %d", p.Status)
		}
	})
	l.add("HTTP/1.0", "never gets chunks", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\n\r\n")
		p := c.Get()
		if p.Body != "hello" || p.Fields.Has("Transfer-Encoding") {
			x.Errorf("%q %q", p.Head, p.Body)
		}
		c.MustEnd()
	}, Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	l.add("HTTP/1.0", "never gets chunks, with keep-alive", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
		p := c.Get()
		if p.Body != "hello" || p.Fields.Has("Transfer-Encoding") {
			x.Errorf("%q %q", p.Head, p.Body)
		}
	}, Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	l.add("HTTP/1.0", "POST with length", func(x *X) {
		c := x.Dial()
		c.Send("POST /a HTTP/1.0\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		one("hello")(x, c)
	})
	l.add("HTTP/1.0", "cut chunked answer does not look whole", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\n\r\n")
		p := c.TryRecv("GET")
		if p != nil && p.Complete && p.Status == 200 {
			x.Errorf("ended like a whole one: %q", p.Body)
		}
	}, AnswerAndEnd("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"))
	l.last().Should = true
	return l
}

// retryCases: a service closes connections while they are unused.
func retryCases() []Case {
	var l caseList

	stale := func(name, send, want string, first Script) {
		l.add("retry", name, func(x *X) {
			c := x.Dial()
			c.Send(get("/first"))
			c.Get()
			x.Wait("closed")
			time.Sleep(10 * time.Millisecond)
			c.Send(send)
			if p := c.Recv("GET"); p.Status != 200 || p.Body != want {
				x.Errorf("%d %q", p.Status, clip(p.Body))
			}
		}, first, ok)
	}
	closing := func(s *Svc) {
		ok(s)
		s.Conn.Close()
		s.X.Signal("closed")
		s.End()
	}
	resetting := func(s *Svc) {
		ok(s)
		time.Sleep(10 * time.Millisecond)
		defer s.X.Signal("closed")
		s.Reset()
	}
	stale("GET after the service closed its unused connection", get("/second"), "for /second", closing)
	stale("GET after the service reset its unused connection", get("/second"), "for /second", resetting)
	stale("POST after the service closed its unused connection", newRequest("POST", "/second", "hello"), "for /second", closing)
	stale("chunked POST after the service closed its unused connection", chunkedPost("/second", "5\r\nhello\r\n0\r\n\r\n"), "for /second", closing)
	counting := func(name, send string, most int, level bool) {
		l.add("retry", name, func(x *X) {
			c := x.Dial()
			c.Send(get("/warm"))
			c.Get()
			c.Send(send)
			p := c.TryRecv("GET")
			if p != nil && p.Status != 502 && p.Status != 504 {
				x.Errorf("status %d", p.Status)
			}
			time.Sleep(settle)
			n := 0
			for _, q := range x.Seen() {
				if q.Target == "/once" {
					n++
				}
			}
			if n > most {
				x.Errorf("the service got the request %d times", n)
			}
		}, ok, func(s *Svc) {
			s.Request()
			s.End()
		})
		l.last().Should = level
	}
	counting("POST is never sent twice", newRequest("POST", "/once", "hello"), 1, false)
	counting("POST without body is never sent twice", newRequest("POST", "/once", "", "Content-Length: 0"), 1, false)
	counting("PATCH is never sent twice", newRequest("PATCH", "/once", "hello"), 1, false)
	counting("PUT with body is not sent twice", newRequest("PUT", "/once", "hello"), 1, false)
	counting("GET is sent at most twice", get("/once"), 2, false)
	counting("GET with body is not sent twice", newRequest("GET", "/once", "hello"), 1, false)
	l.add("retry", "no second try after the answer began", func(x *X) {
		c := x.Dial()
		c.Send(get("/warm"))
		c.Get()
		c.Send(get("/once"))
		c.TryRecv("GET")
		time.Sleep(settle)
		if n := len(x.Seen()); n != 2 {
			x.Errorf("the service got %d requests", n)
		}
	}, ok, func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 200 OK\r\nContent-")
		s.End()
	})
	return l
}

// pipeliningCases: requests that arrive before the earlier ones have been answered.
func pipeliningCases() []Case {
	var l caseList

	for _, n := range []int{2, 3, 10, 50} {
		l.add("pipelining", fmt.Sprintf("%d GETs", n), func(x *X) {
			c := x.Dial()
			var b strings.Builder
			for i := range n {
				b.WriteString(get(fmt.Sprintf("/n%d", i)))
			}
			c.Send(b.String())
			for i := range n {
				if p := c.Get(); p.Body != fmt.Sprintf("for /n%d", i) {
					x.Fatalf("answer %d is %q", i, p.Body)
				}
			}
		})
	}
	l.add("pipelining", "with bodies", func(x *X) {
		c := x.Dial()
		c.Send(newRequest("POST", "/a", "hello") + get("/b") + chunkedPost("/c", "5\r\nhello\r\n0\r\n\r\n") + newRequest("PUT", "/d", "x") + get("/e"))
		for _, t := range []string{"/a", "/b", "/c", "/d", "/e"} {
			if p := c.Get(); p.Body != "for "+t {
				x.Errorf("%s got %q", t, p.Body)
			}
		}
	})
	l.add("pipelining", "slow first", func(x *X) {
		c := x.Dial()
		c.Send(get("/a") + get("/b"))
		for _, t := range []string{"/a", "/b"} {
			if p := c.Get(); p.Body != "for "+t {
				x.Errorf("%s got %q", t, p.Body)
			}
		}
	}, func(s *Svc) {
		q := s.Request()
		time.Sleep(100 * time.Millisecond)
		s.Send(response("200 OK", "for "+q.Target))
	}, ok)
	l.add("pipelining", "HEAD among GETs", func(x *X) {
		c := x.Dial()
		c.Send(get("/a") + newRequest("HEAD", "/b", "") + get("/c"))
		c.Get()
		if p := c.Recv("HEAD"); p.Fields.Get("Content-Length") != "6" {
			x.Errorf("%q", p.Head)
		}
		if p := c.Get(); p.Body != "for /c" {
			x.Errorf("%q", p.Body)
		}
	}, ok, func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n")
	}, ok)
	l.add("pipelining", "then half-close", func(x *X) {
		c := x.Dial()
		c.Send(get("/a") + get("/b"))
		c.CloseWrite()
		for _, t := range []string{"/a", "/b"} {
			if p := c.Get(); p.Body != "for "+t {
				x.Errorf("%s got %q", t, p.Body)
			}
		}
		c.MustEnd()
	})
	l.add("pipelining", "request cut in two", func(x *X) {
		c := x.Dial()
		all := get("/a") + get("/b")
		c.Send(all[:len(all)-10])
		if p := c.Get(); p.Body != "for /a" {
			x.Errorf("%q", p.Body)
		}
		c.Send(all[len(all)-10:])
		if p := c.Get(); p.Body != "for /b" {
			x.Errorf("%q", p.Body)
		}
	})
	l.add("pipelining", "byte by byte", func(x *X) {
		c := x.Dial()
		for _, b := range []byte(newRequest("POST", "/a", "hello") + get("/b")) {
			c.Send(string(b))
		}
		for _, t := range []string{"/a", "/b"} {
			if p := c.Get(); p.Body != "for "+t {
				x.Errorf("%s got %q", t, p.Body)
			}
		}
	})
	l.add("pipelining", "CRLF between requests", func(x *X) {
		c := x.Dial()
		c.Send(newRequest("POST", "/a", "hello") + "\r\n")
		c.Get()
		c.Send(get("/b"))
		if p := c.TryRecv("GET"); p != nil && p.Body != "for /b" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
	})
	l.add("pipelining", "many clients get their own answers", func(x *X) {
		var wg sync.WaitGroup
		for i := range 16 {
			c := x.Dial()
			wg.Go(func() {
				defer func() {
					if e := recover(); e != nil {
						if _, ok := e.(caseEnd); !ok {
							panic(e)
						}
					}
				}()
				for j := range 20 {
					t := fmt.Sprintf("/c%d/%d", i, j)
					c.Send(get(t))
					if p := c.Get(); p.Body != "for "+t {
						x.Errorf("%s got %q", t, p.Body)
					}
				}
			})
		}
		wg.Wait()
	})
	return l
}

func upgradeCases() []Case {
	var out []Case
	add := func(name string, run func(x *X), services ...Script) {
		out = append(out, Case{Cat: "upgrade", Name: name, Run: run, Services: services})
	}
	echo := func(s *Svc) {
		s.Head()
		s.Send(switching)
		b := make([]byte, 64<<10)
		s.SetReadDeadline(time.Now().Add(patience))
		for {
			n, err := s.R.Read(b)
			if err != nil {
				s.End()
			}
			s.Send(string(b[:n]))
		}
	}
	open := func(x *X) *Client {
		c := x.Dial()
		c.Send(ws("/ws"))
		if p := c.Head(); p.Status != 101 || !strings.EqualFold(p.Fields.Get("Upgrade"), "websocket") || !strings.EqualFold(p.Fields.Get("Connection"), "upgrade") || p.Fields.Get("Sec-WebSocket-Accept") == "" {
			x.Fatalf("status %d, %q", p.Status, p.Fields)
		}
		return c
	}

	add("WebSocket echoes", func(x *X) {
		c := open(x)
		for _, m := range []string{"a", "\x00\xff\r\n\r\n", strings.Repeat("z", 100_000)} {
			go c.Send(m)
			if got := c.ReadN(len(m)); got != m {
				x.Errorf("got %q", clip(got))
			}
		}
		once := x.Seen()
		if len(once) != 1 || !strings.EqualFold(once[0].Fields.Get("Upgrade"), "websocket") || !strings.Contains(strings.ToLower(once[0].Fields.Get("Connection")), "upgrade") ||
			once[0].Fields.Get("Sec-WebSocket-Key") != "dGhlIHNhbXBsZSBub25jZQ==" || once[0].Fields.Get("Sec-WebSocket-Version") != "13" {
			x.Errorf("the service saw %s", describe(once))
		}
	}, echo)
	add("WebSocket with more fields", func(x *X) {
		c := x.Dial()
		c.Send(ws("/ws", "Sec-WebSocket-Protocol: chat, superchat", "Sec-WebSocket-Extensions: permessage-deflate", "Origin: http://example.test"))
		if p := c.Head(); p.Status != 101 || p.Fields.Get("Sec-WebSocket-Protocol") != "chat" {
			x.Errorf("%d %q", p.Status, p.Fields)
		}
		q := x.Seen()[0]
		field("Sec-WebSocket-Protocol", "chat, superchat")(x, &q)
		field("Sec-WebSocket-Extensions", "permessage-deflate")(x, &q)
		field("Origin", "http://example.test")(x, &q)
	}, func(s *Svc) {
		s.Head()
		s.Send(strings.Replace(switching, "\r\n\r\n", "\r\nSec-WebSocket-Protocol: chat\r\n\r\n", 1))
		<-s.X.done
		s.End()
	})
	add("Connection with keep-alive and Upgrade", func(x *X) {
		c := x.Dial()
		c.Send(get("/ws", strings.Replace(wsFields, "Connection: Upgrade", "Connection: keep-alive, Upgrade", 1)))
		if p := c.Head(); p.Status != 101 {
			x.Fatalf("status %d", p.Status)
		}
		c.Send("ping")
		c.ReadN(4)
	}, echo)
	add("names in odd case", func(x *X) {
		c := x.Dial()
		c.Send(get("/ws", "connection: upgrade", "upgrade: WebSocket", "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="))
		if p := c.Head(); p.Status != 101 {
			x.Fatalf("status %d", p.Status)
		}
		c.Send("ping")
		c.ReadN(4)
	}, echo)
	add("service's early bytes come with the 101", func(x *X) {
		c := open(x)
		if got := c.ReadN(5); got != "early" {
			x.Errorf("got %q", got)
		}
		c.Send("late")
		if got := c.ReadN(4); got != "late" {
			x.Errorf("got %q", got)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(switching + "early")
		s.Send(s.ReadN(4))
		<-s.X.done
		s.End()
	})
	add("client's early bytes come with the request", func(x *X) {
		c := x.Dial()
		c.Send(ws("/ws") + "early")
		if p := c.Head(); p.Status != 101 {
			x.Fatalf("status %d", p.Status)
		}
		if got := c.ReadN(5); got != "early" {
			x.Errorf("got %q", got)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(switching)
		s.Send(s.ReadN(5))
		<-s.X.done
		s.End()
	})
	add("early bytes of a refused upgrade are no tunnel", func(x *X) {
		c := x.Dial()
		c.Send(ws("/ws") + get("/next"))
		if p := c.Get(); p.Status != 403 || p.Body != "no" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		p := c.TryRecv("GET") // served as a request, or the connection is closed
		if p != nil && p.Body != "for /next" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
	}, func(s *Svc) {
		s.Request()
		s.Send(response("403 Forbidden", "no"))
	}, ok)
	add("refused upgrade keeps the connection", func(x *X) {
		c := x.Dial()
		c.Send(ws("/ws"))
		if p := c.Get(); p.Status != 426 || p.Body != "no" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, Answer(response("426 Upgrade Required", "no")), ok)
	add("answered with 200", func(x *X) {
		c := x.Dial()
		c.Send(ws("/ws"))
		if p := c.Get(); p.Status != 200 || p.Body != "plain" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustLive()
	}, Answer(response("200 OK", "plain")), ok)
	add("service ends the tunnel", func(x *X) {
		c := open(x)
		if got := c.ReadN(3); got != "bye" {
			x.Errorf("got %q", got)
		}
		c.MustEnd()
	}, func(s *Svc) {
		s.Head()
		s.Send(switching + "bye")
		s.End()
	})
	add("client ends the tunnel", func(x *X) {
		c := open(x)
		c.Send("hi")
		c.ReadN(2)
		c.Close()
		if !x.Signalled("gone", x.within()) {
			x.Errorf("the service never saw the end")
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(switching)
		s.Send(s.ReadN(2))
		if s.Gone(patience) {
			s.X.Signal("gone")
		}
		s.End()
	})
	add("client resets the tunnel", func(x *X) {
		c := open(x)
		c.Abort()
		if !x.Signalled("gone", x.within()) {
			x.Errorf("the service never saw the end")
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(switching)
		if s.Gone(patience) {
			s.X.Signal("gone")
		}
		s.End()
	})
	add("half-close towards the service", func(x *X) {
		c := open(x)
		c.Send("last words")
		c.CloseWrite()
		if got := c.ReadN(10); got != "LAST WORDS" {
			x.Errorf("got %q", got)
		}
	}, func(s *Svc) {
		s.Head()
		s.Send(switching)
		w := s.ReadN(10)
		s.Send(strings.ToUpper(w))
		s.End()
	})
	add("a mebibyte both ways at once", func(x *X) {
		c := open(x)
		data := string(noise(1 << 20))
		go c.Send(data)
		if got := c.ReadN(len(data)); sum([]byte(got)) != sum([]byte(data)) {
			x.Errorf("not what was sent")
		}
	}, echo)
	add("frames arrive at once", func(x *X) {
		c := open(x)
		for range 50 {
			c.Send("p")
			c.ReadN(1)
		}
	}, echo)

	// What is no WebSocket handshake.
	stripped := func(name, send string) {
		out = append(out, Case{Cat: "upgrade", Name: name, Send: send, Check: refusedOr(forwarded(noField("Upgrade", "HTTP2-Settings"), func(x *X, q *Req) {
			if strings.Contains(strings.ToLower(q.Fields.Get("Connection")), "upgrade") {
				x.Errorf("Connection: %q reached the service", q.Fields.Get("Connection"))
			}
		}))})
	}
	stripped("h2c is not passed on", get("/a", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"))
	stripped("h2c without its settings nominated", get("/a", "Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"))
	stripped("h2c upper case", get("/a", "Connection: upgrade, http2-settings", "Upgrade: H2C", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"))
	stripped("TLS", get("/a", "Connection: Upgrade", "Upgrade: TLS/1.0"))
	stripped("unknown protocol", get("/a", "Connection: Upgrade", "Upgrade: foo/2"))
	stripped("websocket and h2c", get("/a", "Connection: Upgrade", "Upgrade: websocket, h2c", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
	stripped("websocket without nomination", get("/a", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
	stripped("websocket from HTTP/1.0", strings.Replace(ws("/a"), "HTTP/1.1", "HTTP/1.0", 1))
	for i := len(out) - 3; i < len(out); i++ {
		out[i].Should = true
	}

	unasked := func(name, send, reply string) {
		out = append(out, Case{Cat: "upgrade", Name: name, Send: send, Services: []Script{Answer(reply), ok}, Check: func(x *X, c *Client) {
			p := c.TryRecv("GET")
			if p != nil && p.Status != 502 {
				x.Errorf("status %d, wanted 502", p.Status)
			}
			if p == nil {
				x.Errorf("closed without an answer, wanted 502")
			}
			// Never a tunnel.
			c.Send("GET /tunnelled HTTP/1.1\r\nHost: evil\r\n\r\n")
			time.Sleep(settle)
			for _, q := range x.Seen() {
				if strings.Contains(q.Head, "evil") && !q.Fields.Has("X-Real-IP") {
					x.Errorf("raw bytes reached the service")
				}
			}
		}})
	}
	unasked("101 that nobody asked for", get("/a"), switching)
	unasked("101 to h2c", get("/a", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	unasked("101 to another protocol", ws("/a"), "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	unasked("101 without Upgrade", ws("/a"), "HTTP/1.1 101 Switching Protocols\r\n\r\n")
	out[len(out)-1].Should = true
	out[len(out)-2].Should = true
	unasked("101 to a POST", newRequest("POST", "/a", "hello"), switching)
	out = append(out, Case{Cat: "upgrade", Name: "a wrong key brings no tunnel to the next request", Services: []Script{func(s *Svc) {
		s.Request()
		s.Send(response("400 Bad Request", "version"))
	}, ok}, Run: func(x *X) {
		c := x.Dial()
		c.Send(strings.Replace(ws("/ws"), "Version: 13", "Version: 777", 1))
		c.Get()
		c.Send(get("/admin"))
		p := c.TryRecv("GET")
		if p != nil && p.Body != "for /admin" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		for _, q := range x.Seen() {
			if q.Target == "/admin" && !q.Fields.Has("X-Real-IP") {
				x.Errorf("the request went through raw: %q", q.Head)
			}
		}
	}})
	out = append(out, Case{Cat: "upgrade", Name: "a tunnel is quiet for two seconds", Slow: true, Services: []Script{echo}, Run: func(x *X) {
		c := open(x)
		time.Sleep(2 * time.Second)
		c.Send("still there")
		c.ReadN(11)
	}})
	out = append(out, Case{Cat: "upgrade", Name: "service resets the tunnel", Services: []Script{func(s *Svc) {
		s.Head()
		s.Send(switching)
		s.X.Wait("open")
		_ = s.Conn.(*net.TCPConn).SetLinger(0)
		s.End()
	}}, Run: func(x *X) {
		c := open(x)
		x.Signal("open")
		c.MustEnd()
	}})
	return out
}

func headerCases() []Case {
	var out []Case
	add := func(cat, name, send string, check Check) {
		out = append(out, Case{Cat: cat, Name: name, Send: send, Check: check})
	}
	should := func(cat, name, send string, check Check) {
		out = append(out, Case{Cat: cat, Name: name, Send: send, Check: check, Should: true})
	}

	// Request headers keep their bytes.
	add("headers", "case of names kept", get("/a", "x-lower: 1", "X-UPPER: 2", "X-mIxEd: 3"), forwarded(func(x *X, q *Req) {
		for _, want := range []string{"x-lower: 1", "X-UPPER: 2", "X-mIxEd: 3"} {
			if !strings.Contains(q.Head, "\r\n"+want+"\r\n") {
				x.Errorf("%q is not in %q", want, clip(q.Head))
			}
		}
	}))
	add("headers", "order and duplicates kept", get("/a", "X-A: 1", "X-B: 2", "X-A: 3", "X-C: 4", "X-A: 5"), forwarded(field("X-A", "1", "3", "5"), func(x *X, q *Req) {
		var order []string
		for _, f := range q.Fields {
			if strings.HasPrefix(f.Name, "X-A") || f.Name == "X-B" || f.Name == "X-C" {
				order = append(order, f.Name+f.Value)
			}
		}
		if !slices.Equal(order, []string{"X-A1", "X-B2", "X-A3", "X-C4", "X-A5"}) {
			x.Errorf("order %q", order)
		}
	}))
	for _, v := range []struct{ name, value string }{
		{"tab inside", "a\tb"},
		{"several spaces inside", "a   b"},
		{"high bytes", "\xe4\xf6\xfc"},
		{"UTF-8", "\u043f\u0440\u0438\u0432\u0435\u0442"},
		{"punctuation", `!"#$%&'()*+,-./:;<=>?@[\]^_{|}~` + "`"},
		{"colons", "a:b: c"},
		{"empty", ""},
		{"looks like a field", "X-B: c"},
		{"percent CRLF", "a%0d%0aX-B: c"},
		{"quoted string", `"a\"b"`},
	} {
		add("headers", "value "+v.name, get("/a", "X-A: "+v.value), forwarded(field("X-A", v.value)))
	}
	add("headers", "name of all token characters", get("/a", "X!#$%&'*+-.^`|~09aZ: v"), refusedOr(forwarded(field("X!#$%&'*+-.^`|~09aZ", "v"))))
	add("headers", "name of one letter", get("/a", "a: v"), forwarded(field("a", "v")))
	should("headers", "underscore name that means nothing", get("/a", "my_field: v"), forwarded(field("my_field", "v")))
	add("headers", "cookies kept apart and whole", get("/a", "Cookie: a=1; b=\"x y\"; c=", "Cookie: d=4"), forwarded(func(x *X, q *Req) {
		if got := strings.ReplaceAll(strings.Join(q.Fields.All("Cookie"), "; "), ",", ";"); got != `a=1; b="x y"; c=; d=4` {
			x.Errorf("cookies %q", q.Fields.All("Cookie"))
		}
	}))
	add("headers", "authorization kept", get("/a", "Authorization: Basic dTpw"), forwarded(field("Authorization", "Basic dTpw")))
	add("headers", "range and conditions kept", get("/a", "Range: bytes=0-4", `If-None-Match: "x"`, "If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT", "If-Range: \"y\""),
		forwarded(field("Range", "bytes=0-4"), field("If-None-Match", `"x"`), field("If-Modified-Since", "Sat, 29 Oct 1994 19:43:31 GMT"), field("If-Range", `"y"`)))
	for _, n := range []string{"User-Agent", "Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "Referer", "Origin", "Cache-Control", "Pragma", "Cookie"} {
		add("headers", "nothing invented: "+n, get("/a"), forwarded(noField(n)))
	}
	add("headers", "Content-Type not invented for POST", post("/a", "hello", "Content-Length: 5"), forwarded(noField("Content-Type")))
	add("headers", "Accept-Encoding kept as sent", get("/a", "Accept-Encoding: br;q=1.0, gzip;q=0.8, *;q=0.1"), forwarded(field("Accept-Encoding", "br;q=1.0, gzip;q=0.8, *;q=0.1")))
	add("headers", "Content-Type kept as sent", post("/a", "hello", "content-type: Multipart/Form-Data; Boundary=xYz", "Content-Length: 5"), forwarded(field("Content-Type", "Multipart/Form-Data; Boundary=xYz")))
	add("headers", "multipart bytes untouched", newRequest("POST", "/a", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--\r\nepilogue", "Content-Type: multipart/form-data; boundary=x"),
		one("--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--\r\nepilogue"))
	add("headers", "form bytes untouched", newRequest("POST", "/a", "b=2&a=1&a=%20+&&=", "Content-Type: application/x-www-form-urlencoded"), one("b=2&a=1&a=%20+&&="))

	// Sizes.
	for _, n := range []int{4 << 10, 8 << 10, 16 << 10, 32 << 10} {
		v := strings.Repeat("v", n)
		add("limits", fmt.Sprintf("request field of %d KiB", n>>10), get("/a", "X-A: "+v), forwarded(field("X-A", v)))
		out = append(out, Case{
			Cat: "limits", Name: fmt.Sprintf("answer field of %d KiB", n>>10), Send: get("/a"),
			Services: []Script{Answer(response("200 OK", "ok", "X-A: "+v))}, Check: answered(200, got("X-A", v), body("ok")),
		})
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("X-N%d: %d", i, i))
	}
	add("limits", "100 request fields", get("/a", many...), forwarded(func(x *X, q *Req) {
		for i := range 100 {
			field(fmt.Sprint("X-N", i), fmt.Sprint(i))(x, q)
		}
	}))
	out = append(out, Case{
		Cat: "limits", Name: "100 answer fields", Send: get("/a"), Services: []Script{Answer(response("200 OK", "ok", many...))},
		Check: answered(200, got("X-N0", "0"), got("X-N99", "99")),
	})
	add("limits", "request head of 2 MiB", get("/a", "X-A: "+strings.Repeat("v", 2<<20)), refused(431, 400, 413))
	add("limits", "100 000 request fields", get("/a", slices.Repeat([]string{"X-A: b"}, 100_000)...), refused(431, 400, 413))
	add("limits", "cookie of 16 KiB", get("/a", "Cookie: a="+strings.Repeat("c", 16<<10)), forwarded(field("Cookie", "a="+strings.Repeat("c", 16<<10))))

	// Hop by hop, request.
	add("hop-by-hop", "nominated field", get("/a", "Connection: X-Foo", "X-Foo: 1", "X-Bar: 2"), forwarded(noField("X-Foo"), field("X-Bar", "2")))
	add("hop-by-hop", "nominated in a list", get("/a", "Connection: keep-alive , x-foo,X-BAR", "X-Foo: 1", "X-Bar: 2", "X-Baz: 3"), forwarded(noField("X-Foo", "X-Bar"), field("X-Baz", "3")))
	add("hop-by-hop", "nominated in the second Connection", get("/a", "Connection: keep-alive", "Connection: X-Foo", "X-Foo: 1"), forwarded(noField("X-Foo")))
	add("hop-by-hop", "nominated before Connection", get("/a", "X-Foo: 1", "Connection: X-Foo"), forwarded(noField("X-Foo")))
	add("hop-by-hop", "Keep-Alive", get("/a", "Connection: keep-alive", "Keep-Alive: timeout=5"), forwarded(noField("Keep-Alive")))
	add("hop-by-hop", "Keep-Alive without Connection", get("/a", "Keep-Alive: timeout=5"), forwarded(noField("Keep-Alive")))
	add("hop-by-hop", "Proxy-Connection", get("/a", "Proxy-Connection: keep-alive"), forwarded(noField("Proxy-Connection")))
	add("hop-by-hop", "TE gzip", get("/a", "TE: gzip, deflate;q=0.5", "Connection: TE"), forwarded(func(x *X, q *Req) {
		if v := q.Fields.Get("TE"); strings.Contains(v, "gzip") || strings.Contains(v, "deflate") {
			x.Errorf("TE reached the service: %q", v)
		}
	}))
	add("hop-by-hop", "TE trailers may pass, nothing else", get("/a", "TE: trailers, gzip", "Connection: TE"), forwarded(func(x *X, q *Req) {
		if v := q.Fields.Get("TE"); v != "" && v != "trailers" {
			x.Errorf("TE reached the service: %q", v)
		}
	}))
	add("hop-by-hop", "Upgrade without Connection", get("/a", "Upgrade: websocket"), forwarded(noField("Upgrade")))
	should("hop-by-hop", "close is not passed on", get("/a", "Connection: close"), forwarded(func(x *X, q *Req) {
		if strings.Contains(strings.ToLower(q.Fields.Get("Connection")), "close") {
			x.Errorf("the client's close reached the service")
		}
	}))
	add("hop-by-hop", "empty elements in Connection", get("/a", "Connection: ,, X-Foo ,,", "X-Foo: 1"), refusedOr(forwarded(noField("X-Foo"))))
	add("hop-by-hop", "Connection of 1000 names", get("/a", "Connection: "+strings.Repeat("x-foo, ", 1000)+"x-foo", "X-Foo: 1"), refusedOr(forwarded(noField("X-Foo"))))
	for _, n := range []string{"Host", "Content-Length", "Transfer-Encoding", "X-Forwarded-For", "X-Real-IP", "X-Request-Id", "X-Forwarded-Proto"} {
		send := newRequest("POST", "/a", "hello", "Connection: "+n)
		add("hop-by-hop", "nomination of "+n, send, refusedOr(forwarded(func(x *X, q *Req) {
			if q.Body != "hello" {
				x.Errorf("the body became %q", q.Body)
			}
			if (n == "X-Forwarded-For" || n == "X-Real-IP" || n == "X-Request-Id") && !q.Fields.Has(n) {
				x.Errorf("the proxy's own %s was taken away by a client", n)
			}
		})))
	}
	for _, n := range []string{"Cookie", "Authorization", "Cache-Control"} {
		add("hop-by-hop", "nomination of "+n, get("/a", "Connection: "+n, n+": v"), refusedOr(forwarded()))
	}

	// Hop by hop, answer.
	answer := func(name, reply string, check Check) {
		out = append(out, Case{Cat: "hop-by-hop", Name: "answer: " + name, Send: get("/a"), Services: []Script{Answer(reply)}, Check: check})
	}
	answer("nominated field", response("200 OK", "ok", "Connection: X-Foo", "X-Foo: 1", "X-Bar: 2"), answered(200, got("X-Foo"), got("X-Bar", "2")))
	answer("Keep-Alive", response("200 OK", "ok", "Keep-Alive: timeout=5", "Connection: keep-alive"), answered(200, func(x *X, p *Resp) {
		if strings.Contains(p.Fields.Get("Keep-Alive"), "timeout=5") {
			x.Errorf("Keep-Alive of the service reached the client")
		}
	}))
	answer("Proxy-Connection", response("200 OK", "ok", "Proxy-Connection: keep-alive"), answered(200, got("Proxy-Connection")))
	answer("Upgrade offer", response("200 OK", "ok", "Upgrade: h2,h2c", "Connection: Upgrade"), answered(200, got("Upgrade")))
	out = append(out, Case{
		Cat: "hop-by-hop", Name: "answer: close of the service is not the client's", Should: true, Send: get("/a"),
		Services: []Script{AnswerAndEnd(response("200 OK", "ok", "Connection: close")), ok},
		Check: func(x *X, c *Client) {
			answered(200, body("ok"))(x, c)
			c.MustLive()
		},
	})

	// Who the client says it is.
	spoof := func(name string, fields ...string) {
		add("spoofing", name, get("/a", fields...), refusedOr(forwarded(func(x *X, q *Req) {
			for _, bad := range []string{"6.6.6.6", "evil.test", "spoofed"} {
				if strings.Contains(q.Head, bad) {
					x.Errorf("what the client claimed reached the service: %q", clip(q.Head))
				}
			}
		})))
	}
	spoof("X-Forwarded-For", "X-Forwarded-For: 6.6.6.6")
	spoof("X-Forwarded-For twice", "X-Forwarded-For: 6.6.6.6", "x-forwarded-for: 6.6.6.6, 127.0.0.1")
	spoof("X-Forwarded-For lower case", "x-forwarded-for: 6.6.6.6")
	spoof("X_Forwarded_For", "X_Forwarded_For: 6.6.6.6")
	spoof("X-Forwarded_For", "X-Forwarded_For: 6.6.6.6")
	spoof("X-Real-IP", "X-Real-IP: 6.6.6.6")
	spoof("X_Real_IP", "X_Real_IP: 6.6.6.6")
	spoof("Forwarded", "Forwarded: for=6.6.6.6;host=evil.test;proto=https")
	spoof("X-Forwarded-Host", "X-Forwarded-Host: evil.test")
	spoof("X-Forwarded-Proto", "X-Forwarded-Proto: spoofed")
	spoof("X-Forwarded-Port", "X-Forwarded-Port: spoofed")
	spoof("X-Request-Id", "X-Request-Id: spoofed")
	spoof("X-Antirobot-Verdict", "X-Antirobot-Verdict: spoofed")
	for _, n := range []string{"X-Forwarded-Server", "X-Original-URI", "X-Original-URL", "X-Rewrite-URL", "X-Accel-Redirect", "X-Client-IP", "X-Forwarded-Prefix", "X-Forwarded-Ssl"} {
		should := n != "X-Original-URI" && n != "X-Accel-Redirect"
		spoof(n, n+": spoofed")
		out[len(out)-1].Should = should
	}
	add("spoofing", "the proxy says who the client is", get("/a"), forwarded(field("X-Real-IP", "127.0.0.1"), func(x *X, q *Req) {
		if v := q.Fields.Get("X-Forwarded-For"); v != "127.0.0.1" {
			x.Errorf("X-Forwarded-For %q", v)
		}
		if len(q.Fields.All("X-Forwarded-For")) != 1 || len(q.Fields.All("X-Request-Id")) != 1 {
			x.Errorf("X-Forwarded-For or X-Request-Id is missing or double: %q", clip(q.Head))
		}
	}))
	add("spoofing", "X-Forwarded-Proto says http", get("/a"), forwarded(field("X-Forwarded-Proto", "http")))
	out = append(out, Case{Cat: "spoofing", Name: "X-Request-Id differs between requests", Run: func(x *X) {
		c := x.Dial()
		for range 2 {
			c.Send(get("/a"))
			c.Get()
		}
		s := x.Seen()
		if a, b := s[0].Fields.Get("X-Request-Id"), s[1].Fields.Get("X-Request-Id"); a == "" || a == b {
			x.Errorf("%q and %q", a, b)
		}
	}})
	return out
}
