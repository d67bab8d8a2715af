package blackbox

import (
	"fmt"
	"strings"
	"time"
)

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
