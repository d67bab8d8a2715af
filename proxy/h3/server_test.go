package h3

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"

	"antirobot/proxy/h1"
)

// TestRequestsSayHowTheyCame: the protocol, the handshake's fingerprint, and the address that the answer goes to, which
// may change within a connection.
func TestRequestsSayHowTheyCame(t *testing.T) {
	f := newFront(t, setup{handler: func(x *h1.Exchange) {
		v := &x.View
		if !v.HTTP3 || !v.HTTP2 || !v.TLS || !strings.HasPrefix(string(v.JA4), "q13d") ||
			!strings.Contains(string(v.JA4), "h3_") {
			t.Errorf("HTTP/3 %v, HTTP/2 %v, TLS %v, JA4 %s", v.HTTP3, v.HTTP2, v.TLS, v.JA4)
		}
		reply(x, v.Peer.String())
	}})
	c := f.mustDial(t)
	res, peer, err := c.do(t, "GET", "/")
	if err != nil || peer != "127.0.0.1" || res.Header.Get("Alt-Svc") != `h3=":443"` {
		t.Fatal(peer, err, res)
	}
	pc, err := net.ListenPacket("udp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := &quic.Transport{Conn: pc}
	defer func() { _, _ = elsewhere.Close(), pc.Close() }()
	path, err := c.AddPath(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := path.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	if err := path.Switch(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); peer != "127.0.0.2"; {
		if _, peer, err = c.do(t, "GET", "/"); err != nil || time.Now().After(end) {
			t.Fatal(peer, err)
		}
	}
	_ = c.CloseWithError(0, "")
}

// TestResetsAreCounted: whoever takes requests back again and again is cut off; those who take some back are not.
func TestResetsAreCounted(t *testing.T) {
	began := make(chan struct{}, 1)
	f := newFront(t, setup{h3: func(c *Config) { c.MaxResets = 3 }, handler: func(x *h1.Exchange) {
		if string(x.View.Method) == http.MethodPost {
			began <- struct{}{}
			_, _ = x.ReadBody(1 << 20)
		}
		reply(x, "ok")
	}})
	c := f.mustDial(t)
	back := func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		body, feed := io.Pipe()
		defer feed.Close()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://site.example/", body)
		go func() {
			<-began
			cancel()
		}()
		if res, err := c.http.RoundTrip(req); err == nil {
			t.Errorf("it was answered with %d", res.StatusCode)
			_ = res.Body.Close()
		}
		f.await(t, "antirobot_http3_open_streams", "0")
	}
	for range 3 {
		back()
	}
	if _, body, err := c.do(t, "GET", "/"); err != nil || body != "ok" {
		t.Fatal(body, err)
	}
	back()
	if code := ended(t, c.Conn); code != http3.ErrCodeExcessiveLoad {
		t.Errorf("it ended with %v", code)
	}
	f.await(t, `antirobot_http3_floods_total{of="resets"}`, "1")
}

// TestResetsOfShortAnswersAreCounted: a short answer is written when nobody looks any more whether its client is there;
// and a request may be taken back before it is known whether it has a body.
func TestResetsOfShortAnswersAreCounted(t *testing.T) {
	for _, answered := range []bool{true, false} {
		t.Run("answered "+strconv.FormatBool(answered), func(t *testing.T) {
			began, finish, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
			f := newFront(t, setup{h3: func(c *Config) { c.MaxResets = 3 }, handler: func(x *h1.Exchange) {
				if string(x.View.Path) != "/back" {
					reply(x, "ok")
					return
				}
				for _, state := range []chan struct{}{began, finish} {
					select {
					case state <- struct{}{}:
					case <-gone: // the connection may end as a request begins
					}
				}
				_ = x.Reply(http.StatusNoContent, nil, nil)
			}})
			c := f.mustDial(t)
			context.AfterFunc(c.Context(), func() { close(gone) })
			// reached waits until the handler is at a state; false: the connection has ended.
			reached := func(state chan struct{}) bool {
				select {
				case <-state:
					return true
				case <-gone:
					return false
				}
			}
			back := func(s *http3.RequestStream) {
				if !answered {
					for c.Context().Err() == nil && f.metric("antirobot_http3_open_streams") != "1" {
						time.Sleep(time.Millisecond)
					}
					s.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
					return
				}
				_ = s.Close()
				if reached(began) {
					s.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
					_, _, _ = c.do(t, "GET", "/") // the gateway has read the cancellation when it answers
					reached(finish)
				}
			}
			for range 20 {
				s := c.begin(t, "/back")
				if s == nil {
					break // the connection has ended
				}
				back(s)
				f.await(t, "antirobot_http3_open_streams", "0")
			}
			if c.Context().Err() == nil {
				t.Fatal("twenty requests were taken back")
			}
			if code := ended(t, c.Conn); code != http3.ErrCodeExcessiveLoad {
				t.Errorf("it ended with %v", code)
			}
			f.await(t, `antirobot_http3_floods_total{of="resets"}`, "1")
		})
	}
}

// TestUnfinishedRequestsAreCounted: a request of which it is not known yet whether it has a body is under way.
func TestUnfinishedRequestsAreCounted(t *testing.T) {
	f := newFront(t, setup{
		h1:      func(c *h1.Config) { c.MaxRequests = 2 },
		handler: func(x *h1.Exchange) { reply(x, "ok") },
	})
	c := f.mustDial(t)
	status := make(chan int, 3)
	for range 3 {
		s := c.begin(t, "/")
		go func() {
			res, err := s.ReadResponse()
			if err != nil {
				status <- 0
				return
			}
			status <- res.StatusCode
		}()
	}
	if got := <-status; got != http.StatusServiceUnavailable {
		t.Errorf("the first answer is %d", got)
	}
	_ = c.CloseWithError(0, "")
	<-status
	<-status
}

// TestAddressesAreChecked: with many handshakes under way a client has to show its address first; an address may have
// so many connections, whichever way it was shown.
func TestAddressesAreChecked(t *testing.T) {
	for name, most := range map[string]int{"by a token": 0, "by the handshake": 10} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, setup{
				h1:      func(c *h1.Config) { c.MaxConnsPerAddr = 1 },
				h3:      func(c *Config) { c.MaxHandshakes = most },
				handler: func(x *h1.Exchange) { reply(x, "ok") },
			})
			c := f.mustDial(t)
			if _, body, err := c.do(t, "GET", "/"); err != nil || body != "ok" {
				t.Fatal(body, err)
			}
			if asked := f.metric("antirobot_http3_address_checks_total") != "0"; asked != (most == 0) {
				t.Error("a token was asked for:", asked)
			}
			if second, err := f.dial(t, nil); err == nil {
				if code := ended(t, second.Conn); code != http3.ErrCodeExcessiveLoad {
					t.Errorf("it ended with %v", code)
				}
			}
			if f.metric(`antirobot_http_limits_total{limit="connections_per_addr"}`) == "0" {
				t.Error("the limit was not reached")
			}
			_ = c.CloseWithError(0, "")
			f.await(t, "antirobot_http_open_connections", "0")
			again := f.mustDial(t)
			if _, body, err := again.do(t, "GET", "/"); err != nil || body != "ok" {
				t.Error(body, err)
			}
		})
	}
}

