package h1

import (
	"io"
	"strings"
	"testing"
	"time"
)

// TestManyKindsOnOneConnection mixes requests served from within the wait with others: the connection goes on.
func TestManyKindsOnOneConnection(t *testing.T) {
	g := newGateway(t, answering(t, okAnswer), setup{})
	c := dial(t, g)
	for _, said := range [][]string{
		{aGet},
		{aGet},
		{aGet[:20], aGet[20:]}, // a head in two pieces
		{"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"},
		{"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n", "hello"},
		{aGet},
		{"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
		{"\r\n", aGet}, // an empty line before
		{aGet},
		{aGet + aGet}, // pipelined
		{aGet + aGet[:9], aGet[9:]},
		{aGet},
	} {
		for i, piece := range said {
			if i > 0 {
				time.Sleep(20 * time.Millisecond) // so that it comes in a packet of its own
			}
			c.say(piece)
		}
		for range strings.Count(strings.Join(said, ""), " / HTTP/1.1") {
			if res, body := c.answer("GET"); res.StatusCode != 200 || body != "ok" {
				t.Fatalf("%q: %d %q", said, res.StatusCode, body)
			}
		}
	}
	if n := g.metric("antirobot_http_requests_total"); n != "14" {
		t.Errorf("%s requests were counted", n)
	}
}

// TestEndTogetherWithALaterRequest closes the client's side in the packet of its third request. The poller is woken
// once for both, so only a look shows that nothing more will come.
func TestEndTogetherWithALaterRequest(t *testing.T) {
	g := newGateway(t, answering(t, okAnswer), setup{cfg: func(c *Config) { c.IdleTimeout = time.Minute }})
	c := dial(t, g)
	for range 2 {
		c.say(aGet)
		c.answer("GET")
	}
	gate := make(chan struct{})
	go func() { // both are there before the gateway looks
		defer close(gate)
		c.say(aGet)
		_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	<-gate
	c.answer("GET")
	began := time.Now()
	if b, err := io.ReadAll(c.r); err != nil || len(b) > 0 {
		t.Fatalf("%q, %v", b, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the connection was kept for %v", took)
	}
}

// TestIdleTimeoutFromWithin leaves a connection idle after a few requests: it is closed when the timeout ends, and not
// before.
func TestIdleTimeoutFromWithin(t *testing.T) {
	const idle = time.Second
	g := newGateway(t, answering(t, okAnswer), setup{cfg: func(c *Config) { c.IdleTimeout = idle }})
	c := dial(t, g)
	for range 3 {
		c.say(aGet)
		c.answer("GET")
	}
	began := time.Now()
	_, _ = io.ReadAll(c.r)
	if took := time.Since(began); took < idle-idle/8-50*time.Millisecond {
		t.Errorf("closed after %v", took)
	}
	if n := g.metric(`antirobot_http_limits_total{limit="idle_timeout"}`); n != "1" {
		t.Errorf("the limit was counted %s times", n)
	}
}
