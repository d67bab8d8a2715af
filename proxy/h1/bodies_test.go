package h1

import (
	"errors"
	"strings"
	"testing"
	"time"
)

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