// TestHandshakeFlood: an address that shakes hands too often has to show that it is the client's, and is refused then.
func TestHandshakeFlood(t *testing.T) {
	f := newFront(t, setup{
		h1:      func(c *h1.Config) { c.MaxHandshakeRate = 1 },
		handler: func(x *h1.Exchange) { reply(x, "ok") },
	})
	began, served := time.Now(), 0
	for range 30 {
		c, err := f.dial(t, nil)
		if err != nil {
			continue
		}
		if _, body, err := c.do(t, "GET", "/"); err == nil && body == "ok" {
			served++
		}
		_ = c.CloseWithError(0, "")
	}
	if most := 11 + int(time.Since(began)/time.Second); served < 10 || served > most {
		t.Errorf("%d were served", served)
	}
	// each packet of a hello counts
	if n, err := strconv.Atoi(f.metric(`antirobot_http_limits_total{limit="handshake_rate"}`)); err != nil ||
		n < 30-served {
		t.Errorf("%d were refused", n)
	}
	if f.metric("antirobot_http3_address_checks_total") == "0" {
		t.Error("nobody had to show its address")
	}
}

// TestNothingEarly: a session is resumed, but no request is taken from what came before its handshake.
func TestNothingEarly(t *testing.T) {
	f := newFront(t, setup{handler: func(x *h1.Exchange) { reply(x, "ok") }})
	cfg := trusting()
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		c, err := f.dial(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.do(t, "GET", "/"); err != nil {
			t.Fatal(err)
		}
		state := c.ConnectionState()
		if state.Used0RTT || state.TLS.DidResume != (i == 1) {
			t.Errorf("connection %d: 0-RTT %v, resumed %v", i, state.Used0RTT, state.TLS.DidResume)
		}
		_ = c.CloseWithError(0, "")
	}
}

