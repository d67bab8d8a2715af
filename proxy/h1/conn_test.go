package h1

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"antirobot/proxy/h1/hello"
)

// TestManyKindsOnOneConnection mixes requests served from within the wait with others: the connection goes on.
func TestManyKindsOnOneConnection(t *testing.T) {
	g := newGateway(t, answering(t, okAnswer), setup{})
	c := dial(t, g)
	for _, said := range [][]string{
		{aGet},
		{aGet},
		{aGet[:20], aGet[20:]}, // a head in two pieces
		{"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"},
		{"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n", "hello"},
		{aGet},
		{"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
		{"\r\n", aGet}, // an empty line before
		{aGet},
		{aGet + aGet}, // pipelined
		{aGet + aGet[:9], aGet[9:]},
		{aGet},
	} {
		for i, piece := range said {
			if i > 0 {
				time.Sleep(20 * time.Millisecond) // so that it comes in a packet of its own
			}
			c.say(piece)
		}
		for range strings.Count(strings.Join(said, ""), " / HTTP/1.1") {
			if res, body := c.answer("GET"); res.StatusCode != 200 || body != "ok" {
				t.Fatalf("%q: %d %q", said, res.StatusCode, body)
			}
		}
	}
	if n := g.metric("antirobot_http_requests_total"); n != "14" {
		t.Errorf("%s requests were counted", n)
	}
}

// TestEndTogetherWithALaterRequest closes the client's side in the packet of its third request. The poller is woken
// once for both, so only a look shows that nothing more will come.
func TestEndTogetherWithALaterRequest(t *testing.T) {
	g := newGateway(t, answering(t, okAnswer), setup{cfg: func(c *Config) { c.IdleTimeout = time.Minute }})
	c := dial(t, g)
	for range 2 {
		c.say(aGet)
		c.answer("GET")
	}
	gate := make(chan struct{})
	go func() { // both are there before the gateway looks
		defer close(gate)
		c.say(aGet)
		_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	<-gate
	c.answer("GET")
	began := time.Now()
	if b, err := io.ReadAll(c.r); err != nil || len(b) > 0 {
		t.Fatalf("%q, %v", b, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the connection was kept for %v", took)
	}
}

// TestIdleTimeoutFromWithin leaves a connection idle after a few requests: it is closed when the timeout ends, and not
// before.
func TestIdleTimeoutFromWithin(t *testing.T) {
	const idle = time.Second
	g := newGateway(t, answering(t, okAnswer), setup{cfg: func(c *Config) { c.IdleTimeout = idle }})
	c := dial(t, g)
	for range 3 {
		c.say(aGet)
		c.answer("GET")
	}
	began := time.Now()
	_, _ = io.ReadAll(c.r)
	if took := time.Since(began); took < idle-idle/8-50*time.Millisecond {
		t.Errorf("closed after %v", took)
	}
	if n := g.metric(`antirobot_http_limits_total{limit="idle_timeout"}`); n != "1" {
		t.Errorf("the limit was counted %s times", n)
	}
}

// TestBoundedMemory is pitfall 25: bodies of any size cost the same memory. H1_STREAM_MB sets their size.
func TestBoundedMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory would be measured")
	}
	mb := 64
	if v, err := strconv.Atoi(os.Getenv("H1_STREAM_MB")); err == nil {
		mb = v
	}
	size := int64(mb) << 20
	s := newService(t, func(k *talk) {
		r, _ := k.request(false)
		if r == nil {
			return
		}
		if r.Method == "POST" {
			n, _ := io.Copy(io.Discard, r.Body)
			k.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%d",
				len(fmt.Sprint(n)), n))
			return
		}
		chunked := r.URL.Path == "/chunked"
		if chunked {
			k.say("HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
		} else {
			k.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size))
		}
		b := bytes.Repeat([]byte("x"), 1<<20)
		for range mb {
			if chunked {
				k.say("100000\r\n")
			}
			_, _ = k.Write(b)
			if chunked {
				k.say("\r\n")
			}
		}
		if chunked {
			k.say("0\r\n\r\n")
		}
	})
	g := newGateway(t, s, setup{})
	before := rss(t)
	for _, path := range []string{"/", "/chunked"} {
		c1 := dial(t, g)
		c1.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		_ = c1.SetReadDeadline(time.Now().Add(5 * time.Minute))
		c1.head()
		if n, err := io.CopyN(io.Discard, c1.r, size); n != size {
			t.Fatalf("downloaded %d of %d: %v", n, size, err)
		}
		c1.Close()
	}
	c2 := dial(t, g)
	_ = c2.SetReadDeadline(time.Now().Add(5 * time.Minute))
	c2.say(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
	b := make([]byte, 1<<20)
	for range mb {
		_, _ = c2.Write(b)
	}
	if _, body := c2.answer("POST"); body != fmt.Sprint(size) {
		t.Errorf("uploaded %s of %d", body, size)
	}
	grown := rss(t) - before
	t.Logf("%d MB each way: %d KB more resident", mb, grown>>10)
	if grown > 32<<20 {
		t.Errorf("grew by %d MB", grown>>20)
	}
}

