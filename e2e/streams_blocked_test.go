package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"
)

// dripping sends without end: events at /events, one event and then nothing at /silent, a long file at /file.
func dripping(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		piece := []byte("data: x\n\n")
		switch r.URL.Path {
		case "/file":
			w.Header().Set("Content-Length", fmt.Sprint(1<<30))
			piece = bytes.Repeat([]byte("x"), 100<<10)
		case "/events", "/silent":
			w.Header().Set("Content-Type", "text/event-stream")
		}
		for ; ; time.Sleep(50 * time.Millisecond) {
			if _, err := w.Write(piece); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			if r.URL.Path == "/silent" {
				<-r.Context().Done()
				return
			}
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// TestBlockEndsStreams: what is open when its reader is banned goes on, and ends within seconds of a block, over each protocol and
// from services of both, whether it moves or not. In mode observe nothing ends.
func TestBlockEndsStreams(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, t.TempDir(), 1)
	address, service := freePort(t), dripping(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
services:
  - {name: one, hosts: [one.example], upstream: {urls: [%q]}}
  - {name: two, hosts: [two.example], upstream: {urls: [%q], protocol: h2}}
  - {name: observed, hosts: [observed.example], upstream: {urls: [%q]}, verdict: {mode: observe}}
`, address, cert, key, service, service, service))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trust := &tls.Config{InsecureSkipVerify: true}
	third := &http3.Transport{TLSClientConfig: trust.Clone()}
	defer third.Close()
	var ended, goes sync.WaitGroup
	for protocol, c := range map[string]http.RoundTripper{
		"h1": &http.Transport{TLSClientConfig: trust.Clone()}, "h2": &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: true}, "h3": third,
	} {
		for _, host := range []string{"one", "two", "observed"} {
			for _, path := range []string{"/events", "/silent", "/file"} {
				what, wg := protocol+" "+host+path, &ended
				if host == "observed" {
					wg = &goes
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = host + ".example"
				res, err := c.RoundTrip(req)
				if err != nil || res.StatusCode != 200 {
					t.Fatalf("%s: %v %v", what, res, err)
				}
				defer res.Body.Close()
				wg.Go(func() {
					if _, err := io.Copy(io.Discard, res.Body); err == nil {
						t.Errorf("%s ended as if it were whole", what)
					}
				})
			}
		}
	}
	wait := func(wg *sync.WaitGroup, long time.Duration) bool {
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
			return true
		case <-time.After(long):
			return false
		}
	}
	g.ban("ip:127.0.0.1", "10m")
	time.Sleep(3 * time.Second)
	if n := g.metric("antirobot_http_revoked_answers_total"); n != 0 {
		t.Errorf("a ban ended %v answers", n)
	}
	g.list("block", "127.0.0.1", "10m")
	if !wait(&ended, patience) {
		t.Error("blocked, and still reading")
	}
	if n := g.metric("antirobot_http_revoked_answers_total"); n != 18 {
		t.Errorf("%v answers were revoked; 18 were open", n)
	}
	if line := g.logs.find(func(s string) bool { return strings.Contains(s, `"answer cut"`) }); !strings.Contains(line, `"reason":"api: 127.0.0.1"`) {
		t.Errorf("the line of one: %s", line)
	}
	if wait(&goes, 100*time.Millisecond) {
		t.Error("mode observe cut what was open")
	}
	cancel()
	goes.Wait()
}

// TestBlockEndsWebSockets: so do WebSockets, over HTTP/1 and HTTP/2.
func TestBlockEndsWebSockets(t *testing.T) {
	t.Parallel()
	site, _ := streamSite(t)
	g, secure, plain := http2Gateway(t, site, "")
	ws, _, err := websocket.Dial(t.Context(), "ws://"+plain+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	sent, say := io.Pipe()
	defer say.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, "https://"+secure+"/ws", sent)
	if err != nil {
		t.Fatal(err)
	}
	req.Header[":protocol"], req.Header["Sec-Websocket-Version"] = []string{"websocket"}, []string{"13"}
	res, err := (&http.Client{Transport: &http2.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}).Do(req) //nolint:staticcheck // net/http has no WebSocket
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("over HTTP/2: %v %v", res, err)
	}
	defer res.Body.Close()
	second := func() error { // a message there and back
		if _, err := say.Write([]byte{0x81, 0x81, 0, 0, 0, 0, 'x'}); err != nil {
			return err
		}
		_, err := io.ReadFull(res.Body, make([]byte, len("??echo x")))
		return err
	}
	g.ban("ip:127.0.0.1", "10m")
	time.Sleep(3 * time.Second)
	roundTrip(t, t.Context(), ws, "after a ban")
	if err := second(); err != nil {
		t.Fatalf("over HTTP/2, after a ban: %v", err)
	}
	g.list("block", "127.0.0.1", "10m")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := 0; ; n++ {
		if err = ws.Write(ctx, websocket.MessageText, []byte("x")); err == nil {
			_, _, err = ws.Read(ctx)
		}
		if err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for ctx.Err() == nil && second() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Error("blocked, and still speaking")
	}
	if n := g.metric("antirobot_http_open_tunnels"); n != 0 {
		t.Errorf("%v tunnels are open", n)
	}
}