// TestClientCertificates: partners are named, and those who have to have a certificate and have none are not served.
func TestClientCertificates(t *testing.T) {
	partner := certificate(t, "partner.example")
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: partner.Certificate[0]}),
		0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := h1.LoadClientCAs(file, true)
	if err != nil {
		t.Fatal(err)
	}
	f := newFront(t, setup{clients: clients, handler: func(x *h1.Exchange) { reply(x, string(x.View.Client)) }})
	cfg := trusting()
	cfg.Certificates = []tls.Certificate{partner}
	c, err := f.dial(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, name, err := c.do(t, "GET", "/"); err != nil || name != "partner.example" {
		t.Fatal(name, err)
	}
	if stranger, err := f.dial(t, nil); err == nil {
		if _, body, err := stranger.do(t, "GET", "/"); err == nil {
			t.Errorf("a client without a certificate got %q", body)
		}
	}
	f.await(t, "antirobot_http3_failed_handshakes_total", "1")
}

// TestHeadsHaveAnEnd: a head that is not whole in time costs its request, many of them the connection; the others are
// served meanwhile.
func TestHeadsHaveAnEnd(t *testing.T) {
	f := newFront(t, setup{
		h1:      func(c *h1.Config) { c.HeaderTimeout = 4 * time.Second },
		handler: func(x *h1.Exchange) { reply(x, "ok") },
	})
	c := f.mustDial(t)
	begin := func() *quic.Stream {
		t.Helper()
		s, err := c.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write([]byte{1, 64, 100, 0}); err != nil { // HEADERS of 100 bytes
			t.Fatal(err)
		}
		return s
	}
	served := func() {
		t.Helper()
		if _, body, err := c.do(t, "GET", "/"); err != nil || body != "ok" {
			t.Error(body, err)
		}
	}
	served()
	var late []*quic.Stream
	for range lateHeads {
		late = append(late, begin())
	}
	var all sync.WaitGroup
	for range 10 * headsAtOnce {
		all.Go(served)
	}
	all.Wait()
	for _, s := range late {
		_, err := io.ReadAll(s)
		why, ok := errors.AsType[*quic.StreamError](err)
		if !ok || !why.Remote || why.ErrorCode != quic.StreamErrorCode(http3.ErrCodeRequestIncomplete) {
			t.Errorf("an unfinished head ended with %v", err)
		}
	}
	served()
	f.await(t, "antirobot_http3_late_heads_total", "4")
	for range 2 * headsAtOnce {
		begin()
	}
	if code := ended(t, c.Conn); code != http3.ErrCodeExcessiveLoad {
		t.Errorf("it ended with %v", code)
	}
	f.await(t, `antirobot_http3_floods_total{of="heads"}`, "1")
}

