package h1

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"antirobot/proxy/h1/hello"
)

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
