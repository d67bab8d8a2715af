package blackbox

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

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
