package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// TestHTTP3UnfinishedHeads: connections that have a request under way, and beside it as many heads as they may, each without its last
// byte, hold little and are cut when a head's time is over; others are served meanwhile.
func TestHTTP3UnfinishedHeads(t *testing.T) {
	t.Parallel()
	const conns, heads, size, most = 50, 98, 59_000, 3 << 20
	in := make(chan struct{}, conns)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			in <- struct{}{}
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, "ok")
	}))
	defer service.Close()
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
http: {header_timeout: 10s}
defaults: {upstream: {urls: [%q], response_timeout: 10m}}
`, address, cert, key, service.URL))
	url := "https://" + address
	other := dialQUIC(t, address, "localhost")
	serves := func() {
		t.Helper()
		if status, err := other.get(url + "/"); status != 200 {
			t.Errorf("another visitor gets %d, %v", status, err)
		}
	}
	serves()
	before := g.rss()
	all := make([]*quicClient, conns)
	var rest sync.WaitGroup
	defer func() {
		for _, c := range all {
			_ = c.conn.CloseWithError(0, "")
		}
		rest.Wait()
	}()
	for i := range all {
		all[i] = dialQUIC(t, address, "localhost")
		rest.Go(func() { _, _ = all[i].get(url + "/hold") })
	}
	for range all {
		<-in
	}
	head := frame3(1, make([]byte, size)) // HEADERS
	head = head[:len(head)-1]
	for _, c := range all {
		for range heads {
			s, err := c.conn.OpenStreamSync(t.Context())
			if err != nil {
				break // a busy machine takes longer than a head may
			}
			rest.Go(func() { _, _ = s.Write(head) }) // until the connection ends
		}
	}
	peak := before
	for i, c := range all {
		serves()
		eventually(t, "the end of a connection whose heads don't", func() bool {
			peak = max(peak, g.rss())
			return c.conn.Context().Err() != nil
		})
		var why *quic.ApplicationError
		if err := context.Cause(c.conn.Context()); !errors.As(err, &why) || why.ErrorCode != quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad) {
			t.Errorf("connection %d ended with %v", i, err)
		}
	}
	t.Logf("%d connections with %d unfinished heads of %d bytes: %d MB at most, %d before", conns, heads, size, peak>>20, before>>20)
	if peak-before > conns*most {
		t.Errorf("%d connections made the gateway grow from %d to %d MB", conns, before>>20, peak>>20)
	}
	if n := g.metric(`antirobot_http3_floods_total{of="heads"}`); n != conns {
		t.Errorf("%v connections were cut", n)
	}
	serves()
}

// TestHTTP3WebSocket: a WebSocket over HTTP/3 talks, and outlives the time that its head had.
func TestHTTP3WebSocket(t *testing.T) {
	t.Parallel()
	upstream, _ := streamSite(t)
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
http: {header_timeout: 5s}
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, upstream))
	c := dialQUIC(t, address, "localhost")
	str, err := c.http.OpenRequestStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = str.SetDeadline(time.Now().Add(patience))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, "https://"+address+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Proto = "websocket" // RFC 9220
	req.Header.Set("Sec-WebSocket-Version", "13")
	if err := str.SendRequestHeader(req); err != nil {
		t.Fatal(err)
	}
	res, err := str.ReadResponse()
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	talk := func() {
		t.Helper()
		echo := make([]byte, 2+len("echo hello"))
		if _, err := str.Write(append([]byte{0x81, 0x85, 0, 0, 0, 0}, "hello"...)); err != nil { // a text, masked by zeros
			t.Fatal(err)
		}
		if _, err := io.ReadFull(str, echo); err != nil || string(echo[2:]) != "echo hello" {
			t.Fatalf("%q %v", echo, err)
		}
	}
	talk()
	late, err := c.conn.OpenStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = late.SetDeadline(time.Now().Add(patience))
	_, _ = late.Write([]byte{1})
	if _, err := late.Read(make([]byte, 1)); err == nil {
		t.Error("an unfinished head was answered")
	}
	talk()
}