func rss(t *testing.T) int64 {
	runtime.GC()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// TestHandshakeRate: so many a second and ten seconds' worth at once for an address or a /64, ten times as many for a
// /48, and as many again for what nobody has proven to be his.
func TestHandshakeRate(t *testing.T) {
	h, now := &handshakes{}, time.Now()
	spent := func(addr string, proven bool, most int) (n int) {
		for n < most && h.take(netip.MustParseAddr(addr), proven, 5, now) {
			n++
		}
		return n
	}
	f := func(addr string, proven bool, want int) {
		t.Helper()
		if n := spent(addr, proven, 1000); n != want {
			t.Errorf("%s, proven %v: %d", addr, proven, n)
		}
	}
	f("203.0.113.5", true, 50)
	f("203.0.113.6", false, 50)
	f("203.0.113.6", true, 50)
	f("203.0.113.5", false, 0) // its owner has used up what there is
	f("2001:db8::1", true, 50)
	f("2001:db8::2", true, 0) // of the same /64
	f("2001:db8:0:1::1", true, 50)
	for i := range 8 {
		spent("2001:db8:0:"+string(rune('2'+i))+"::1", true, 1000)
	}
	f("2001:db8:0:a::1", true, 0) // of the same /48
	f("2001:db8:1::1", true, 50)
	now = now.Add(2 * time.Second)
	f("203.0.113.5", true, 10)
	now = now.Add(time.Hour)
	f("203.0.113.5", true, 50)
	if n := spent("203.0.113.7", true, 10); n != 10 || !h.take(netip.MustParseAddr("203.0.113.6"), true, 0, now) ||
		!h.take(netip.Addr{}, true, 5, now) {
		t.Error("what has no limit is limited")
	}
}

// TestHandshakeFlood: beyond the rate a client's connections end before their handshakes, whether it comes by itself or
// through a balancer's PROXY header; a balancer's own do not.
func TestHandshakeFlood(t *testing.T) {
	certs, err := hello.LoadCertificates([]hello.CertificateFiles{certificate(t, t.TempDir(), "a.test", 1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]ListenerOptions{
		"a client":                 {},
		"a client of a balancer's": {ProxyProtocol: true, Trusted: localTrusted},
		"a balancer":               {Trusted: localTrusted},
	} {
		t.Run(name, func(t *testing.T) {
			o.TLS = certs.Config()
			g := newGateway(t, nil, setup{cfg: func(c *Config) { c.MaxHandshakeRate = 1 }, listener: o})
			began, done := time.Now(), 0
			for range 30 {
				nc, err := net.Dial("tcp", g.addr)
				if err != nil {
					t.Fatal(err)
				}
				if o.ProxyProtocol {
					_, _ = io.WriteString(nc, "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n")
				}
				if tls.Client(nc, &tls.Config{InsecureSkipVerify: true}).Handshake() == nil {
					done++
				}
				_ = nc.Close()
			}
			least, most := 10, 11+int(time.Since(began)/time.Second)
			if name == "a balancer" {
				least, most = 30, 30
			}
			refused := g.metric(`antirobot_http_limits_total{limit="handshake_rate"}`)
			if done < least || done > most || refused != strconv.Itoa(30-done) {
				t.Errorf("%d handshakes, %s refused", done, refused)
			}
		})
	}
}
