package h1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/proxy/upstream"
	"antirobot/request"
)

const aGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// TestBadAnswersBecome502: an answer that could be read in two ways is not passed on, and its connection not reused.
func TestBadAnswersBecome502(t *testing.T) {
	for _, c := range []struct{ name, raw string }{
		{"not HTTP", "hello world, this is no HTTP\r\n\r\n"},
		{"bad version", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"},
		{"bad status", "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n"},
		{"status 000", "HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n"},
		{"status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"},
		{"CL and TE", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"two CL", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"},
		{"CL list", "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok"},
		{"CL minus", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok"},
		{"CL text", "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok"},
		{"TE gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{"TE twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"TE on 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"fold", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n"},
		{"NUL", "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n"},
		{"bare CR", "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"},
		{"bare CR in reason", "HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n"},
		{"no colon", "HTTP/1.1 200 OK\r\nX\r\nContent-Length: 0\r\n\r\n"},
		{"space in name", "HTTP/1.1 200 OK\r\nX Y: z\r\nContent-Length: 0\r\n\r\n"},
		{"big header", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 70<<10) + "\r\nContent-Length: 0\r\n\r\n"},
		{"unasked 101", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
		{"flood of 103", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100) + okAnswer},
		{"end before an answer", ""},
		{"end within the head", "HTTP/1.1 200 OK\r\nContent-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, func(k *talk) {
				if k.n == 1 {
					k.request(true)
					k.say(c.raw)
					if strings.HasPrefix(c.name, "end") {
						return
					}
				}
				for {
					if r, _ := k.request(true); r == nil {
						return
					}
					k.say(okAnswer)
				}
			})
			g := newGateway(t, s, setup{handler: func(x *Exchange, forward func()) { forward() }})
			c1 := dial(t, g)
			c1.say(aGet)
			if strings.HasPrefix(c.name, "flood") {
				for range maxInterim {
					c1.head()
				}
			}
			if resp, _ := c1.answer("GET"); resp.StatusCode != 502 {
				t.Fatalf("got %d", resp.StatusCode)
			}
			c1.say(aGet) // the client's connection is fine
			if resp, body := c1.answer("GET"); resp.StatusCode != 200 || body != "ok" {
				t.Fatalf("then got %d %q", resp.StatusCode, body)
			}
			if n := s.connections(); n != 2 {
				t.Errorf("%d connections to the service, want 2", n)
			}
		})
	}
}

