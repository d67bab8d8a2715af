package h1

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"antirobot/proxy/upstream"
)

// TestLimits: each limit has its status, its count, and a closed connection.
func TestLimits(t *testing.T) {
	small := func(c *Config) {
		c.MaxHeaderBytes, c.MaxHeaderFields, c.MaxBodyBytes = 2048, 20, 10
		c.HeaderTimeout, c.ReadTimeout = 150*time.Millisecond, 150*time.Millisecond
	}
	const post = "POST / HTTP/1.1\r\nHost: a\r\n"
	for _, c := range []struct {
		name, raw string
		status    int
		metric    string
	}{
		{
			"target", "GET /" + strings.Repeat("a", 600) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414,
			`antirobot_http_bad_requests_total{reason="target_too_long"}`,
		},
		{
			"endless target", "GET /" + strings.Repeat("a", 1800), 414,
			`antirobot_http_bad_requests_total{reason="target_too_long"}`,
		},
		{
			"header", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 2048) + "\r\n\r\n", 431,
			`antirobot_http_bad_requests_total{reason="header_too_long"}`,
		},
		{
			"endless header", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: a\r\n", 1000), 431,
			`antirobot_http_bad_requests_total{reason="header_too_long"}`,
		},
		{
			"fields", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: a\r\n", 20) + "\r\n", 431,
			`antirobot_http_bad_requests_total{reason="too_many_fields"}`,
		},
		{"body", post + "Content-Length: 11\r\n\r\nhello world", 413, `antirobot_http_limits_total{limit="body_size"}`},
		{
			"chunked body", post + "Transfer-Encoding: chunked\r\n\r\n8\r\nhello wo\r\n3\r\nrld\r\n0\r\n\r\n", 413,
			`antirobot_http_limits_total{limit="body_size"}`,
		},
		{
			"slow head", "GET / HTTP/1.1\r\nHost: a\r\n", 408,
			`antirobot_http_bad_requests_total{reason="header_timeout"}`,
		},
		{"slow body", post + "Content-Length: 5\r\n\r\nhel", 408, `antirobot_http_limits_total{limit="body_timeout"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := answering(t, okAnswer)
			g := newGateway(t, s, setup{cfg: small})
			c1 := dial(t, g)
			c1.say(c.raw)
			if resp, _ := c1.answer("GET"); resp.StatusCode != c.status || !resp.Close {
				t.Errorf("got %v", resp)
			}
			c1.closes()
			if got := g.metric(c.metric); got != "1" {
				t.Errorf("%s is %q", c.metric, got)
			}
		})
	}
}

// TestSlowloris: a head that trickles in has one deadline for the whole, not one for each byte.
func TestSlowloris(t *testing.T) {
	g := newGateway(t, nil, setup{cfg: func(c *Config) { c.HeaderTimeout = 300 * time.Millisecond }})
	c1 := dial(t, g)
	go func() { // until it is cut: a deadline that moved with each byte would never come
		for {
			if _, err := c1.Write([]byte("G")); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	if resp, _ := c1.answer("GET"); resp.StatusCode != 408 {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// TestSlowUploadIsNoTimeout: deadlines roll; a body may take longer than any of them, and the service is not slow for
// it.
func TestSlowUploadIsNoTimeout(t *testing.T) {
	s := answering(t, okAnswer)
	results := make(chan outcome, 1)
	g := newGateway(t, s, setup{
		results:  results,
		cfg:      func(c *Config) { c.ReadTimeout = 3 * time.Second }, // more than a busy machine keeps a byte
		upstream: func(c *upstream.Config) { c.ResponseTimeout = 3 * time.Second },
	})
	c1 := dial(t, g)
	c1.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 70\r\n\r\n")
	for range 70 {
		time.Sleep(50 * time.Millisecond)
		c1.say("x")
	}
	if resp, _ := c1.answer("POST"); resp.StatusCode != 200 {
		t.Errorf("got %d", resp.StatusCode)
	}
	if o := <-results; o.res.HeadAt < 3400*time.Millisecond || o.res.HeadAt-o.res.Waited < 3*time.Second {
		t.Errorf("the head came after %v, of which the service took %v", o.res.HeadAt, o.res.Waited)
	}
}

func TestIdleConnectionsCloseSilently(t *testing.T) {
	s := answering(t, okAnswer)
	g := newGateway(t, s, setup{cfg: func(c *Config) {
		c.IdleTimeout, c.HeaderTimeout = 100*time.Millisecond,
			100*time.Millisecond
	}})
	dial(t, g).closes() // never said anything
	c2 := dial(t, g)
	c2.say(aGet)
	c2.answer("GET")
	c2.say("\r\n") // still idle
	c2.closes()
}

func TestUpstreamTimeouts(t *testing.T) {
	s := newService(t, func(k *talk) {
		r, _ := k.request(true)
		if r != nil && r.URL.Path == "/body" {
			k.say("HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\nabc")
		}
		k.head()
	})
	g := newGateway(t, s, setup{upstream: func(c *upstream.Config) {
		c.ResponseTimeout, c.StreamIdleTimeout = 200*time.Millisecond, 200*time.Millisecond
	}})
	c1 := dial(t, g)
	c1.say(aGet)
	if resp, _ := c1.answer("GET"); resp.StatusCode != 504 {
		t.Errorf("got %d", resp.StatusCode)
	}
	c1.say("GET /body HTTP/1.1\r\nHost: a\r\n\r\n")
	if all, _ := c1.rest(); !strings.HasSuffix(all, "\r\n\r\nabc") {
		t.Errorf("got %q", all)
	}
}

func TestNoUpstream(t *testing.T) {
	g := newGateway(t, nil, setup{handler: func(_ *Exchange, forward func()) { forward() }})
	c1 := dial(t, g)
	for range 2 {
		c1.say(aGet)
		if resp, _ := c1.answer("GET"); resp.StatusCode != 502 {
			t.Errorf("got %d", resp.StatusCode)
		}
	}
}

func TestConnectionLimits(t *testing.T) {
	t.Run("per address", func(t *testing.T) {
		s := answering(t, okAnswer)
		g := newGateway(t, s, setup{cfg: func(c *Config) { c.MaxConnsPerAddr = 2 }})
		c1, c2 := dial(t, g), dial(t, g)
		c1.say(aGet)
		c2.say(aGet)
		c1.answer("GET")
		c2.answer("GET")
		dial(t, g).closes()
		c1.Close()
		waitFor(t, func() bool { return g.metric("antirobot_http_open_connections") == "1" })
		c4 := dial(t, g)
		c4.say(aGet)
		c4.answer("GET")
		if g.metric(`antirobot_http_limits_total{limit="connections_per_addr"}`) != "1" {
			t.Error("not counted")
		}
	})
	t.Run("in all", func(t *testing.T) {
		g := newGateway(t, nil, setup{cfg: func(c *Config) { c.MaxConns = 1 }})
		dial(t, g)
		waitFor(t, func() bool { return g.metric("antirobot_http_open_connections") == "1" })
		dial(t, g).closes()
	})
	t.Run("requests", func(t *testing.T) {
		s := answering(t, okAnswer)
		g := newGateway(t, s, setup{cfg: func(c *Config) { c.MaxRequestsPerConn = 2 }})
		c1 := dial(t, g)
		c1.say(aGet)
		if resp, _ := c1.answer("GET"); resp.Close {
			t.Error("closed after one")
		}
		c1.say(aGet)
		if resp, _ := c1.answer("GET"); !resp.Close {
			t.Error("not closed after two")
		}
		c1.closes()
	})
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it never happens")
}

// TestPanicCostsOneConnection: a handler that panics ends its connection and no other.
func TestPanicCostsOneConnection(t *testing.T) {
	s := answering(t, okAnswer)
	g := newGateway(t, s, setup{handler: func(x *Exchange, forward func()) {
		if string(x.View.Path) == "/panic" {
			panic("test")
		}
		forward()
	}})
	c1 := dial(t, g)
	c1.say("POST /panic HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
	if resp, _ := c1.answer("POST"); resp.StatusCode != http.StatusInternalServerError || !resp.Close {
		t.Errorf("got %v", resp)
	}
	c1.closes()
	c2 := dial(t, g)
	c2.say(aGet)
	c2.answer("GET")
	if g.metric("antirobot_http_panics_total") != "1" {
		t.Error("not counted")
	}
}

// TestForgottenAnswer: a handler that neither replies nor forwards gives 500.
func TestForgottenAnswer(t *testing.T) {
	g := newGateway(t, nil, setup{handler: func(*Exchange, func()) {}})
	c1 := dial(t, g)
	for range 2 {
		c1.say(aGet)
		if resp, _ := c1.answer("GET"); resp.StatusCode != 500 {
			t.Errorf("got %v", resp)
		}
	}
}

// TestPrepareDropsNothing: new limits apply to the next request on a connection that stays open.
func TestPrepareDropsNothing(t *testing.T) {
	s := answering(t, okAnswer)
	g := newGateway(t, s, setup{})
	c1 := dial(t, g)
	c1.say(aGet)
	c1.answer("GET")
	cfg := DefaultConfig()
	cfg.MaxHeaderBytes = 1024
	commit, err := g.srv.Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	time.Sleep(10 * time.Millisecond)
	c1.say(aGet) // takes the new configuration at its end
	c1.answer("GET")
	c1.say("GET /" + strings.Repeat("a", 300) + " HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, _ := c1.answer("GET"); resp.StatusCode != 414 {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// TestSlowClientIsCut: a client that does not read its response for write_timeout loses it.
func TestSlowClientIsCut(t *testing.T) {
	s := newService(t, func(k *talk) {
		k.request(true)
		k.say("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
		b := make([]byte, 1<<20)
		for range 100 {
			if _, err := k.Write(b); err != nil {
				return
			}
		}
	})
	results := make(chan outcome, 1)
	g := newGateway(t, s, setup{results: results, cfg: func(c *Config) { c.WriteTimeout = 200 * time.Millisecond }})
	c1 := dial(t, g)
	_ = c1.Conn.(*net.TCPConn).SetReadBuffer(4096)
	c1.say(aGet)
	select {
	case o := <-results:
		if Status(o.err) != 0 {
			t.Errorf("Forward returned %v", o.err)
		}
	case <-time.After(60 * time.Second):
		t.Error("still being served")
	}
	if g.metric(`antirobot_http_limits_total{limit="write_timeout"}`) != "1" {
		t.Error("not counted")
	}
}

// TestViewIsTheRequest: the handler sees the bytes that are forwarded.
func TestViewIsTheRequest(t *testing.T) {
	var got string
	g := newGateway(t, nil, setup{handler: func(x *Exchange, _ func()) {
		v := &x.View
		got = fmt.Sprintf("%s|%s|%s|%s|%s|%s|%d|%v|%v|%v|%d|%v|%d", v.Method, v.Host, v.HostPort, v.Target, v.Path,
			v.Query,
			len(v.Fields), v.Peer, v.TLS, v.HTTP10, max(x.h.Length, 0), x.h.WebSocket(), x.c.requests)
		_ = x.Reply(200, nil, nil)
	}})
	c1 := dial(t, g)
	for _, c := range []struct{ req, want string }{
		{
			"GET /a?b?c HTTP/1.1\r\nHost: WWW.Example.COM.:80\r\nX: y\r\n\r\n",
			"GET|www.example.com|WWW.Example.COM.:80|/a?b?c|/a|b?c|2|127.0.0.1|false|false|0|false|1",
		},
		{"GET /a? HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET|||/a?|/a||1|127.0.0.1|false|true|0|false|2"},
		{
			"POST http://[::1]/ HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 0\r\n\r\n",
			"POST|[::1]|[::1]|/|/||2|127.0.0.1|false|false|0|false|3",
		},
		{wsAsk, "GET|a|a|/ws|/ws||5|127.0.0.1|false|false|0|true|4"},
	} {
		c1.say(c.req)
		c1.answer("GET")
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestConfigReportsAllFaults(t *testing.T) {
	good := DefaultConfig()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	var zero Config
	err := zero.Validate()
	for _, want := range []string{"max_header_bytes: ", "header_timeout: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// TestBalancersSendAll: an answer that comes before the end of a body breaks no balancer's connection, however long the
// body is.
func TestBalancersSendAll(t *testing.T) {
	f := func(who Balancers, all bool) {
		t.Helper()
		g := newGateway(t, nil, setup{
			cfg:      func(c *Config) { c.LingerBytes, c.LingerTimeout = 1<<10, 300*time.Millisecond },
			listener: ListenerOptions{Trusted: who},
			handler:  func(x *Exchange, _ func()) { _ = x.Reply(403, nil, nil) },
		})
		c := dial(t, g)
		c.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n")
		piece := make([]byte, 1<<20)
		var err error
		for n := 0; n < 64 && err == nil; n++ {
			_, err = c.Write(piece)
			if n == 32 {
				time.Sleep(2 * 300 * time.Millisecond)
			}
		}
		if (err == nil) != all {
			t.Errorf("a balancer: %t: %v", all, err)
		}
		if !all {
			return
		}
		if resp, _ := c.answer("POST"); resp.StatusCode != 403 {
			t.Errorf("answered %d", resp.StatusCode)
		}
		_ = c.Close()
	}
	f(localTrusted, true)
	f(nil, false)
}

// TestAmbiguousRequestsAreRefused is pitfall 9: each request is answered at once with an error and a closed connection,
// and the service sees nothing of it. e2e/blackbox sends many more.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	s := answering(t, okAnswer)
	g := newGateway(t, s, setup{})
	const get = "GET / HTTP/1.1\r\nHost: a\r\n"
	const post = "POST / HTTP/1.1\r\nHost: a\r\n"
	for _, c := range []struct {
		name, raw, status string
	}{
		{"CL and TE", post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE and identity", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "400"},
		{"TE folded", post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE after a bare CR", post + "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"bare LF lines", "GET / HTTP/1.1\nHost: a\n\n", "400"},
		{"two Hosts", get + "Host: b\r\n\r\n", "400"},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", "400"},
		{"Host only port", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", "400"},
		{"Host a dot", "GET / HTTP/1.1\r\nHost: .\r\n\r\n", "400"},
		{"absolute-form other port", "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"absolute-form without Host", "GET http://a/ HTTP/1.1\r\n\r\n", "400"},
		{"authority-form", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
		{"HTTPS/1.1", "GET / HTTPS/1.1\r\nHost: a\r\n\r\n", "400"},
		{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"},
		{"unknown expectation", post + "Content-Length: 1\r\nExpect: 200-maybe\r\n\r\na", "417"},
		{"two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"Connection not a token", get + "Connection: a b\r\n\r\n", "400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c1 := dial(t, g)
			_ = c1.SetReadDeadline(time.Now().Add(60 * time.Second))
			c1.say(c.raw)
			// What follows must not be taken for a request.
			_, _ = c1.Write([]byte("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"))
			all, err := c1.rest()
			if isTimeout(err) {
				t.Fatal("not closed")
			}
			if !strings.HasPrefix(all, "HTTP/1.1 "+c.status+" ") || strings.Count(all, "HTTP/1.1 ") != 1 {
				t.Fatalf("want one %s, got %q", c.status, all)
			}
			if !strings.Contains(all, "\r\nConnection: close\r\n") {
				t.Errorf("no Connection: close in %q", all)
			}
		})
	}
	if seen := s.got(); seen != "" {
		t.Errorf("the service saw %q", seen)
	}
}
