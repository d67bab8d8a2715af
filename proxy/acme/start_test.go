package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/caddyserver/certmagic"
	"github.com/rs/zerolog"

	"antirobot/servertest"
	"antirobot/store"
)

// awayStore can't be read while it is away.
type awayStore struct {
	store.KV
	away  atomic.Bool
	asked atomic.Int32
}

func (s *awayStore) Get(ctx context.Context, dst, key []byte) ([]byte, error) {
	s.asked.Add(1)
	if s.away.Load() {
		return nil, errors.New("away")
	}
	return s.KV.Get(ctx, dst, key)
}

// TestStoreAwayAtStart: a store that can't be read at start is asked again, and then its certificates are served and
// managed.
func TestStoreAwayAtStart(t *testing.T) {
	const host = "www.shop.example"
	kv := &awayStore{KV: store.NewMemory(time.Now)}
	cfg := DefaultConfig()
	cfg.Hosts, cfg.Directory = []string{host}, "https://127.0.0.1:1/dir"
	k, err := New(cfg, Deps{Store: kv, Seal: turned{}, Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now(),
		NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	by := k.issuer.IssuerKey()
	for name, value := range map[string][]byte{
		certmagic.StorageKeys.SiteCert(by, host): pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		certmagic.StorageKeys.SitePrivateKey(by, host): pem.EncodeToMemory(&pem.Block{
			Type:  "PRIVATE KEY",
			Bytes: private,
		}),
		certmagic.StorageKeys.SiteMeta(by, host): []byte(`{"sans":["` + host + `"]}`),
	} {
		if err := k.storage.Store(context.Background(), name, value); err != nil {
			t.Fatal(err)
		}
	}
	kv.away.Store(true)
	k.Start()
	servertest.Eventually(t, "the store is asked", func() bool { return kv.asked.Load() > 0 })
	if m := k.missing(); len(m) != 1 {
		t.Errorf("missing: %q", m)
	}
	kv.away.Store(false)
	servertest.Eventually(t, "the stored certificate is served", func() bool {
		got := k.served(k.sites[0], time.Now())
		return got != nil && got.Leaf.SerialNumber.Int64() == 1
	})
	servertest.Eventually(t, "somebody renews it", func() bool {
		return len(k.cache.AllMatchingCertificates(host)) == 1
	})
	got, err := k.GetCertificate(&tls.ClientHelloInfo{
		ServerName:        "WWW.Shop.example",
		SupportedVersions: []uint16{tls.VersionTLS13},
	})
	if err != nil || got.Leaf.SerialNumber.Int64() != 1 {
		t.Errorf("%v", err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}