// TestAnswersAreRelayed: responses arrive unchanged, including what fasthttp would change by default.
func TestAnswersAreRelayed(t *testing.T) {
	const get10 = "GET / HTTP/1.0\r\nHost: a\r\n\r\n"
	const head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
	const hop = "HTTP/1.1 200 OK\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n" +
		"Proxy-Connection: x\r\nUpgrade: h2c\r\nX-End: 2\r\nContent-Length: 0\r\n\r\n"
	for _, c := range []struct {
		name, req, answer, want string
		closes                  bool
	}{
		{"length", aGet, okAnswer, okAnswer, false},
		{
			"nothing is invented", aGet, "HTTP/1.1 299 My Reason\r\nx-a: b\r\nX-A: c\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 299 My Reason\r\nx-a: b\r\nX-A: c\r\nContent-Length: 0\r\n\r\n", false,
		},
		{
			"no reason", aGet, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
			false,
		},
		{
			"odd status", aGet, "HTTP/1.1 799 X\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 799 X\r\nContent-Length: 0\r\n\r\n", false,
		},
		{
			"chunked", aGet, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;ext\r\nok\r\n0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false,
		},
		{
			"chunked, sizes padded", aGet, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2  \r\nok\r\n0 " +
				"\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false,
		},
		{
			"trailers", aGet, "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: " +
				"chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nSet-Cookie: a=b\r\nContent-Length: 3\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: " +
				"1\r\n\r\n", false,
		},
		{"chunked for 1.0", get10, "HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok", true},
		{
			"1.0 keep-alive", "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", okAnswer,
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok", false,
		},
		{"1.0 close", get10, okAnswer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", true},
		{
			"1.1 close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", okAnswer,
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", true,
		},
		{
			"service closes", aGet, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", okAnswer,
			false,
		},
		{
			"HEAD with length", head, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", false,
		},
		{
			"HEAD chunked", head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n",
			false,
		},
		{
			"identity with length", aGet, "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: " +
				"2\r\n\r\nok",
			okAnswer, false,
		},
		{
			"HEAD with identity", head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: Identity\r\nContent-Length: 1000\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", false,
		},
		{"204", aGet, "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", false},
		{
			"204 with length", aGet, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 204 No Content\r\n\r\n", false,
		},
		{
			"304 with length", aGet, "HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 99\r\n\r\n",
			"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 99\r\n\r\n", false,
		},
		{
			"two equal lengths", aGet, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", okAnswer,
			false,
		},
		{"lone LF", aGet, "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", okAnswer, false},
		{
			"space before colon", aGet, "HTTP/1.1 200 OK\r\nX : y\r\nContent-Length : 2\r\n\r\nok",
			"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\nok", false,
		},
		{"hop by hop", aGet, hop, "HTTP/1.1 200 OK\r\nX-End: 2\r\nContent-Length: 0\r\n\r\n", false},
		{"426 keeps Upgrade", aGet, "HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: " +
			"websocket\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 426 Upgrade Required\r\nUpgrade: " +
			"websocket\r\nContent-Length: 0\r\nConnection: Upgrade\r\n\r\n", false},
		{
			"103 is passed on", aGet, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + okAnswer,
			"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + okAnswer, false,
		},
		{
			"103 not to 1.0", get10, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + okAnswer,
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", true,
		},
		{"unasked 100 is dropped", aGet, "HTTP/1.1 100 Continue\r\n\r\n" + okAnswer, okAnswer, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, func(k *talk) {
				for {
					r, _ := k.request(true)
					if r == nil {
						return
					}
					if r.URL.Path == "/again" {
						k.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain")
						continue
					}
					k.say(c.answer)
					if strings.Contains(c.answer, "Connection: close") {
						return
					}
				}
			})
			g := newGateway(t, s, setup{})
			c1 := dial(t, g)
			c1.say(c.req)
			if c.closes {
				if got, err := c1.rest(); got != c.want || err != nil {
					t.Fatalf("got  %q %v\nwant %q", got, err, c.want)
				}
				return
			}
			b := make([]byte, len(c.want))
			if _, err := io.ReadFull(c1.r, b); err != nil || string(b) != c.want {
				t.Fatalf("got  %q %v\nwant %q", b, err, c.want)
			}
			c1.say("GET /again HTTP/1.1\r\nHost: a\r\n\r\n")
			if _, body := c1.answer("GET"); body != "again" {
				t.Fatalf("the next answer is %q", body)
			}
		})
	}
}