// TestDrain: a request in progress gets its answer, no other begins, and the connection ends.
func TestDrain(t *testing.T) {
	began, finish := make(chan struct{}, 2), make(chan struct{})
	end := sync.OnceFunc(func() { close(finish) })
	f := newFront(t, setup{handler: func(x *h1.Exchange) {
		began <- struct{}{}
		<-finish
		reply(x, "whole")
	}})
	t.Cleanup(end)
	c := f.mustDial(t)
	idle, err := f.dialQUIC(t, nil) // heeds no GOAWAY
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		_, body, err := c.do(t, "GET", "/")
		if err != nil {
			body = err.Error()
		}
		got <- body
	}()
	<-began
	f.await(t, "antirobot_http3_open_connections", "2")
	down := make(chan error, 1)
	go func() { down <- f.h3.Shutdown(context.Background()) }()
	ended(t, idle)
	if _, body, err := c.do(t, "GET", "/more"); err == nil {
		t.Errorf("another request was answered: %s", body)
	}
	end()
	if body := <-got; body != "whole" {
		t.Error(body)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	if code := ended(t, c.Conn); code != http3.ErrCodeNoError {
		t.Errorf("it ended with %v", code)
	}
}

// TestConnectionsEnd: after so many requests, and after a time without any.
func TestConnectionsEnd(t *testing.T) {
	answer := func(x *h1.Exchange) { reply(x, "ok") }
	limits := map[string]func(*h1.Config){
		"requests": func(c *h1.Config) { c.MaxRequestsPerConn = 1 },
		"idle":     func(c *h1.Config) { c.IdleTimeout = 20 * time.Millisecond },
		"silent":   func(c *h1.Config) { c.HeaderTimeout = 100 * time.Millisecond },
	}
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, setup{h1: limit, handler: answer})
			c, err := f.dial(t, nil)
			if err != nil {
				if name != "silent" { // a handshake on a busy machine may take longer than that
					t.Fatal(err)
				}
				return
			}
			if name == "silent" {
				f.await(t, "antirobot_http3_open_handshakes", "0")
				if f.metric("antirobot_http3_failed_handshakes_total") != "0" {
					return // it took longer, and the client alone takes it for done
				}
			} else {
				_, body, err := c.do(t, "GET", "/")
				if (err != nil || body != "ok") && name != "idle" { // a busy machine is idle before it asks
					t.Fatal(body, err)
				}
			}
			if code := ended(t, c.Conn); code != http3.ErrCodeNoError {
				t.Errorf("it ended with %v", code)
			}
		})
	}
}

// TestNoRequestIsLostWithItsConnection: what a client sends while the gateway ends a connection that was idle for long,
// or drains, is refused as a request that nobody has seen, which browsers send again.
func TestNoRequestIsLostWithItsConnection(t *testing.T) {
	for name, limit := range map[string]func(c *h1.Config){
		"silent": func(c *h1.Config) { c.HeaderTimeout = 500 * time.Millisecond },
		"drain":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, setup{h1: limit, handler: func(x *h1.Exchange) { reply(x, "ok") }})
			qc, err := f.dialQUIC(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			control, err := qc.AcceptUniStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if name == "drain" {
				f.await(t, "antirobot_http3_open_connections", "1")
				go func() { _ = f.h3.Shutdown(context.Background()) }()
			}
			r := quicvarint.NewReader(control)
			_, _ = quicvarint.Read(r) // its type
			for frame := uint64(0); frame != 7; {
				if frame, err = quicvarint.Read(r); err != nil {
					t.Fatalf("the connection ends without GOAWAY: %v", err)
				}
				length, _ := quicvarint.Read(r)
				_, _ = io.CopyN(io.Discard, r, int64(length))
			}
			told := time.Now()
			late, err := qc.OpenStreamSync(t.Context())
			if err == nil {
				_, _ = late.Write([]byte{1})
				_, err = late.Read(make([]byte, 1))
			}
			why, ok := errors.AsType[*quic.StreamError](err)
			// a busy machine is late
			if (!ok || http3.ErrCode(why.ErrorCode) != http3.ErrCodeRequestRejected) && time.Since(told) < lastWords {
				t.Errorf("a late request: %v", err)
			}
			if code := ended(t, qc); code != http3.ErrCodeNoError {
				t.Errorf("it ended with %v", code)
			}
		})
	}
}
