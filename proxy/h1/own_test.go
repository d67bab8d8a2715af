package h1

import (
	"errors"
	"strings"
	"testing"

	"antirobot/request"
)

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
