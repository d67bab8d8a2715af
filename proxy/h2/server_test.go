package h2

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"antirobot/proxy/h1"
)

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"site.example"}, NotAfter: time.Now().
		Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestHandshake: the client's choice decides the protocol; data that starts with a preface where HTTP/2 was not chosen
// is not a request.
func TestHandshake(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Proto)) }),
		setup{tls: &tls.Config{
			Certificates: []tls.Certificate{certificate(t)},
			NextProtos:   []string{"h2", "http/1.1"},
		}})
	for _, c := range []struct {
		offer []string
		want  string
	}{{[]string{"h2", "http/1.1"}, "HTTP/2.0"}, {[]string{"http/1.1"}, "HTTP/1.1"}, {nil, "HTTP/1.1"}} {
		tr := &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, NextProtos: c.offer},
			ForceAttemptHTTP2: len(c.offer) == 2,
		}
		res, err := (&http.Client{Transport: tr}).Get("https://" + f.addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Proto != c.want || res.StatusCode != 200 {
			t.Errorf("%v: %s %d", c.offer, res.Proto, res.StatusCode)
		}
		tr.CloseIdleConnections()
	}
	nc, err := tls.Dial("tcp", f.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = nc.Write([]byte(http2.ClientPreface))
	b := make([]byte, 12)
	if _, err := nc.Read(b); err != nil || string(b) != "HTTP/1.1 505" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestDrain: Shutdown sends GOAWAY, lets a request in progress finish, and accepts no other.
func TestDrain(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-goOn
		w.WriteHeader(200)
	}), setup{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release) // before the service is awaited
	r, unused := dialRaw(t, f), dialRaw(t, f)
	id := r.open(true, get...)
	<-began
	f.awaitMetric(t, "antirobot_http2_open_connections", "2")
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		ended <- f.h1.Shutdown(ctx)
	}()
	awaitGoAway(t, r)
	awaitGoAway(t, unused)
	release()
	if status, code, gone := r.outcome(id); status != "200" {
		t.Errorf("the request under way got %q, %v, %v", status, code, gone)
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if !r.ends() || !unused.ends() {
		t.Error("a connection goes on")
	}
}

// tardy is a connection that begins to be served while everybody is asked to leave.
type tardy struct {
	net.Conn
	begins func()
}

func (c tardy) RemoteAddr() net.Addr {
	c.begins()
	return c.Conn.RemoteAddr()
}

// TestDrainFindsLateConnections: a connection that http2.Server learns of just after the others were asked to leave is
// asked too.
func TestDrainFindsLateConnections(t *testing.T) {
	f := newFront(t, "http://127.0.0.1:1", setup{})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.h2.ServeConn(tardy{ours, sync.OnceFunc(func() {
			f.h2.Drain()
			time.Sleep(50 * time.Millisecond) // the others have been asked
		})}, h1.Origin{})
	}()
	_ = theirs.SetDeadline(time.Now().Add(60 * time.Second))
	go func() { _, _ = io.WriteString(theirs, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00") }()
	awaitGoAway(t, &raw{t: t, Conn: theirs, Framer: http2.NewFramer(io.Discard, theirs)})
	theirs.Close()
	<-ended
}

func awaitGoAway(t *testing.T, r *raw) {
	t.Helper()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatalf("no GOAWAY: %v", err)
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			if g.ErrCode != http2.ErrCodeNo {
				t.Errorf("GOAWAY with %v", g.ErrCode)
			}
			return
		}
	}
}

// TestShutdownCuts: a request still running after the grace period is cut, and Shutdown waits for its handler.
func TestShutdownCuts(t *testing.T) {
	left := make(chan struct{})
	f := newFront(t, service(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(left)
	}), setup{})
	r := dialRaw(t, f)
	r.open(true, get...)
	f.awaitMetric(t, "antirobot_http2_open_streams", "1")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := f.h1.Shutdown(ctx); err == nil {
		t.Error("Shutdown says that nothing was cut")
	}
	if n := f.metric("antirobot_http2_open_streams"); n != "0" {
		t.Errorf("%s streams after Shutdown", n)
	}
	<-left
}

// TestRequestsPerConnection: the last request is answered, and its connection is then closed gracefully.
func TestRequestsPerConnection(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }),
		setup{h1: func(c *h1.Config) { c.MaxRequestsPerConn = 3 }})
	c := client(t, f)
	for range 9 {
		if res, _ := fetch(t, c, newRequest(t, "GET", "/", nil)); res.StatusCode != 200 {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	if n := f.metric("antirobot_http2_connections_total"); n != "3" {
		t.Errorf("%s connections for nine requests", n)
	}
}

// TestPanic: a handler that panics costs its stream, and is counted.
func TestPanic(t *testing.T) {
	f := newFront(t, "http://127.0.0.1:1", setup{handler: func(x *h1.Exchange, _ func()) {
		if string(x.View.Path) == "/panic" {
			panic("a test")
		}
		_ = x.Reply(200, nil, nil)
	}})
	c := client(t, f)
	if res, _ := fetch(t, c, newRequest(t, "GET", "/panic", nil)); res.StatusCode != 500 {
		t.Errorf("status %d", res.StatusCode)
	}
	if res, _ := fetch(t, c, newRequest(t, "GET", "/", nil)); res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
	if n := f.metric("antirobot_http_panics_total"); n != "1" {
		t.Errorf("%s panics", n)
	}
}
