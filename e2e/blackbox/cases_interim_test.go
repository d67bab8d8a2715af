package blackbox

import (
	"strings"
	"time"
)

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
