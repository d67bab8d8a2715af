package h1

import (
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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"antirobot/proxy/h1/hello"
)

// signer is an authority for the certificates of clients.
type signer struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newSigner(t *testing.T, name string) *signer {
	t.Helper()
	s := &signer{t: t, file: filepath.Join(t.TempDir(), name+".pem")}
	tpl := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	s.cert, s.key = s.sign(tpl)
	if err := os.WriteFile(s.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *signer) sign(tpl *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	tpl.SerialNumber, tpl.NotBefore = big.NewInt(1), time.Now().Add(-time.Hour)
	if tpl.NotAfter.IsZero() {
		tpl.NotAfter = time.Now().Add(time.Hour)
	}
	parent, by := s.cert, s.key
	if parent == nil {
		parent, by = tpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, parent, &key.PublicKey, by)
	if err != nil {
		s.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		s.t.Fatal(err)
	}
	return cert, key
}

func (s *signer) client(tpl x509.Certificate) []tls.Certificate {
	s.t.Helper()
	if tpl.ExtKeyUsage == nil {
		tpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	cert, key := s.sign(&tpl)
	return []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
}

// TestClientCertificates: who has a good certificate is known by its name; a bad one is worse than none, and none will
// do where it is not required. A reload changes who signs.
func TestClientCertificates(t *testing.T) {
	certs, err := hello.LoadCertificates([]hello.CertificateFiles{certificate(t, t.TempDir(), "a.test", 1)})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := newSigner(t, "ours"), newSigner(t, "theirs")
	for _, required := range []bool{false, true} {
		cas, err := LoadClientCAs(ours.file, required)
		if err != nil {
			t.Fatal(err)
		}
		cfg := certs.Config()
		cas.Apply(cfg, "acme-tls/1")
		cfg.NextProtos = append(cfg.NextProtos, "acme-tls/1")
		g := newGateway(t, answering(t, okAnswer), setup{
			listener: ListenerOptions{TLS: cfg},
			handler: func(x *Exchange, _ func()) {
				_ = x.Reply(200, nil, append([]byte("you are "), x.View.Client...))
			},
		})
		sessions := tls.NewLRUClientSessionCache(1)
		ask := func(own []tls.Certificate, protocols ...string) string {
			c, err := tls.Dial("tcp", g.addr, &tls.Config{
				ServerName: "a.test", InsecureSkipVerify: true, NextProtos: protocols, ClientSessionCache: sessions,
				// whoever is asked for
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					if own == nil {
						return new(tls.Certificate), nil
					}
					return &own[0], nil
				},
			})
			if err != nil {
				return "no"
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(60 * time.Second))
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
			answer, err := io.ReadAll(c)
			if _, body, ok := strings.Cut(string(answer), "\r\n\r\n"); err == nil && ok {
				return body
			}
			return "no"
		}
		again := func(want string, own []tls.Certificate, protocols ...string) {
			t.Helper()
			if got := ask(own, protocols...); got != want {
				t.Errorf("required %v: %q, want %q", required, got, want)
			}
		}
		f := func(want string, own []tls.Certificate, protocols ...string) {
			t.Helper()
			sessions = tls.NewLRUClientSessionCache(1)
			again(want, own, protocols...)
		}
		without := "you are "
		if required {
			without = "no"
		}
		good := ours.client(x509.Certificate{
			DNSNames: []string{"shop.partner.example"},
			Subject:  pkix.Name{CommonName: "Partner"},
		})
		f(without, nil)
		f("you are shop.partner.example", good)
		again("you are shop.partner.example", good) // the session is resumed
		f("you are Partner Ltd", ours.client(x509.Certificate{Subject: pkix.Name{CommonName: "Partner Ltd"}}),
			"http/1.1")
		f("you are spiffe://partner/app", ours.client(x509.Certificate{URIs: []*url.URL{{
			Scheme: "spiffe",
			Host:   "partner", Path: "/app",
		}}, Subject: pkix.Name{CommonName: "x"}}))
		f("no", theirs.client(x509.Certificate{DNSNames: []string{"shop.partner.example"}}))
		f("no", ours.client(x509.Certificate{DNSNames: []string{"a"}, NotAfter: time.Now().Add(-time.Minute)}))
		f("no", ours.client(x509.Certificate{
			DNSNames:    []string{"a"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}))
		f("no", ours.client(x509.Certificate{}))
		f("no", ours.client(x509.Certificate{Subject: pkix.Name{CommonName: "a\r\nX-Real-IP: 1"}}))
		f("no", theirs.client(x509.Certificate{DNSNames: []string{"a"}}), "acme-tls/1") // a challenge is no way in
		f("you are shop.partner.example", good)
		commit, err := cas.Prepare(theirs.file)
		if err != nil {
			t.Fatal(err)
		}
		commit()
		again("no", good)
		// who comes with the session of before is asked anew
		again("you are b", theirs.client(x509.Certificate{DNSNames: []string{"b"}}))
		if _, err := cas.Prepare("/nowhere.pem"); err == nil {
			t.Error("a file that is not there was read")
		}
	}
}

// TestCertificateByServerName: the name that a client gives chooses, wildcards included; other names, and none, get the
// first certificate, unless others are asked and have one.
func TestCertificateByServerName(t *testing.T) {
	dir := t.TempDir()
	certs, err := hello.LoadCertificates([]hello.CertificateFiles{
		certificate(t, dir, "first.test", 1), certificate(t, dir, "second.test", 2),
		certificate(t, dir, "*.wild.test", 3),
	})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	obtained, _ := tls.LoadX509KeyPair(filepath.Join(dir, "second.test.crt"), filepath.Join(dir, "second.test.key"))
	g := newGateway(t, answering(t, okAnswer), setup{listener: ListenerOptions{TLS: certs.Config()}})
	f := func(name string, want int64) {
		t.Helper()
		if _, cert := dialTLS(t, g, name); cert.SerialNumber.Int64() != want {
			t.Errorf("%q got certificate %d, want %d", name, cert.SerialNumber, want)
		}
	}
	f("first.test", 1)
	f("second.test", 2)
	f("SECOND.test", 2)
	f("a.wild.test", 3)
	f("wild.test", 1)
	f("a.b.wild.test", 1)
	f("other.test", 1)
	f("", 1)
	certs.WithOthers(func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		asked++
		if h.ServerName == "obtained.test" {
			return &obtained, nil
		}
		return nil, errNoClientName
	})
	f("second.test", 2)
	if asked != 0 {
		t.Error("others were asked for what a file covers")
	}
	f("obtained.test", 2)
	f("other.test", 1)
	if asked != 2 {
		t.Errorf("others were asked %d times", asked)
	}
}

// TestClientChains: certificates lead to an authority over others, one of which may have two issuers; more than that is
// refused before their signatures are checked, of which a few certificates of one subject would make a hundred.
func TestClientChains(t *testing.T) {
	ours := newSigner(t, "ours")
	cas, err := LoadClientCAs(ours.file, true)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// signed makes one certificate; all have the same key, but for the one of the authority.
	signed := func(subject string, serial int64, issuer *x509.Certificate, by *ecdsa.PrivateKey) *x509.Certificate {
		t.Helper()
		of := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: subject}, NotBefore: time.Now().
					Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: subject != "client", BasicConstraintsValid: true,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			DNSNames:    []string{big.NewInt(serial).String()},
		}
		der, err := x509.CreateCertificate(rand.Reader, of, issuer, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	// row is a client whose certificate leads to ours over so many others.
	row := func(between int) []*x509.Certificate {
		chain := []*x509.Certificate{signed(string(rune('a')), 1, ours.cert, ours.key)}
		for i := 1; i < between; i++ {
			chain = append([]*x509.Certificate{signed(string(rune('a'+i)), int64(i+1), chain[0], key)}, chain...)
		}
		return append([]*x509.Certificate{signed("client", 99, chain[0], key)}, chain...)
	}
	f := func(name string, chain []*x509.Certificate, want error) {
		t.Helper()
		if err := cas.verify(chain, time.Now()); !errors.Is(err, want) {
			t.Errorf("%s: %v, not %v", name, err, want)
		}
	}
	f("the longest", row(maxBetween), nil)
	f("a longer one", row(maxBetween+1), errLongChain)
	short := row(1)
	stranger := newSigner(t, "stranger")
	twice := signed("a", 2, stranger.cert, stranger.key)
	f("two issuers", []*x509.Certificate{short[0], twice, short[1]}, nil)
	f("and a third", []*x509.Certificate{short[0], twice, signed("a", 3, stranger.cert, stranger.key), short[1]},
		errLongChain)
	clique := []*x509.Certificate{signed("client", 99, twice, key)}
	for i := range int64(5) {
		clique = append(clique, signed("a", i, twice, key))
	}
	f("each of which has signed all", clique, errLongChain)
}
