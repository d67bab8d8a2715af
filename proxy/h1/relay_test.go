package h1

import (
	"io"
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
