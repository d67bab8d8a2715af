package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/store"
)

// TestProblems: what failed here is no problem any more once there is a later certificate, which another gateway
// obtained.
func TestProblems(t *testing.T) {
	const host = "www.shop.example"
	cfg := DefaultConfig()
	cfg.Hosts = []string{host}
	k, err := New(cfg, Deps{
		Store: store.NewMemory(time.Now), Seal: turned{}, Log: zerolog.Nop(),
		Metrics: metrics.NewSet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	arrives := func(serial int64, end time.Time) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(serial), DNSNames: []string{host}, NotBefore: time.Now(),
			NotAfter: end,
		}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.config.CacheUnmanagedTLSCertificate(ctx,
			tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 { // without a certificate, and with one that is to be renewed
		_ = k.event(ctx, "cert_failed", map[string]any{"identifier": host, "error": errors.New("away")})
		if p := k.Problems(); len(p) != 1 || p[0] != host+": away" {
			t.Errorf("after a failure: %q", p)
		}
		arrives(int64(i), time.Now().Add(time.Duration(i+1)*time.Hour))
		if p := k.Problems(); len(p) != 0 {
			t.Errorf("with a later certificate: %q", p)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}
