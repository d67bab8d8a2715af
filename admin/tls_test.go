package admin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
)

// writePair makes a self-signed certificate with a serial number of its own, and dates its files.
func writePair(t *testing.T, cert, key string, serial int64, at time.Time) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gate.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"gate.example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// A renewed certificate is served without a restart; one that does not load leaves the old one in use.
func TestCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig()
	cfg.TLSCert, cfg.TLSKey = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	now := time.Now()
	clock := make(chan time.Time, 1)
	clock <- now
	read := func() time.Time { at := <-clock; clock <- at; return at }
	pass := func(d time.Duration) { at := <-clock; clock <- at.Add(d) }

	srv, err := New(cfg, testToken, Deps{Now: read}, zerolog.Nop(), metrics.NewSet())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if err := srv.Serve(ln); err == nil {
		t.Fatal("served without a certificate")
	}
	writePair(t, cfg.TLSCert, cfg.TLSKey, 1, now.Add(-time.Hour))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	serial := func(want int64) {
		t.Helper()
		c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // self-signed
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if got := c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != want {
			t.Errorf("certificate %d, want %d", got, want)
		}
	}
	serial(1)
	writePair(t, cfg.TLSCert, cfg.TLSKey, 2, now)
	serial(1) // the files are looked at every ten seconds
	pass(certRecheck)
	serial(2)
	if err := os.WriteFile(cfg.TLSCert, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	pass(certRecheck)
	serial(2)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
