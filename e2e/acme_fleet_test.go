package e2e

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

// watchedAuthority stands before pebble: it counts orders, can be away, holds requests until it is opened, and advises when
// to renew.
type watchedAuthority struct {
	directory, root string
	orders          atomic.Int32
	away, due       atomic.Bool
	opened          atomic.Pointer[chan struct{}]
}

func watchAuthority(t *testing.T, directory string) *watchedAuthority {
	t.Helper()
	to, err := url.Parse(directory)
	if err != nil {
		t.Fatal(err)
	}
	w := new(watchedAuthority)
	w.hold()
	pebble := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host },
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if w.away.Load() {
			out.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		select {
		case <-*w.opened.Load():
		case <-r.Context().Done():
			return
		}
		if strings.Contains(strings.ToLower(r.URL.Path), "renewalinfo") {
			w.advise(out)
			return
		}
		if strings.Contains(r.URL.Path, "/order-plz") {
			w.orders.Add(1)
		}
		pebble.ServeHTTP(out, r)
	}))
	t.Cleanup(s.Close)
	w.directory = s.URL + to.Path
	w.root = writeFile(t, "root.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return w
}

// hold makes requests wait until open.
func (w *watchedAuthority) hold() {
	c := make(chan struct{})
	w.opened.Store(&c)
}

func (w *watchedAuthority) open() { close(*w.opened.Load()) }

// advise says when a certificate should be renewed (RFC 9773).
func (w *watchedAuthority) advise(out http.ResponseWriter) {
	from := time.Now().Add(24 * time.Hour)
	if w.due.Load() {
		from = time.Now().Add(-24 * time.Hour)
	}
	out.Header().Set("Content-Type", "application/json")
	out.Header().Set("Retry-After", "21600")
	_ = json.NewEncoder(out).Encode(map[string]any{"suggestedWindow": map[string]time.Time{"start": from.UTC(), "end": from.Add(time.Hour).UTC()}})
}

// turns hands connections to gateways in turn, as a balancer before them does.
type turns struct {
	port string

	mu   sync.Mutex
	to   []string
	next int
	got  map[string]int
}

func takeTurns(t *testing.T, to ...string) *turns {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	b := &turns{to: to, got: map[string]int{}, port: portOf(ln.Addr().String())}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go b.pass(c)
		}
	}()
	return b
}

func (b *turns) pass(c net.Conn) {
	defer c.Close()
	b.mu.Lock()
	to := b.to[b.next%len(b.to)]
	b.next++
	b.got[to]++
	b.mu.Unlock()
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() { _, _ = io.Copy(up, c) }()
	_, _ = io.Copy(c, up)
}

// all fails the test unless every gateway had a connection.
func (b *turns) all(t *testing.T, what string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, to := range b.to {
		if b.got[to] == 0 {
			t.Errorf("%s: %s was not asked: %v", what, to, b.got)
		}
	}
}

// TestACMEShared: gateways that share a Redis need one certificate between them, and one renewal, whichever of them the
// authority asks for the answer to a challenge, over TCP and over QUIC. While the authority is away the last good certificate stays in use.
func TestACMEShared(t *testing.T) {
	t.Parallel()
	const host = "www.shop.example"
	secure, plain := []string{freePort(t), freePort(t)}, []string{freePort(t), freePort(t)}
	byHTTP, byTLS := takeTurns(t, plain...), takeTurns(t, secure...)
	directory, _ := authority(t, byHTTP.port, byTLS.port)
	ca := watchAuthority(t, directory)
	ca.due.Store(true)
	store, secret, upstream := "redis://"+redistest.Start(t).Addr, secretFile(t), site(t).URL
	var files []string
	configure := func(i int, challenge string) string {
		return fmt.Sprintf(`
listen: [{address: %q, acme: true, http3: true}, {address: %q, redirect_https: true}]
tls: {acme: {hosts: [%s], directory: %q, root_ca: %q, challenges: [%s]}}
defaults: {upstream: {urls: [%q]}}`, secure[i], plain[i], host, ca.directory, ca.root, challenge, upstream)
	}
	var all []*gateway
	for i := range secure {
		files = append(files, configFile(t, "%s", configure(i, "http-01")))
		all = append(all, startWith(t, "serve", "--config", files[i], "--store", store, "--secret-file", secret))
	}
	sum := func(metric string) float64 { return all[0].metric(metric) + all[1].metric(metric) }
	serve := func(what, old string, orders int32) string {
		t.Helper()
		serial := obtained(t, all[0], secure[0], host, old)
		if other := obtained(t, all[1], secure[1], host, old); other != serial || ca.orders.Load() != orders {
			t.Errorf("%s: certificates %s and %s, %d orders, want one certificate and %d", what, serial, other, ca.orders.Load(), orders)
		}
		for _, address := range secure {
			if quic := dialQUIC(t, address, host).serial(); quic != serial {
				t.Errorf("%s: over QUIC the certificate is %s, over TCP %s", what, quic, serial)
			}
		}
		return serial
	}
	ca.open()
	first := serve("at first", "", 1)
	byHTTP.all(t, "http-01")
	if n, bad := sum("acme_obtained_total"), sum("acme_failures_total"); n != 1 || bad != 0 {
		t.Errorf("%v obtained, %v failures", n, bad)
	}

	ca.away.Store(true) // when the certificate is to be renewed
	all[0].kill(syscall.SIGKILL)
	all[0].run()
	all[0].logs.find(func(s string) bool { return strings.Contains(s, "no certificate could be obtained") })
	if kept := serve("without the authority", "", 1); kept != first {
		t.Errorf("without the authority the certificate is %s, before it was %s", kept, first)
	}
	if health := string(all[0].api("GET", "/healthz", nil)); all[0].metric("acme_failures_total") < 1 || !strings.Contains(health, host) {
		t.Errorf("a renewal that failed: health says %s", health)
	}

	ca.hold()
	ca.away.Store(false)
	ca.due.Store(false)
	all[0].kill(syscall.SIGTERM) // it was about to renew: whoever comes next may
	all[1].kill(syscall.SIGKILL)
	for i, g := range all {
		write(t, files[i], configure(i, "tls-alpn-01"))
		g.run()
	}
	ca.open()
	serve("after the renewal", first, 2)
	byTLS.all(t, "tls-alpn-01")
}
