package h1

import (
	"io"
	"strings"
	"testing"
	"time"
)

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
