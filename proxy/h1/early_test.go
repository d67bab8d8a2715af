package h1

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestEarlyAnswer: if a service refuses before it has read the body, its answer is relayed at once, the upload stops,
// and its connection is not reused.
func TestEarlyAnswer(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked %v", chunked), func(t *testing.T) {
			s := newService(t, func(k *talk) {
				k.head()
				k.say("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
				time.Sleep(100 * time.Millisecond) // does not read, does not close
				_, _ = io.Copy(io.Discard, k.r)
			})
			g := newGateway(t, s, setup{})
			c1 := dial(t, g)
			if chunked {
				c1.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			} else {
				c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nhello")
			}
			resp, body := c1.answer("POST")
			if resp.StatusCode != 413 || body != "big" || !resp.Close {
				t.Errorf("got %v %q", resp, body)
			}
			c1.closes()
			c2 := dial(t, g)
			c2.say(aGet)
			c2.answer("GET")
			if n := s.connections(); n != 2 {
				t.Errorf("the connection was used again")
			}
		})
	}
}

// TestEarlyAnswerWhileClientSends: the client does not read before it has sent much; the answer must survive.
func TestEarlyAnswerWhileClientSends(t *testing.T) {
	s := newService(t, func(k *talk) {
		k.head()
		k.say("HTTP/1.1 401 Who\r\nConnection: close\r\nContent-Length: 3\r\n\r\nwho")
	})
	g := newGateway(t, s, setup{cfg: func(c *Config) { c.LingerTimeout = 3 * time.Second }})
	for range 10 {
		c1 := dial(t, g)
		c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n")
		_, _ = c1.Write(make([]byte, 4_000_000))
		if resp, body := c1.answer("POST"); resp.StatusCode != 401 || body != "who" {
			t.Fatalf("got %v %q", resp, body)
		}
		c1.Close()
	}
}

// TestAnswerBeforeTheEndOfTheBody: a service that answers at once and then reads the body costs no connection.
func TestAnswerBeforeTheEndOfTheBody(t *testing.T) {
	s := newService(t, func(k *talk) {
		for {
			r, _ := k.request(false)
			if r == nil {
				return
			}
			k.say(okAnswer)
			_, _ = io.Copy(io.Discard, r.Body)
		}
	})
	g := newGateway(t, s, setup{})
	c1 := dial(t, g)
	for range 3 {
		c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
		resp, body := c1.answer("POST")
		if body != "ok" || resp.Close {
			t.Fatalf("got %v %q", resp, body)
		}
		c1.say("world")
	}
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections to the service", n)
	}
}

// TestDuplex talks both ways within one exchange.
func TestDuplex(t *testing.T) {
	s := newService(t, func(k *talk) {
		r, _ := k.request(false)
		k.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		b := make([]byte, 100)
		for {
			n, err := r.Body.Read(b)
			if n > 0 {
				k.say(fmt.Sprintf("%x\r\n%s\r\n", n, b[:n]))
			}
			if err != nil {
				k.say("0\r\n\r\n")
				break
			}
		}
		if r, _ := k.request(true); r != nil {
			k.say(okAnswer)
		}
	})
	g := newGateway(t, s, setup{})
	c1 := dial(t, g)
	c1.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	c1.head()
	for range 3 {
		c1.say("4\r\nping\r\n")
		b := make([]byte, len("4\r\nping\r\n"))
		if _, err := io.ReadFull(c1.r, b); err != nil || string(b) != "4\r\nping\r\n" {
			t.Fatalf("got %q %v", b, err)
		}
	}
	c1.say("0\r\n\r\n")
	b := make([]byte, 5)
	if _, err := io.ReadFull(c1.r, b); err != nil || string(b) != "0\r\n\r\n" {
		t.Fatalf("got %q %v", b, err)
	}
	c1.say(aGet)
	if _, body := c1.answer("GET"); body != "ok" || s.connections() != 1 {
		t.Errorf("then got %q over %d connections", body, s.connections())
	}
}

// TestExpectContinue: the service decides about 100-continue, and its decision reaches the client.
func TestExpectContinue(t *testing.T) {
	const req = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n"
	t.Run("passed on", func(t *testing.T) {
		s := newService(t, func(k *talk) {
			if !strings.Contains(k.head(), "Expect: 100-Continue\r\n") {
				t.Error("Expect did not reach the service")
			}
			k.say("HTTP/1.1 100 Continue\r\n\r\n")
			b := make([]byte, 5)
			_, _ = io.ReadFull(k.r, b)
			k.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + string(b))
			if r, _ := k.request(true); r != nil {
				k.say(okAnswer)
			}
		})
		g := newGateway(t, s, setup{})
		c1 := dial(t, g)
		c1.say(req)
		if h := c1.head(); h != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("got %q", h)
		}
		c1.say("hello")
		if resp, body := c1.answer("POST"); body != "hello" || resp.Close {
			t.Errorf("got %v %q", resp, body)
		}
		c1.say(aGet)
		if _, body := c1.answer("GET"); body != "ok" {
			t.Errorf("then got %q", body)
		}
	})
	t.Run("refused", func(t *testing.T) {
		s := newService(t, func(k *talk) {
			k.head()
			k.say("HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno")
			k.head()
		})
		g := newGateway(t, s, setup{})
		c1 := dial(t, g)
		c1.say(req)
		if resp, body := c1.answer("POST"); resp.StatusCode != 417 || body != "no" || !resp.Close {
			t.Errorf("got %v %q", resp, body)
		}
		c1.closes()
	})
	t.Run("service is silent", func(t *testing.T) {
		s := answering(t, okAnswer) // net/http's reader: waits for the body
		g := newGateway(t, s, setup{cfg: func(c *Config) { c.ContinueTimeout = 50 * time.Millisecond }})
		c1 := dial(t, g)
		c1.say(req)
		if h := c1.head(); h != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("got %q", h)
		}
		c1.say("hello")
		if _, body := c1.answer("POST"); body != "ok" {
			t.Errorf("got %q", body)
		}
	})
	t.Run("client does not wait", func(t *testing.T) {
		s := answering(t, "HTTP/1.1 100 Continue\r\n\r\n"+okAnswer)
		g := newGateway(t, s, setup{})
		c1 := dial(t, g)
		c1.say(req + "hello")
		resp, body := c1.answer("POST")
		if resp.StatusCode == 100 {
			resp, body = c1.answer("POST")
		}
		if body != "ok" {
			t.Errorf("got %v %q", resp, body)
		}
	})
	t.Run("own answer", func(t *testing.T) {
		g := newGateway(t, nil, setup{handler: func(x *Exchange, _ func()) { _ = x.Reply(403, nil, nil) }})
		c1 := dial(t, g)
		c1.say(req)
		if resp, _ := c1.answer("POST"); resp.StatusCode != 403 || !resp.Close {
			t.Errorf("got %v", resp)
		}
		c1.closes()
	})
}
