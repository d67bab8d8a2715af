package blackbox

import (
	"net"
	"strings"
	"time"
)

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
