package blackbox

import (
	"fmt"
	"strings"
	"time"
)

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
