package h1

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"testing"
	"time"
)

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
