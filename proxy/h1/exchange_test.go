package h1

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"antirobot/request"
)

// TestReadBody: what the handler has read, wholly or partly, is forwarded unchanged.
func TestReadBody(t *testing.T) {
	for _, c := range []struct {
		name, req string
		limit     int64
		want, err string
		sent      string
	}{
		{
			"length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 10, "hello", "",
			"Content-Length: 5\r\n\r\nhello",
		},
		{"none", aGet, 10, "", "", "Host: a\r\n\r\n"},
		{
			"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
				"chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nX-T: 1\r\n\r\n", 5, "hello", "",
			"chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
		},
		{
			"too long", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 4, "", ErrBodyTooLarge.Error(),
			"Content-Length: 5\r\n\r\nhello",
		},
		{"chunked, too long", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", 4, "", ErrBodyTooLarge.Error(), "hello"},
		{
			"broken", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhelXX", 4, "",
			ErrBadBody.Error(), "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := answering(t, okAnswer)
			g := newGateway(t, s, setup{handler: func(x *Exchange, forward func()) {
				b, err := x.ReadBody(c.limit)
				if string(b) != c.want || fmt.Sprint(err) != c.err && (err != nil || c.err != "") {
					t.Errorf("ReadBody gave %q, %v", b, err)
				}
				forward()
			}})
			c1 := dial(t, g)
			c1.say(c.req)
			resp, _ := c1.answer("POST")
			got := strings.ReplaceAll(s.got(), "3\r\nhel\r\n2\r\nlo\r\n", "5\r\nhello\r\n")
			if c.sent == "" && resp.StatusCode != 400 || !strings.Contains(got, c.sent) {
				t.Errorf("got %d, the service saw %q", resp.StatusCode, got)
			}
		})
	}
	t.Run("sends 100", func(t *testing.T) {
		s := answering(t, okAnswer)
		g := newGateway(t, s, setup{handler: func(x *Exchange, forward func()) {
			if b, err := x.ReadBody(10); string(b) != "hello" || err != nil {
				t.Errorf("ReadBody gave %q, %v", b, err)
			}
			forward()
		}})
		c1 := dial(t, g)
		c1.say("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
		if h := c1.head(); h != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("got %q", h)
		}
		c1.say("hello")
		if _, body := c1.answer("POST"); body != "ok" || strings.Contains(s.got(), "Expect") {
			t.Errorf("got %q; the service saw %q", body, s.got())
		}
	})
}

// TestReplay sends a request made by the handler and nothing of the client's.
func TestReplay(t *testing.T) {
	s := answering(t, okAnswer)
	o := ForwardOptions{Replay: &Request{
		Method: []byte("PUT"), Target: []byte("/saved?x"), Body: []byte("form"),
		Fields: append(append([]request.Field{}, field("Cookie", "a=b"), field("Content-Length", "99")),
			field("Connection", "close")),
	}, AddAnswer: []request.Field{field("Set-Cookie", "spravka=1")}}
	g := newGateway(t, s, setup{options: o, handler: func(x *Exchange, forward func()) {
		_, _ = x.ReadBody(100)
		forward()
	}})
	c1 := dial(t, g)
	for range 2 {
		c1.say("POST /checkcaptcha HTTP/1.1\r\nHost: a\r\nX-Secret: 1\r\nContent-Length: 3\r\n\r\nrep")
		resp, body := c1.answer("POST")
		if body != "ok" || resp.Header.Get("Set-Cookie") != "spravka=1" {
			t.Errorf("got %v %q", resp, body)
		}
	}
	want := "PUT /saved?x HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\nContent-Length: 4\r\n\r\nform"
	if s.got() != want+want {
		t.Errorf("the service saw %q", s.got())
	}
}

// TestReadBodyBy: a body that is too late for the handler is still forwarded completely, wherever the handler gave up.
func TestReadBodyBy(t *testing.T) {
	for _, c := range []struct{ name, first, rest, sent string }{
		{
			"length, nothing there", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", "hello",
			"Content-Length: 5\r\n\r\nhello",
		},
		{
			"length, a part there", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe", "llo",
			"Content-Length: 5\r\n\r\nhello",
		},
		{
			"chunked, within a chunk", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhe",
			"l\r\n2\r\nlo\r\n0\r\n\r\n", "he",
		},
		{
			"chunked, between chunks", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
			"2\r\nlo\r\n0\r\n\r\n", "hel",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := make(chan string, 1)
			s := newService(t, func(c *talk) {
				for {
					req, body := c.request(true)
					if req == nil {
						return
					}
					got <- string(body)
					_, _ = c.Write([]byte(okAnswer))
				}
			})
			late := make(chan error, 1)
			g := newGateway(t, s, setup{handler: func(x *Exchange, forward func()) {
				_, err := x.ReadBodyBy(100, time.Now().Add(50*time.Millisecond))
				late <- err
				forward()
			}})
			c1 := dial(t, g)
			c1.say(c.first)
			if err := <-late; !errors.Is(err, ErrBodyLate) {
				t.Fatalf("gave %v", err)
			}
			c1.say(c.rest)
			if resp, _ := c1.answer("POST"); resp.StatusCode != 200 {
				t.Errorf("got %d", resp.StatusCode)
			}
			if body := <-got; body != "hello" || !strings.Contains(s.got(), c.sent) {
				t.Errorf("the service got %q in %q", body, s.got())
			}
			// The connection goes on, and a body that is there in time is read.
			c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
			if err := <-late; err != nil {
				t.Errorf("the next body gave %v", err)
			}
			if resp, _ := c1.answer("POST"); resp.StatusCode != 200 || <-got != "ab" {
				t.Errorf("the next answer is %d", resp.StatusCode)
			}
		})
	}
}

