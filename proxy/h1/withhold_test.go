package h1

import (
	"strings"
	"testing"
)

// TestWithhold: an answer whose field says so is withheld, the handler answers instead, and the service's connection
// serves on where its body had a length.
func TestWithhold(t *testing.T) {
	f := func(name, answer string, held bool, conns int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			s := answering(t, answer)
			results := make(chan outcome, 2)
			g := newGateway(t, s, setup{results: results, handler: func(x *Exchange, forward func()) {
				forward()
				if !x.Answered() {
					_ = x.Reply(200, nil, []byte("asked"))
				}
			}, options: ForwardOptions{HoldField: "X-Hold", Hold: func(v []byte) bool { return string(v) == "yes" }}})
			c := dial(t, g)
			for range 2 {
				c.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
				_, body := c.answer("POST")
				if (body == "asked") != held || strings.Contains(body, "secret") == held {
					t.Errorf("the client got %q", body)
				}
				if o := <-results; o.err != nil || o.res.Held != held {
					t.Errorf("%+v", o)
				}
			}
			if n := s.connections(); n != conns {
				t.Errorf("%d connections, wanted %d", n, conns)
			}
		})
	}
	f("with a length", "HTTP/1.1 403 No\r\nX-Hold: yes\r\nContent-Length: 6\r\n\r\nsecret", true, 1)
	f("without a body", "HTTP/1.1 204 No\r\nx-hold: yes\r\n\r\n", true, 1)
	f("in chunks", "HTTP/1.1 403 No\r\nX-Hold: yes\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nsecret\r\n0\r\n\r\n", true,
		2)
	f("another value", "HTTP/1.1 403 No\r\nX-Hold: no\r\nContent-Length: 6\r\n\r\nsecret", false, 1)
	f("another field", "HTTP/1.1 403 No\r\nX-Held: yes\r\nContent-Length: 6\r\n\r\nsecret", false, 1)
}