// TestRequestHeadersOnTheirWay is pitfall 6: hop-by-hop fields are removed, ours replace the client's, and no field for
// framing, routing or the body's type can be removed by nomination.
func TestRequestHeadersOnTheirWay(t *testing.T) {
	s := answering(t, okAnswer)
	g := newGateway(t, s, setup{options: ForwardOptions{
		SetFields: []request.Field{field("X-Forwarded-For", "1.2.3.4"), field("X-Request-Id", "id")},
		Drop: func(n []byte) bool {
			return request.HasPrefixFold(n, "x-antirobot-") || request.HasPrefixFold(n, "x-accel-")
		},
		DropCookies: []string{"i", "spravka"},
	}})
	c1 := dial(t, g)
	c1.say("POST /p HTTP/1.1\r\nAccept: */*\r\nhOST: a\r\nX-Forwarded-For: 9.9.9.9\r\nx_forwarded_for: 9.9.9.9\r\n" +
		"X-Request-ID: mine\r\nX-Antirobot-Verdict: human\r\nX-Accel-Redirect: /x\r\n" +
		"Connection: X-Drop, X-Forwarded-Proto, Host, Content-Length, Content-Type, close\r\nX-Drop: " +
		"1\r\nX-Forwarded-Proto: https\r\n" +
		"Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nTE: gzip\r\nUpgrade: h2c\r\n" +
		"HTTP2-Settings: AA\r\nContent_Length: 100\r\nTransfer_Encoding: chunked\r\nX.Forwarded.For: " +
		"9.9.9.9\r\nX_Custom: kept\r\n" +
		"Content-Type: text/plain\r\nCookie: a=1; i=2;b=3\r\nCookie: spravka=x\r\nContent-Length: 2\r\nLast: " +
		"1\r\n\r\nhi")
	c1.answer("POST")
	want := "POST /p HTTP/1.1\r\nAccept: */*\r\nhOST: a\r\nX-Forwarded-Proto: https\r\nX_Custom: kept\r\n" +
		"Content-Type: text/plain\r\nCookie: a=1; b=3\r\nContent-Length: 2\r\nLast: 1\r\nX-Forwarded-For: " +
		"1.2.3.4\r\nX-Request-Id: id\r\n\r\nhi"
	if got := s.got(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestRetryOnce: a bodiless request on a pooled connection that just died is retried once; no other request is.
func TestRetryOnce(t *testing.T) {
	for _, c := range []struct {
		name, second string
		want, conns  int
	}{
		{"GET", "GET /second HTTP/1.1\r\nHost: a\r\n\r\n", 200, 2},
		{"POST", "POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 502, 1},
		{"PUT with body", "PUT /second HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", 502, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, func(k *talk) {
				for {
					r, _ := k.request(true)
					if r == nil || r.URL.Path == "/second" && k.n == 1 {
						return // dies with the request in hand
					}
					k.say(okAnswer)
				}
			})
			g := newGateway(t, s, setup{})
			c1 := dial(t, g)
			c1.say(aGet)
			c1.answer("GET")
			c1.say(c.second)
			if resp, _ := c1.answer("GET"); resp.StatusCode != c.want || s.connections() != c.conns {
				t.Errorf("got %d over %d connections", resp.StatusCode, s.connections())
			}
		})
	}
	t.Run("only once", func(t *testing.T) {
		s := newService(t, func(k *talk) {
			if r, _ := k.request(true); r != nil && r.URL.Path == "/first" {
				k.say(okAnswer)
				k.request(true)
			}
		})
		g := newGateway(t, s, setup{})
		c1 := dial(t, g)
		c1.say("GET /first HTTP/1.1\r\nHost: a\r\n\r\n")
		c1.answer("GET")
		c1.say("GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
		if resp, _ := c1.answer("GET"); resp.StatusCode != 502 || s.connections() != 2 {
			t.Errorf("got %d over %d connections", resp.StatusCode, s.connections())
		}
	})
}

// TestLateAnswerIsNotPoison: bytes that follow an answer never become the next client's.
func TestLateAnswerIsNotPoison(t *testing.T) {
	for _, together := range []bool{true, false} {
		said := make(chan bool, 3)
		s := newService(t, func(k *talk) {
			for {
				r, _ := k.request(true)
				if r == nil {
					return
				}
				const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
				if together {
					k.say(okAnswer + poison)
				} else {
					k.say(okAnswer)
					time.Sleep(20 * time.Millisecond)
					k.say(poison)
				}
				said <- true
			}
		})
		g := newGateway(t, s, setup{})
		c1 := dial(t, g)
		for range 3 {
			c1.say(aGet)
			if _, body := c1.answer("GET"); body != "ok" {
				t.Fatalf("together %v: got %q", together, body)
			}
			<-said
			time.Sleep(20 * time.Millisecond) // over the loopback
		}
	}
}

// TestUnreadableHeadTakesNoAddressOut: servers that answer HEAD in a way that can't be read answer GET well.
func TestUnreadableHeadTakesNoAddressOut(t *testing.T) {
	s := newService(t, func(k *talk) {
		for {
			r, _ := k.request(true)
			switch {
			case r == nil:
				return
			case r.Method == "HEAD":
				k.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: compress\r\n\r\n")
				return
			}
			k.say(okAnswer)
		}
	})
	g := newGateway(t, s, setup{upstream: func(c *upstream.Config) { c.MaxFails = 2 }})
	c := dial(t, g)
	for range 3 {
		c.say("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, _ := c.answer("HEAD"); r.StatusCode != 502 {
			t.Fatalf("HEAD got %d", r.StatusCode)
		}
	}
	if st := g.g.Healthy(); !st[0].Up || st[0].Fails != 0 {
		t.Errorf("after three HEADs: %+v", st[0])
	}
}

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

// TestStreamedPiecesArriveAtOnce is pitfall 25: an event reaches the client before the next one is sent.
func TestStreamedPiecesArriveAtOnce(t *testing.T) {
	for _, c := range []struct{ name, head, piece, end string }{
		{
			"chunked", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
			"9\r\ndata: x\n\n\r\n", "0\r\n\r\n",
		},
		{"closing", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "data: x\n\n", ""},
		{
			"length", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 27\r\n\r\n", "data: x\n\n",
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := make(chan bool)
			s := newService(t, func(k *talk) {
				k.request(true)
				k.say(c.head)
				for <-next {
					k.say(c.piece)
				}
				k.say(c.end)
			})
			g := newGateway(t, s, setup{})
			c1 := dial(t, g)
			c1.say(aGet)
			h := c1.head() // before any piece
			for range 3 {
				next <- true
				if strings.Contains(h, "chunked") {
					if line, _ := c1.r.ReadString('\n'); line != "9\r\n" {
						t.Fatalf("chunk size %q", line)
					}
				}
				b := make([]byte, 9)
				if _, err := io.ReadFull(c1.r, b); err != nil || string(b) != "data: x\n\n" {
					t.Fatalf("got %q %v", b, err)
				}
				if strings.Contains(h, "chunked") {
					_, _ = c1.r.Discard(2)
				}
			}
			next <- false
		})
	}
}

// TestShortAnswersTakeOneWrite: head and body that the service sends separately still leave together. On a busy machine
// the second may come too late, but not twenty times.
func TestShortAnswersTakeOneWrite(t *testing.T) {
	s := newService(t, func(k *talk) {
		for {
			if r, _ := k.request(true); r == nil {
				return
			}
			k.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
			time.Sleep(time.Millisecond)
			k.say("hello")
		}
	})
	g := newGateway(t, s, setup{})
	c1 := dial(t, g)
	b := make([]byte, 1<<10)
	for range 20 {
		c1.say(aGet)
		n, err := c1.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(string(b[:n]), "hello") {
			return
		}
		if _, err := io.ReadFull(c1.Conn, b[:5]); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("the head never waited for the body")
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

// TestCutBody: a body that ends with its connection, at whatever point, never looks complete to the service.
func TestCutBody(t *testing.T) {
	for _, sent := range []string{
		"", "5\r\nhel", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n",
		"5\r\nhello\r\n0\r\nX: y\r\n",
	} {
		whole := make(chan bool, 1)
		s := newService(t, func(k *talk) {
			r, _ := k.request(true)
			whole <- r != nil
		})
		g := newGateway(t, s, setup{})
		c := dial(t, g)
		c.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + sent)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		c.rest()
		if <-whole {
			t.Errorf("%q looked whole", sent)
		}
	}
}

// louder is a Rewriter that makes a text louder, holds it back until it must not, and leaves the length out.
type louder struct {
	held  bytes.Buffer
	w     io.Writer
	asked []int // for Head, by status
}

func (l *louder) Head(status int, fields []request.Field) ([]request.Field, bool) {
	l.asked = append(l.asked, status)
	for i := range fields {
		if request.EqualFold(fields[i].Name, "X-Keep") {
			return fields, false
		}
	}
	return slices.DeleteFunc(fields, func(f request.Field) bool { return request.EqualFold(f.Name, "ETag") }), true
}

func (l *louder) Body(w io.Writer, r io.Reader) error {
	l.w = w
	defer func() { l.w = nil }()
	var p [3]byte
	for {
		n, err := r.Read(p[:])
		l.held.Write(bytes.ToUpper(p[:n]))
		switch {
		case err == io.EOF:
			return l.Flush()
		case err != nil:
			return err
		case bytes.Contains(l.held.Bytes(), []byte("!")):
			return errors.Join(l.Flush(), map[bool]error{true: errors.New("too loud")}[bytes.Contains(p[:n],
				[]byte("?"))])
		}
	}
}

func (l *louder) Flush() error {
	if l.w == nil {
		return nil
	}
	_, err := l.w.Write(l.held.Bytes())
	l.held.Reset()
	return err
}

// TestRewrite: a body that is made anew on its way, however the service frames it, and what becomes of the connections.
func TestRewrite(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nTrailer: Digest\r\n"
	answers := map[string]string{
		"/length":  head + "Content-Length: 5\r\n\r\nhello",
		"/chunked": head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nDigest: x\r\n\r\n",
		"/kept":    "HTTP/1.1 200 OK\r\nX-Keep: 1\r\nContent-Length: 5\r\n\r\nhello",
		"/empty":   head + "Content-Length: 0\r\n\r\n",
		"/short":   head + "Content-Length: 5\r\n\r\nhell",
		"/early":   head + "Content-Length: 8\r\n\r\nhey!more",
		"/broken":  head + "Content-Length: 4\r\n\r\n!?no",
		"/end":     head + "\r\nhello",
	}
	s := newService(t, func(c *talk) {
		for {
			r, _ := c.request(true)
			if r == nil {
				return
			}
			answer := answers[r.URL.Path]
			if r.Method == "HEAD" {
				answer, _, _ = strings.Cut(answer, "\r\n\r\n")
				answer += "\r\n\r\n"
			}
			c.say(answer)
			if r.URL.Path == "/end" || r.URL.Path == "/short" {
				return
			}
		}
	})
	rewriter := &louder{}
	g := newGateway(t, s, setup{options: ForwardOptions{Rewrite: rewriter}})
	c := dial(t, g)
	f := func(method, path, want string, length int64) {
		t.Helper()
		c.say(method + " " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, body := c.answer(method)
		kept := path == "/kept" || path == "/empty"
		if body != want || resp.ContentLength != length || (resp.Header.Get("ETag") == "") != (path != "/empty") ||
			len(resp.Trailer) > 0 && !kept {
			t.Errorf("%s %s: %q %d %v %v", method, path, body, resp.ContentLength, resp.Header, resp.Trailer)
		}
	}
	f("GET", "/length", "HELLO", -1)
	f("GET", "/chunked", "HELLO", -1)
	f("HEAD", "/length", "", -1)
	f("GET", "/empty", "", 0)
	f("GET", "/end", "HELLO", -1)
	f("GET", "/early", "HEY!MO", -1)
	f("GET", "/length", "HELLO", -1)
	if n := s.connections(); n != 3 { // those of /end and /early have been given up
		t.Errorf("%d connections", n)
	}
	for _, path := range []string{"/short", "/broken"} {
		c := dial(t, g)
		c.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if b, _ := c.rest(); strings.HasSuffix(b, "0\r\n\r\n") {
			t.Errorf("%s ends like a whole answer: %q", path, b)
		}
	}
	old := dial(t, g)
	old.say("GET /length HTTP/1.0\r\nHost: a\r\n\r\n")
	if b, err := old.rest(); err != nil || !strings.HasSuffix(b, "\r\n\r\nHELLO") ||
		strings.Contains(b, "Content-Length") {
		t.Errorf("HTTP/1.0: %q %v", b, err)
	}
	if rewriter.w != nil || slices.Contains(rewriter.asked, 100) {
		t.Errorf("%+v", rewriter)
	}
}

// TestRewriteHTTP2: the same from a service that speaks HTTP/2, which sends the page in two halves.
func TestRewriteHTTP2(t *testing.T) {
	half := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "hel")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "hel")
		_ = http.NewResponseController(w).Flush()
		<-half
		_, _ = io.WriteString(w, "lo")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	g := newGateway(t, nil, setup{options: ForwardOptions{Rewrite: &louder{}}, upstream: func(c *upstream.Config) {
		c.URLs, c.Protocol = []string{s.URL}, "h2"
	}})
	c := dial(t, g)
	c.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if h := c.head(); !strings.Contains(strings.ToLower(h), "transfer-encoding: chunked") {
		t.Fatalf("%q", h)
	}
	b := make([]byte, len("3\r\nHEL\r\n"))
	if _, err := io.ReadFull(c.r, b); err != nil || string(b) != "3\r\nHEL\r\n" {
		t.Fatalf("%q %v", b, err)
	}
	close(half)
	b = make([]byte, len("2\r\nLO\r\n0\r\n\r\n"))
	if _, err := io.ReadFull(c.r, b); err != nil || string(b) != "2\r\nLO\r\n0\r\n\r\n" {
		t.Fatalf("%q %v", b, err)
	}
	c.say("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
	if rest, _ := c.rest(); strings.HasSuffix(rest, "0\r\n\r\n") {
		t.Errorf("ends like a whole answer: %q", rest)
	}
}
