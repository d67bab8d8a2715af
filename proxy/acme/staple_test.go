package acme

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

// TestServe: what certmagic has not got yet is served as it was stored; a response that has ended is replaced by the
// stored one or left out, since clients refuse it.
func TestServe(t *testing.T) {
	const host = "www.shop.example"
	at := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := func(serial int64, name string) *tls.Certificate {
		t.Helper()
		c := &x509.Certificate{
			SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotBefore: at,
			NotAfter: at.Add(time.Hour),
		}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	}
	response := func(c *tls.Certificate, until time.Time) []byte {
		t.Helper()
		b, err := ocsp.CreateResponse(c.Leaf, c.Leaf, ocsp.Response{
			Status: ocsp.Good, SerialNumber: c.Leaf.SerialNumber, ThisUpdate: at.Add(-time.Hour), NextUpdate: until,
		}, key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one, next, other := made(1, host), made(2, host), made(3, "other.example")
	ended, long, longer := response(one, at.Add(-time.Second)), response(one, at.Add(time.Minute)),
		response(one, at.Add(time.Hour))
	with := func(c *tls.Certificate, staple []byte) *tls.Certificate {
		out := *c
		out.OCSPStaple = staple
		return &out
	}
	for name, c := range map[string]struct {
		kept, found *tls.Certificate
		want        *tls.Certificate // nil: an error
		staple      []byte
	}{
		"nothing":                        {},
		"nothing found, one kept":        {kept: with(one, long), want: one, staple: long},
		"another host's found":           {kept: one, found: other, want: one},
		"another host's, nothing kept":   {found: other, want: other},
		"found, as good as new":          {kept: with(one, long), found: with(one, longer), want: one, staple: longer},
		"found, ended, kept":             {kept: with(one, long), found: with(one, ended), want: one, staple: long},
		"found without, kept":            {kept: with(one, long), found: one, want: one, staple: long},
		"found, ended, kept has ended":   {kept: with(one, ended), found: with(one, ended), want: one},
		"found, ended, nothing kept":     {found: with(one, ended), want: one},
		"renewed, the old one's kept":    {kept: with(one, long), found: next, want: next},
		"found, what is no response":     {found: with(one, []byte("nothing")), want: one},
		"nothing found, kept, has ended": {kept: with(one, ended), want: one},
	} {
		s := &site{host: host}
		if c.kept != nil { // copies, as what is found is changed
			c.kept = with(c.kept, c.kept.OCSPStaple)
			s.kept.Store(c.kept)
		}
		var err error
		if c.found == nil {
			c.found, err = new(tls.Certificate), errors.New("none")
		} else {
			c.found = with(c.found, c.found.OCSPStaple)
		}
		got, err := s.serve(c.found, err, at)
		if (err != nil) != (c.want == nil) || c.want != nil &&
			(got.Leaf != c.want.Leaf || string(got.OCSPStaple) != string(c.staple)) {
			t.Errorf("%s: %v", name, err)
		}
		if c.kept != nil && c.kept.Leaf == one.Leaf && got == c.kept {
			t.Errorf("%s: what is kept could be changed", name)
		}
	}
}
