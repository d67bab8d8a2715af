package upstream

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/clienttls"
)

func addrs(s ...string) (out []netip.Addr) {
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestResolverKeepsRefreshesAndFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		answer, fail := addrs("192.0.2.1"), error(nil)
		r := &resolver{lookupIP: func(context.Context, string, string) ([]netip.Addr, error) {
			asked.Add(1)
			time.Sleep(time.Millisecond)
			return answer, fail
		}}
		look := func() netip.Addr {
			ips, err := r.lookup(t.Context(), "app.example", 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return ips[0]
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { look() })
		}
		wg.Wait()
		if asked.Load() != 1 {
			t.Fatalf("%d look-ups for one name at once", asked.Load())
		}
		answer = addrs("192.0.2.2")
		if look().String() != "192.0.2.1" {
			t.Fatal("not kept")
		}
		time.Sleep(6 * time.Second)
		if look().String() != "192.0.2.2" {
			t.Fatal("not refreshed")
		}
		time.Sleep(6 * time.Second)
		answer, fail = nil, errors.New("no such host")
		if look().String() != "192.0.2.2" {
			t.Fatal("the last known addresses must do while the name can't be resolved")
		}
		r2 := &resolver{lookupIP: r.lookupIP}
		if _, err := r2.lookup(t.Context(), "x", time.Second); err == nil {
			t.Fatal("no address and no error")
		}
	})
}

func TestResolverTurnsWithinTheFirstFamily(t *testing.T) {
	r := &resolver{lookupIP: func(context.Context, string, string) ([]netip.Addr, error) {
		return addrs("2001:db8::1", "2001:db8::2", "192.0.2.1"), nil
	}}
	seen := map[string]int{}
	for range 10 {
		ips, err := r.lookup(t.Context(), "app", time.Hour)
		if err != nil || len(ips) != 3 || ips[2].String() != "192.0.2.1" {
			t.Fatal(ips, err)
		}
		seen[ips[0].String()]++
	}
	if seen["2001:db8::1"] != 5 || seen["2001:db8::2"] != 5 {
		t.Fatal(seen)
	}
	if ips, err := (&resolver{}).lookup(t.Context(), "::1", 0); err != nil || ips[0].String() != "::1" {
		t.Fatal(ips, err)
	}
}

func TestNextAddressOfOneName(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	_, port, _ := splitPort(s.Addr().String())
	g := group(t, nil, "http://app.example:"+port)
	g.addrs[0].names.lookupIP = func(context.Context, string, string) ([]netip.Addr, error) {
		return addrs("127.0.0.9", "127.0.0.8", "127.0.0.1"), nil // nobody listens at the first two
	}
	for range 6 {
		c, err := g.Get(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		ask(t, c, "found")
		c.Discard(nil)
	}
}

func splitPort(s string) (string, string, error) { return net.SplitHostPort(s) }

// certificate makes a self-signed one for app.example and 127.0.0.1 and writes it and its key to files.
func certificate(t testing.TB) (c tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "app.example"}, DNSNames: []string{"app.example"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().
				Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	os.WriteFile(certFile, certPEM, 0o600)
	os.WriteFile(keyFile, keyPEM, 0o600)
	if c, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return c, certFile, keyFile
}

func TestTLSConnectionsAreUsedAgain(t *testing.T) {
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			cert, ca, _ := certificate(t)
			cfg := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: version, MaxVersion: version}
			s := serve(t, tls.NewListener(listen(t), cfg), echoLines)
			g := group(t, func(c *Config) { c.TLS.CAFile = ca }, "https://"+s.Addr().String())
			for i := range 5 {
				c := get(t, g)
				if !c.overTLS || c.Reused() != (i > 0) {
					t.Fatalf("exchange %d: TLS %v, reused %v", i, c.overTLS, c.Reused())
				}
				ask(t, c, "over TLS")
				c.Release()
				g.addrs[0].sweep(g.now() + int64(2*time.Second))
			}
			if s.accepted.Load() != 1 {
				t.Fatal(s.accepted.Load())
			}
		})
	}
}

// TestTicketsAreNoUnaskedAnswer: TLS 1.3 sends session tickets after the handshake, so an unread connection holds them.
func TestTicketsAreNoUnaskedAnswer(t *testing.T) {
	cert, ca, _ := certificate(t)
	s := serve(t, tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}}), echoLines)
	g := group(t, func(c *Config) { c.TLS.CAFile = ca }, "https://"+s.Addr().String())
	c := get(t, g)
	time.Sleep(20 * time.Millisecond) // the tickets have arrived
	c.Release()
	d := get(t, g)
	if d != c {
		t.Fatal("dropped for its tickets")
	}
	ask(t, d, "and in order")
	d.Release()
}

