package h1

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"antirobot/proxy/upstream"
)

const (
	wsAsk = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
	wsYes = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		"x\r\n\r\n"
)

// echoing upgrades and echoes its input in upper case.
func echoing(t testing.TB) *service {
	return newService(t, func(k *talk) {
		if h := k.head(); !strings.Contains(h, "Connection: Upgrade\r\nUpgrade: WebSocket\r\n") {
			t.Errorf("the service saw %q", h)
		}
		k.say(wsYes + "early")
		b := make([]byte, 100)
		for {
			_ = k.SetReadDeadline(time.Now().Add(60 * time.Second))
			n, err := k.r.Read(b)
			if err != nil {
				k.say("bye")
				return
			}
			k.say(strings.ToUpper(string(b[:n])))
		}
	})
}

// TestTunnel: bytes flow both ways, including early ones, and a half-closed side still receives everything from the
// other.
func TestTunnel(t *testing.T) {
	s := echoing(t)
	results := make(chan outcome, 1)
	g := newGateway(t, s, setup{results: results})
	c1 := dial(t, g)
	c1.say(wsAsk + "soon")
	if h := c1.head(); !strings.HasPrefix(h, "HTTP/1.1 101 ") || !strings.Contains(h, "Connection: Upgrade\r\n") ||
		!strings.Contains(h, "Upgrade: websocket\r\n") {
		t.Fatalf("got %q", h)
	}
	expect := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(c1.r, b); err != nil || string(b) != want {
			t.Fatalf("got %q %v, want %q", b, err, want)
		}
	}
	expect("earlySOON")
	c1.say("more")
	expect("MORE")
	if g.metric("antirobot_http_open_tunnels") != "1" {
		t.Error("the tunnel is not counted")
	}
	_ = c1.Conn.(interface{ CloseWrite() error }).CloseWrite()
	expect("bye")
	c1.closes()
	if o := <-results; o.err != nil || !o.res.Upgraded || o.res.Status != 101 || o.res.BytesIn != 8 {
		t.Errorf("Forward returned %+v", o)
	}
	if g.metric("antirobot_http_open_tunnels") != "0" {
		t.Error("the tunnel is still counted")
	}
}

// TestUpgradeOnlyForWebSockets: any other upgrade request is treated as an ordinary request.
func TestUpgradeOnlyForWebSockets(t *testing.T) {
	for _, c := range []struct{ name, req string }{
		{"h2c", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"},
		{"no key", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: " +
			"13\r\n\r\n"},
		{"no Connection", strings.Replace(wsAsk, "Connection: keep-alive, Upgrade\r\n", "", 1)},
		{"two protocols", strings.Replace(wsAsk, "WebSocket\r\n", "websocket, h2c\r\n", 1)},
		{"twice", strings.Replace(wsAsk, "Upgrade: WebSocket\r\n", "Upgrade: websocket\r\nUpgrade: h2c\r\n", 1)},
		{"POST", strings.Replace(wsAsk, "GET", "POST", 1)},
		{"1.0", strings.Replace(wsAsk, "HTTP/1.1", "HTTP/1.0", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, func(k *talk) {
				for {
					h := k.head()
					if h == "" {
						return
					}
					if strings.Contains(h, "\r\nUpgrade:") || strings.Contains(h, "\r\nConnection:") ||
						strings.Contains(h, "HTTP2-Settings") {
						t.Errorf("the service saw %q", h)
					}
					k.say(wsYes) // unasked
				}
			})
			g := newGateway(t, s, setup{})
			c1 := dial(t, g)
			c1.say(c.req)
			if resp, _ := c1.answer("GET"); resp.StatusCode != 502 {
				t.Errorf("got %d", resp.StatusCode)
			}
		})
	}
}

func TestTunnelIdleTimeout(t *testing.T) {
	s := echoing(t)
	// more than a busy machine keeps a byte
	g := newGateway(t, s, setup{upstream: func(c *upstream.Config) { c.TunnelIdleTimeout = 3 * time.Second }})
	c1 := dial(t, g)
	c1.say(wsAsk)
	c1.head()
	for range 70 { // longer than the timeout, but not idle
		time.Sleep(50 * time.Millisecond)
		c1.say("x")
	}
	if echoed, err := c1.rest(); isTimeout(err) || !strings.HasSuffix(echoed, strings.Repeat("X", 70)) {
		t.Errorf("%q came back, then %v; want 70 bytes and the end", echoed, err)
	}
}

// TestDrain: idle connections are closed at once, requests end with Connection: close, tunnels and streams
// have until the end of the context.
func TestDrain(t *testing.T) {
	asked, release := make(chan bool), make(chan bool)
	s := newService(t, func(k *talk) {
		h := k.head()
		if strings.Contains(h, "GET /ws") {
			k.say(wsYes)
			_, _ = io.Copy(k, k.r)
			return
		}
		close(asked)
		<-release
		k.say(okAnswer)
		k.head()
	})
	g := newGateway(t, s, setup{})
	idleOne, busy, tunnelled, fresh := dial(t, g), dial(t, g), dial(t, g), dial(t, g)
	busy.say(aGet)
	tunnelled.say(wsAsk)
	tunnelled.head()
	idleOne.say("OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n") // answered by the gateway itself
	idleOne.answer("OPTIONS")
	<-asked
	waitFor(t, func() bool { return g.metric("antirobot_http_open_connections") == "4" }) // fresh has been accepted

	ctx, end := context.WithCancel(context.Background())
	defer end()
	down := make(chan error, 1)
	go func() { down <- g.srv.Shutdown(ctx) }()
	idleOne.closes()
	fresh.closes()
	close(release)
	if resp, body := busy.answer("GET"); body != "ok" || !resp.Close {
		t.Errorf("the request under way got %v %q", resp, body)
	}
	busy.closes()
	tunnelled.say("still")
	b := make([]byte, 5)
	if _, err := io.ReadFull(tunnelled.r, b); err != nil || string(b) != "still" {
		t.Errorf("the tunnel was cut: %q %v", b, err)
	}
	end()
	_, _ = tunnelled.rest()
	if err := <-down; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown returned %v", err)
	}
}
