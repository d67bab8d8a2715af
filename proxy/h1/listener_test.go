package h1

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"antirobot/proxy/h1/hello"
)

// certificate writes a self-signed certificate for name.
func certificate(t testing.TB, dir, name string, serial int64) hello.CertificateFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	kder, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := hello.CertificateFiles{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	for file, b := range map[string]*pem.Block{
		f.CertFile: {Type: "CERTIFICATE", Bytes: der},
		f.KeyFile:  {Type: "EC PRIVATE KEY", Bytes: kder},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func dialTLS(t *testing.T, g *gateway, name string) (*client, *x509.Certificate) {
	t.Helper()
	c, err := tls.Dial("tcp", g.addr, &tls.Config{
		ServerName: name, InsecureSkipVerify: true,
		NextProtos: []string{"h2", "http/1.1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(60 * time.Second))
	return &client{t, c, bufio.NewReader(c)}, c.ConnectionState().PeerCertificates[0]
}

// TestTLSReload: certificates change while connections stay open.
func TestTLSReload(t *testing.T) {
	dir := t.TempDir()
	files := []hello.CertificateFiles{certificate(t, dir, "a.test", 1), certificate(t, dir, "b.test", 2)}
	certs, err := hello.LoadCertificates(files)
	if err != nil {
		t.Fatal(err)
	}
	s := answering(t, okAnswer)
	var seen string
	g := newGateway(t, s, setup{
		listener: ListenerOptions{TLS: certs.Config()},
		handler: func(x *Exchange, forward func()) {
			seen = fmt.Sprint(x.View.TLS)
			forward()
		},
	})
	c1, first := dialTLS(t, g, "a.test")
	c1.say(aGet)
	if _, body := c1.answer("GET"); body != "ok" || seen != "true" {
		t.Errorf("got %q, the handler saw TLS %s", body, seen)
	}
	if _, b := dialTLS(t, g, "b.test"); b.SerialNumber.Int64() != 2 {
		t.Error("wrong certificate for b.test")
	}
	if _, b := dialTLS(t, g, "other.test"); b.SerialNumber.Int64() != 1 {
		t.Error("wrong certificate for other.test")
	}
	files[0] = certificate(t, dir, "a.test", 3)
	commit, err := certs.Prepare(files)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	if _, err := certs.Prepare([]hello.CertificateFiles{{CertFile: "none", KeyFile: "none"}}); err == nil {
		t.Error("a missing file is not an error")
	}
	if _, again := dialTLS(t, g, "a.test"); again.SerialNumber.Int64() != 3 || first.SerialNumber.Int64() != 1 {
		t.Error("not reloaded")
	}
	c1.say(aGet)
	if _, body := c1.answer("GET"); body != "ok" {
		t.Errorf("the old connection got %q", body)
	}
	plainText := dial(t, g)
	plainText.say(aGet)
	if resp, _ := plainText.answer("GET"); resp.StatusCode != 400 {
		t.Errorf("plain HTTP got %v", resp)
	}
}

// TestTLSLargeBodies moves bodies both ways through TLS, and closes with a lingering end.
func TestTLSLargeBodies(t *testing.T) {
	certs, err := hello.LoadCertificates([]hello.CertificateFiles{certificate(t, t.TempDir(), "a.test", 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, func(k *talk) {
		_, b := k.request(true)
		k.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(b), b))
	})
	g := newGateway(t, s, setup{listener: ListenerOptions{TLS: certs.Config()}})
	c1, _ := dialTLS(t, g, "a.test")
	big := strings.Repeat("0123456789", 100_000)
	c1.say("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n")
	go func() { _, _ = io.WriteString(c1.Conn, big) }()
	if _, body := c1.answer("POST"); body != big {
		t.Errorf("got %d bytes", len(body))
	}
	c1.closes()
}

// trusted is Balancers of a test.
type trusted func(netip.Addr) bool

func (t trusted) Trusts(a netip.Addr) bool { return t(a) }

var localTrusted = trusted(netip.Addr.IsLoopback)

// TestProxyProtocol is pitfall 6: the header of a trusted balancer is believed, in either version, and nobody else's.
func TestProxyProtocol(t *testing.T) {
	const (
		v1IPv4  = "PROXY TCP4 203.0.113.7 192.0.2.1 4711 80\r\n"
		v1IPv6  = "PROXY TCP6 2001:db8::7 2001:db8::1 4711 80\r\n"
		proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"

		v2IPv4 = proxyV2 + "\x21\x11\x00\x0c" + "\xcb\x00\x71\x07" + "\xc0\x00\x02\x01" + "\x12\x67\x00\x50"
		v2IPv6 = proxyV2 + "\x21\x21\x00\x24" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" +
			"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\x12\x67\x00\x50"
		// with the name that the client asked for behind the addresses
		v2TLV = proxyV2 + "\x21\x11\x00\x15" + "\xcb\x00\x71\x07" + "\xc0\x00\x02\x01" + "\x12\x67\x00\x50" +
			"\x02\x00\x06a.test"
	)
	v2 := func(rest string) string { return proxyV2 + rest }
	for _, c := range []struct{ name, header, peer string }{
		{"v1 IPv4", v1IPv4, "203.0.113.7"},
		{"v1 IPv6", v1IPv6, "2001:db8::7"},
		{"v1 NAT64", "PROXY TCP6 64:ff9b::203.0.113.7 2001:db8::1 4711 80\r\n", "203.0.113.7"},
		{"v2 NAT64", proxyV2 + "\x21\x21\x00\x24" + "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00\xcb\x00\x71\x07" +
			"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\x12\x67\x00\x50", "203.0.113.7"},
		{"v1 UNKNOWN", "PROXY UNKNOWN\r\n", "127.0.0.1"},
		{"v1 UNKNOWN with addresses", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "127.0.0.1"},
		{"v2 IPv4", v2IPv4, "203.0.113.7"},
		{"v2 IPv6", v2IPv6, "2001:db8::7"},
		{"v2 TLV", v2TLV, "203.0.113.7"},
		{"v2 LOCAL", v2("\x20\x00\x00\x00"), "127.0.0.1"},
		{
			"v2 LOCAL with an address", v2("\x20\x11\x00\x0c\x01\x02\x03\x04\x01\x02\x03\x04\x00\x01\x00\x01"),
			"127.0.0.1",
		},
		{"v2 UNSPEC", v2("\x21\x00\x00\x03abc"), "127.0.0.1"},
		{"none", "", ""},
		{"v1 lower case", "proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n", ""},
		{"v1 bare LF", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", ""},
		{"v1 wrong family", "PROXY TCP4 ::1 ::1 1 2\r\n", ""},
		{"v1 bad port", "PROXY TCP4 1.2.3.4 1.2.3.4 1 70000\r\n", ""},
		{"v1 padded port", "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n", ""},
		{"v1 too few", "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", ""},
		{"v1 too many", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n", ""},
		{"v1 two spaces", "PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n", ""},
		{"v1 too long", "PROXY UNKNOWN " + strings.Repeat("a", 200) + "\r\n", ""},
		{"v2 bad version", v2("\x11\x11\x00\x0c\x01\x02\x03\x04\x01\x02\x03\x04\x00\x01\x00\x01"), ""},
		{"v2 bad command", v2("\x22\x11\x00\x0c\x01\x02\x03\x04\x01\x02\x03\x04\x00\x01\x00\x01"), ""},
		{"v2 datagram", v2("\x21\x12\x00\x0c\x01\x02\x03\x04\x01\x02\x03\x04\x00\x01\x00\x01"), ""},
		{"v2 too short", v2("\x21\x11\x00\x04\x01\x02\x03\x04"), ""},
		{"v2 huge", v2("\x21\x11\xff\xff" + strings.Repeat("a", 100)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			peer := ""
			g := newGateway(t, nil, setup{
				listener: ListenerOptions{ProxyProtocol: true, Trusted: localTrusted},
				handler: func(x *Exchange, _ func()) {
					peer = x.View.Peer.String()
					_ = x.Reply(200, nil, nil)
				},
			})
			c1 := dial(t, g)
			c1.say(c.header + aGet)
			if c.peer == "" {
				c1.closes()
				if g.metric(`antirobot_http_bad_requests_total{reason="proxy_header"}`) != "1" {
					t.Error("not counted")
				}
				return
			}
			c1.answer("GET")
			if peer != c.peer {
				t.Errorf("the peer is %s, want %s", peer, c.peer)
			}
		})
	}
	t.Run("untrusted", func(t *testing.T) {
		g := newGateway(t, nil, setup{listener: ListenerOptions{
			ProxyProtocol: true,
			Trusted:       trusted(func(netip.Addr) bool { return false }),
		}})
		c1 := dial(t, g)
		_, _ = io.WriteString(c1.Conn, v1IPv4+aGet)
		c1.closes()
	})
	t.Run("in pieces", func(t *testing.T) {
		peer := ""
		g := newGateway(t, nil, setup{
			listener: ListenerOptions{ProxyProtocol: true, Trusted: localTrusted},
			handler: func(x *Exchange, _ func()) {
				peer = x.View.Peer.String()
				_ = x.Reply(200, nil, nil)
			},
		})
		c1 := dial(t, g)
		for _, p := range strings.SplitAfter(v1IPv4+aGet, " ") {
			c1.say(p)
			time.Sleep(time.Millisecond)
		}
		c1.answer("GET")
		if peer != "203.0.113.7" {
			t.Errorf("the peer is %s", peer)
		}
	})
	t.Run("limit per client", func(t *testing.T) {
		g := newGateway(t, nil, setup{
			cfg:      func(c *Config) { c.MaxConnsPerAddr = 1 },
			listener: ListenerOptions{ProxyProtocol: true, Trusted: localTrusted},
			handler:  func(x *Exchange, _ func()) { _ = x.Reply(200, nil, nil) },
		})
		c1, c2, c3 := dial(t, g), dial(t, g), dial(t, g)
		c1.say(v1IPv4 + aGet)
		c1.answer("GET")
		c2.say(v2IPv4 + aGet)
		c2.closes()
		c3.say(v1IPv6 + aGet)
		c3.answer("GET")
	})
}

// TestProxyProtocolBeforeTLS: the header and the client's hello arrive in one segment.
func TestProxyProtocolBeforeTLS(t *testing.T) {
	certs, err := hello.LoadCertificates([]hello.CertificateFiles{certificate(t, t.TempDir(), "a.test", 1)})
	if err != nil {
		t.Fatal(err)
	}
	peer := ""
	g := newGateway(t, nil, setup{listener: ListenerOptions{
		TLS: certs.Config(), ProxyProtocol: true,
		Trusted: localTrusted,
	}, handler: func(x *Exchange, _ func()) {
		peer = x.View.Peer.String()
		_ = x.Reply(200, nil, []byte("ok"))
	}})
	nc, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := tls.Client(&prefixed{Conn: nc, prefix: "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n"},
		&tls.Config{InsecureSkipVerify: true})
	_ = c.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := io.WriteString(c, aGet); err != nil {
		t.Fatal(err)
	}
	cl := &client{t, c, bufio.NewReader(c)}
	if _, body := cl.answer("GET"); body != "ok" || peer != "203.0.113.7" {
		t.Errorf("got %q from %s", body, peer)
	}
}

// prefixed sends prefix together with the first write.
type prefixed struct {
	net.Conn
	prefix string
}

func (p *prefixed) Write(b []byte) (int, error) {
	n := len(p.prefix)
	m, err := p.Conn.Write(append([]byte(p.prefix), b...))
	p.prefix = ""
	return max(m-n, 0), err
}
