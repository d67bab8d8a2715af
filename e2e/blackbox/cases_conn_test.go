package blackbox

import (
	"fmt"
	"strings"
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
