package blackbox

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

func connCases() []Case {
	var out []Case
	add := func(cat, name string, run func(x *X), services ...Script) {
		out = append(out, Case{Cat: cat, Name: name, Run: run, Services: services})
	}
	should := func(cat, name string, run func(x *X), services ...Script) {
		add(cat, name, run, services...)
		out[len(out)-1].Should = true
	}

	// Keep-alive.
	add("keep-alive", "twenty requests on one connection", func(x *X) {
		c := x.Dial()
		for i := range 20 {
			t := fmt.Sprintf("/n%d", i)
			c.Send(get(t))
			if p := c.Get(); p.Body != "for "+t {
				x.Fatalf("request %d got %q", i, p.Body)
			}
		}
	})
	should("keep-alive", "the service's connection is used again", func(x *X) {
		c := x.Dial()
		for range 10 {
			c.Send(get("/a"))
			c.Get()
		}
		if s := x.Seen(); s[len(s)-1].Conn > 2 {
			x.Errorf("%d connections for ten requests", s[len(s)-1].Conn)
		}
	})
	add("keep-alive", "after POST", func(x *X) {
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
		add("keep-alive", "client says "+v, func(x *X) {
			c := x.Dial()
			c.Send(get("/a", "Connection: "+v))
			if p := c.Get(); p.Body != "for /a" {
				x.Errorf("%d %q", p.Status, p.Body)
			}
			c.MustEnd()
		})
	}
	add("keep-alive", "what follows a close is not served", func(x *X) {
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
	add("keep-alive", "closed after 400, nothing more is read", func(x *X) {
		c := x.Dial()
		c.Send("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n" + get("/smuggled"))
		refused()(x, c)
	})
	add("keep-alive", "good, then bad", func(x *X) {
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
	add("keep-alive", "HTTP/1.0 closes", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\n\r\n")
		if p := c.Get(); p.Body != "for /a" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
		c.MustEnd()
	})
	should("keep-alive", "HTTP/1.0 with keep-alive", func(x *X) {
		c := x.Dial()
		for range 3 {
			c.Send("GET /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
			p := c.Get()
			if p.Body != "for /a" || !strings.EqualFold(p.Fields.Get("Connection"), "keep-alive") {
				x.Errorf("%d %q %q", p.Status, p.Body, p.Fields.Get("Connection"))
			}
		}
	})
	add("HTTP/1.0", "asks the service in HTTP/1.1 with a Host", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: example.test\r\n\r\n")
		c.Get()
		once(x, field("Host", "example.test"), func(x *X, q *Req) {
			if q.Proto != "HTTP/1.1" {
				x.Errorf("%s", q.Proto)
			}
		})
	})
	add("HTTP/1.0", "without Host", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\n\r\n")
		if p := c.Recv("GET"); p.Status == 200 {
			once(x) // with exactly one Host
		} else if p.Status != 400 {
			x.Errorf("status %d", p.Status)
		}
	})
	add("HTTP/1.0", "never gets chunks", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\n\r\n")
		p := c.Get()
		if p.Body != "hello" || p.Fields.Has("Transfer-Encoding") {
			x.Errorf("%q %q", p.Head, p.Body)
		}
		c.MustEnd()
	}, Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	add("HTTP/1.0", "never gets chunks, with keep-alive", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
		p := c.Get()
		if p.Body != "hello" || p.Fields.Has("Transfer-Encoding") {
			x.Errorf("%q %q", p.Head, p.Body)
		}
	}, Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	add("HTTP/1.0", "POST with length", func(x *X) {
		c := x.Dial()
		c.Send("POST /a HTTP/1.0\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		one("hello")(x, c)
	})
	add("HTTP/1.0", "cut chunked answer does not look whole", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.0\r\nHost: x\r\n\r\n")
		p := c.TryRecv("GET")
		if p != nil && p.Complete && p.Status == 200 {
			x.Errorf("ended like a whole one: %q", p.Body)
		}
	}, AnswerAndEnd("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"))
	out[len(out)-1].Should = true

	// A service that closes unused connections.
	stale := func(name, send, want string, first Script) {
		add("retry", name, func(x *X) {
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
		add("retry", name, func(x *X) {
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
		out[len(out)-1].Should = level
	}
	counting("POST is never sent twice", newRequest("POST", "/once", "hello"), 1, false)
	counting("POST without body is never sent twice", newRequest("POST", "/once", "", "Content-Length: 0"), 1, false)
	counting("PATCH is never sent twice", newRequest("PATCH", "/once", "hello"), 1, false)
	counting("PUT with body is not sent twice", newRequest("PUT", "/once", "hello"), 1, false)
	counting("GET is sent at most twice", get("/once"), 2, false)
	counting("GET with body is not sent twice", newRequest("GET", "/once", "hello"), 1, false)
	add("retry", "no second try after the answer began", func(x *X) {
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

	// Pipelining.
	for _, n := range []int{2, 3, 10, 50} {
		add("pipelining", fmt.Sprintf("%d GETs", n), func(x *X) {
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
	add("pipelining", "with bodies", func(x *X) {
		c := x.Dial()
		c.Send(newRequest("POST", "/a", "hello") + get("/b") + chunkedPost("/c", "5\r\nhello\r\n0\r\n\r\n") + newRequest("PUT", "/d", "x") + get("/e"))
		for _, t := range []string{"/a", "/b", "/c", "/d", "/e"} {
			if p := c.Get(); p.Body != "for "+t {
				x.Errorf("%s got %q", t, p.Body)
			}
		}
	})
	add("pipelining", "slow first", func(x *X) {
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
	add("pipelining", "HEAD among GETs", func(x *X) {
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
	add("pipelining", "then half-close", func(x *X) {
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
	add("pipelining", "request cut in two", func(x *X) {
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
	add("pipelining", "byte by byte", func(x *X) {
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
	add("pipelining", "CRLF between requests", func(x *X) {
		c := x.Dial()
		c.Send(newRequest("POST", "/a", "hello") + "\r\n")
		c.Get()
		c.Send(get("/b"))
		if p := c.TryRecv("GET"); p != nil && p.Body != "for /b" {
			x.Errorf("%d %q", p.Status, p.Body)
		}
	})
	add("pipelining", "many clients get their own answers", func(x *X) {
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

	// Half-close and aborts.
	add("aborts", "half-close after the request still gets the answer", func(x *X) {
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
	add("aborts", "half-close within the head", func(x *X) {
		c := x.Dial()
		c.Send("GET /a HTTP/1.1\r\nHost: x\r\n")
		c.CloseWrite()
		c.Ended()
		if s := x.Seen(); len(s) > 0 {
			x.Errorf("the service saw %s", describe(s))
		}
	})
	add("aborts", "half-close within the body", func(x *X) {
		c := x.Dial()
		c.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
		c.CloseWrite()
		neverWhole(x, c)
	})
	noticed := func(name string, send string, leave func(c *Client), service func(s *Svc)) {
		add("aborts", name, func(x *X) {
			c := x.Dial()
			c.Send(send)
			x.Wait("there")
			left := time.Now()
			leave(c)
			if !x.Signalled("gone", 2500*time.Millisecond) {
				x.Errorf("the service did not learn within 2.5 s that the client has left")
			}
			_ = left
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
	add("aborts", "an aborted upload is never whole", func(x *X) {
		c := x.Dial()
		c.Send("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		x.Await("the head", func(r []Req) bool { return len(r) == 1 })
		c.Abort()
		r := x.Await("the end of the upload", func(r []Req) bool { return r[0].Err != "" || r[0].Complete })
		if r[0].Complete {
			x.Errorf("%s", describe(r))
		}
	})
	add("aborts", "the proxy lives after many aborts", func(x *X) {
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

	// Time.
	slow := func(name string, level bool, run func(x *X), services ...Script) {
		add("timeouts", name, run, services...)
		out[len(out)-1].Slow, out[len(out)-1].Should = true, level
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
	return out
}

func allCases() []Case {
	var out []Case
	for _, f := range []func() []Case{framingCases, lineCases, headerCases, streamingCases, interimCases, upgradeCases, answerCases, connCases} {
		out = append(out, f()...)
	}
	return out
}