func TestUnaskedAnswerOverTLS(t *testing.T) {
	cert, ca, _ := certificate(t)
	for name, spoil := range map[string]func(c net.Conn){
		"data": func(c net.Conn) { io.WriteString(c, "poison\n") },
		"end":  func(c net.Conn) { c.(*tls.Conn).CloseWrite() },
		"half a record": func(c net.Conn) {
			c.(*tls.Conn).NetConn().Write([]byte{23, 3, 3, 0, 40, 1, 2, 3})
		},
		"with the answer": nil,
	} {
		t.Run(name, func(t *testing.T) {
			said := make(chan struct{})
			s := serve(t, tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}}),
				func(c net.Conn) {
					r := bufio.NewReader(c)
					l, _ := r.ReadString('\n')
					if spoil == nil {
						io.WriteString(c, l+"poison\n")
					} else {
						io.WriteString(c, l)
						time.Sleep(5 * time.Millisecond)
						spoil(c)
					}
					close(said)
					io.Copy(io.Discard, c)
				})
			g := group(t, func(c *Config) { c.TLS.CAFile = ca }, "https://"+s.Addr().String())
			c := get(t, g)
			ask(t, c, "question")
			c.Release()
			<-said
			time.Sleep(2 * time.Millisecond)
			a := g.addrs[0]
			got := a.takeIdle(g.now())
			if got != nil {
				t.Error("lent again")
			}
			if got != nil {
				got.R = nil
				got.a.active.Add(1)
				got.Discard(nil)
			}
		})
	}
}

func TestTLSNamesAreVerified(t *testing.T) {
	cert, ca, key := certificate(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}
	s := serve(t, tls.NewListener(listen(t), cfg), echoLines)
	url := "https://" + s.Addr().String()
	try := func(change func(*clienttls.Config)) error {
		g := group(t, func(c *Config) {
			c.TLS.CAFile, c.TLS.CertFile, c.TLS.KeyFile = ca, ca, key
			change(&c.TLS)
		}, url)
		c, err := g.Get(t.Context(), false)
		if err != nil {
			return err
		}
		ask(t, c, "verified")
		c.Release()
		return nil
	}
	if err := try(func(*clienttls.Config) {}); err != nil {
		t.Error(err)
	}
	if err := try(func(c *clienttls.Config) { c.ServerName = "app.example" }); err != nil {
		t.Error(err)
	}
	if err := try(func(c *clienttls.Config) { c.ServerName = "other.example" }); !errors.Is(err, errDial) {
		t.Error("a certificate for another name:", err)
	}
	if err := try(func(c *clienttls.Config) { c.CAFile = "" }); !errors.Is(err, errDial) {
		t.Error("an unknown authority:", err)
	}
	if err := try(func(c *clienttls.Config) { c.CAFile, c.InsecureSkipVerify = "", true }); err != nil {
		t.Error(err)
	}
}

func TestNewReadsTheTLSFiles(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URLs = []string{"https://app"}
	_, ca, key := certificate(t)
	for _, change := range []func(*clienttls.Config){
		func(c *clienttls.Config) { c.CAFile = "/nowhere.pem" },
		func(c *clienttls.Config) { c.CAFile = key },
		func(c *clienttls.Config) { c.CertFile, c.KeyFile = ca, "/nowhere.pem" },
	} {
		c := cfg
		change(&c.TLS)
		if _, err := c.TLS.Load(); err == nil {
			t.Errorf("accepted %+v", c.TLS)
		}
	}
}

func TestRecordsAreFollowedHoweverTheyAreCut(t *testing.T) {
	stream := append([]byte{22, 3, 3, 0, 3, 1, 2, 3}, append([]byte{23, 3, 3, 1, 0}, make([]byte, 256)...)...)
	ends := map[int]bool{0: true, 8: true, len(stream): true}
	for cut := range len(stream) + 1 {
		for _, step := range []int{1, 3, 7, 1000} {
			var r records
			for p := stream[:cut]; len(p) > 0; p = p[min(step, len(p)):] {
				r.pass(p[:min(step, len(p))])
			}
			if r.whole() != ends[cut] {
				t.Fatalf("cut at %d in steps of %d: whole is %v", cut, step, r.whole())
			}
		}
	}
}