// TestWhichRequestsHaveABody: whoever judges a request is told whether a body comes with it, of whatever method.
func TestWhichRequestsHaveABody(t *testing.T) {
	has := false
	g := newGateway(t, nil, setup{handler: func(x *Exchange, _ func()) {
		has = x.View.Body
		_ = x.Reply(200, nil, nil)
	}})
	for rest, want := range map[string]bool{
		"\r\n": false, "Content-Length: 0\r\n\r\n": false,
		"Content-Length: 2\r\n\r\n{}": true, "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n": true,
	} {
		c1 := dial(t, g)
		c1.say("GET / HTTP/1.1\r\nHost: a\r\n" + rest)
		if resp, _ := c1.answer("GET"); resp.StatusCode != 200 || has != want {
			t.Errorf("%q: %d, and has a body: %t", rest, resp.StatusCode, has)
		}
	}
}

// TestOwnAnswers: Date and length are there, HEAD has no body, framing can't be injected.
func TestOwnAnswers(t *testing.T) {
	var fields []request.Field
	status := 403
	g := newGateway(t, nil, setup{handler: func(x *Exchange, _ func()) {
		if err := x.Reply(status, fields, []byte("no")); err != nil && !errors.Is(err, errBadField) {
			t.Errorf("Reply: %v", err)
		}
		if x.Answered() && !errors.Is(x.Reply(200, nil, nil), errAnswered) {
			t.Error("a second answer is possible")
		}
	}})
	c1 := dial(t, g)
	fields = []request.Field{field("X-A", "b"), field("Content-Length", "9"), field("Transfer-Encoding", "chunked")}
	c1.say(aGet)
	resp, body := c1.answer("GET")
	if resp.StatusCode != 403 || body != "no" || resp.Header.Get("Date") == "" || resp.Header.Get("X-A") != "b" ||
		resp.ContentLength != 2 {
		t.Errorf("got %v %q", resp, body)
	}
	c1.say("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
	if h := c1.head(); !strings.Contains(h, "Content-Length: 2\r\n") {
		t.Errorf("HEAD got %q", h)
	}
	status, fields = 204, nil
	c1.say(aGet)
	if h := c1.head(); strings.Contains(h, "Content-Length") {
		t.Errorf("204 got %q", h)
	}
	status, fields = 200, []request.Field{field("X", "a\r\nSet-Cookie: b")}
	c1.say(aGet)
	if resp, _ := c1.answer("GET"); resp.StatusCode != 500 || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("split: %v", resp)
	}
}

// TestUnreadBodyOfAnOwnAnswer: a short body is skipped and the connection stays open; a long one is not read to its
// end, and the client can still read the answer.
func TestUnreadBodyOfAnOwnAnswer(t *testing.T) {
	g := newGateway(t, nil, setup{handler: func(x *Exchange, _ func()) { _ = x.Reply(403, nil, []byte("no")) }})
	c1 := dial(t, g)
	c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel")
	resp, _ := c1.answer("POST")
	if resp.StatusCode != 403 || resp.Close {
		t.Errorf("got %v", resp)
	}
	c1.say("lo" + aGet)
	if resp, _ := c1.answer("GET"); resp.StatusCode != 403 {
		t.Errorf("then got %v", resp)
	}

	c2 := dial(t, g)
	c2.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
	if _, err := c2.Write(make([]byte, 4<<20)); err != nil { // a reset could overtake the answer
		t.Errorf("long body: %v", err)
	}
	resp, body := c2.answer("POST")
	if resp.StatusCode != 403 || !resp.Close || body != "no" {
		t.Errorf("long body: got %v", resp)
	}
	if _, err := c2.rest(); err != nil {
		t.Errorf("long body: %v", err)
	}
}

// TestBodiesInSum: an announced length costs nothing before it arrives, the memory of all bodies stays within its
// bound, and a client that leaves frees what it held.
func TestBodiesInSum(t *testing.T) {
	const bound = 20 << 10
	g := newGateway(t, nil, setup{
		cfg: func(c *Config) { c.MaxBodiesBytes = bound },
		handler: func(x *Exchange, _ func()) {
			_, err := x.ReadBody(1 << 20)
			status := 200
			if errors.Is(err, errBodiesBusy) {
				status = Status(err)
			}
			_ = x.Reply(status, nil, nil)
		},
	})
	held := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); g.metric("antirobot_http_bodies_bytes") != want; time.Sleep(
			time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s bytes are held, not %s", g.metric("antirobot_http_bodies_bytes"), want)
			}
		}
	}
	const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
	c1, c2, c3 := dial(t, g), dial(t, g), dial(t, g)
	c1.say(post)
	held("4096")
	c1.say(strings.Repeat("x", 10_000))
	held("16384")
	c2.say(post)
	held("20480")
	c3.say(post)
	if resp, _ := c3.answer("POST"); resp.StatusCode != 503 {
		t.Errorf("got %d", resp.StatusCode)
	}
	c1.Close()
	held("4096")
	c3 = dial(t, g)
	c3.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("x", 5000))
	if resp, _ := c3.answer("POST"); resp.StatusCode != 200 {
		t.Errorf("got %d", resp.StatusCode)
	}
	held("4096")
	if n := g.metric(`antirobot_http_limits_total{limit="bodies_in_sum"}`); n != "1" {
		t.Errorf("%s were counted", n)
	}
}
