package acme

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/caddyserver/certmagic"
	"github.com/rs/zerolog"

	"antirobot/servertest"
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

// turned is a sealer that everybody can open, but only under the same name.
type turned struct{}

func (turned) Seal(name string, plain []byte) []byte { return append([]byte(name+"|"), plain...) }

func (turned) Open(name string, sealed []byte) ([]byte, error) {
	plain, ok := bytes.CutPrefix(sealed, []byte(name+"|"))
	if !ok {
		return nil, errors.New("another name")
	}
	return plain, nil
}

func newStorage(kv store.KV) *storage {
	return &storage{kv: kv, seal: turned{}, now: time.Now, locks: map[string]*lock{}}
}

// TestStorageConforms does with our storage and with certmagic's own, in files, the same things, and expects the same.
func TestStorageConforms(t *testing.T) {
	ctx := context.Background()
	ours := newStorage(store.NewMemory(time.Now))
	theirs := &certmagic.FileStorage{Path: t.TempDir()}
	both := func(what string, f func(s certmagic.Storage) (any, error)) {
		t.Helper()
		got, err := f(ours)
		want, wantErr := f(theirs)
		a, aok := got.([]string)
		b, bok := want.([]string)
		if aok && bok {
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) {
				t.Errorf("%s: %v, want %v", what, a, b)
			}
		} else if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		if (err == nil) != (wantErr == nil) || errors.Is(err, fs.ErrNotExist) != errors.Is(wantErr, fs.ErrNotExist) {
			t.Errorf("%s: error %v, want %v", what, err, wantErr)
		}
	}
	load := func(key string) {
		t.Helper()
		both("load "+key, func(s certmagic.Storage) (any, error) {
			b, err := s.Load(ctx, key)
			if s == certmagic.Storage(theirs) && err != nil {
				err = fs.ErrNotExist // of a folder it says that it is one
			}
			return string(b), err
		})
		both("stat "+key, func(s certmagic.Storage) (any, error) {
			i, err := s.Stat(ctx, key)
			if err == nil && i.IsTerminal && time.Since(i.Modified) > time.Minute {
				t.Errorf("%s was written %v", key, i.Modified)
			}
			if !i.IsTerminal {
				i.Size = 0
			}
			return certmagic.KeyInfo{Key: i.Key, Size: i.Size, IsTerminal: i.IsTerminal}, err
		})
		both("exists "+key, func(s certmagic.Storage) (any, error) { return s.Exists(ctx, key), nil })
	}
	list := func(folder string) {
		t.Helper()
		for _, recursive := range []bool{false, true} {
			both("list "+folder, func(s certmagic.Storage) (any, error) { return s.List(ctx, folder, recursive) })
		}
	}
	load("a/b/c")
	list("a")
	for _, key := range []string{"a/b/c", "a/b/d.key", "a/e", "ab/f", "a/b/c"} {
		both("store "+key, func(s certmagic.Storage) (any, error) {
			return nil,
				s.Store(ctx, key, []byte("value of "+key))
		})
	}
	for _, key := range []string{"a/b/c", "a/b", "a", "ab", "ab/f", "a/b/d", "no"} {
		load(key)
	}
	for _, folder := range []string{"", "a", "a/b", "ab", "no"} {
		list(folder)
	}
	for _, key := range []string{"no", "a/e", "a/b"} {
		both("delete "+key, func(s certmagic.Storage) (any, error) { return nil, s.Delete(ctx, key) })
		load(key)
	}
	load("a/b/c")
	load("ab/f")
}

// TestStorageOfAnotherRing: what can't be opened is absent, so that it is obtained anew.
func TestStorageOfAnotherRing(t *testing.T) {
	ctx := context.Background()
	kv := store.NewMemory(time.Now)
	s := newStorage(kv)
	if err := kv.Put(ctx, []byte(filePrefix+"a"), []byte("b|sealed under another name"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(ctx, "a"); !errors.Is(err, fs.ErrNotExist) || s.Exists(ctx, "b") {
		t.Errorf("%v", err)
	}
}

// TestLocks: of several gateways that want a lock one has it at a time; whoever waits can give up; a dead gateway's
// lock ends.
func TestLocks(t *testing.T) {
	kv := store.NewMemory(time.Now)
	ctx := context.Background()
	var wg sync.WaitGroup
	holders := make(chan struct{}, 1)
	for range 4 {
		s := newStorage(kv)
		wg.Go(func() {
			if err := s.Lock(ctx, "site"); err != nil {
				t.Error(err)
			}
			select {
			case holders <- struct{}{}:
			default:
				t.Error("two hold the lock")
			}
			<-holders
			if err := s.Unlock(ctx, "site"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	dead, waits := newStorage(kv), newStorage(kv)
	if err := dead.Lock(ctx, "site"); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := waits.Lock(soon, "site"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the lock of another: %v", err)
	}
	if err := waits.Unlock(ctx, "site"); err == nil {
		t.Error("what is not locked here was unlocked")
	}
	if err := kv.Delete(ctx, []byte(lockPrefix+"site")); err != nil { // as after lockTTL
		t.Fatal(err)
	}
	if err := waits.Lock(ctx, "site"); err != nil {
		t.Error(err)
	}
	if err := dead.close(); err != nil { // it has lost its lock: that of another stays
		t.Error(err)
	}
	if err := newStorage(kv).Lock(soon, "site"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the lock of another: %v", err)
	}
	if err := waits.Unlock(ctx, "site"); err != nil {
		t.Error(err)
	}
}

// TestLocksOfOneThatLeaves: a gateway that ends leaves no lock behind, and takes none any more.
func TestLocksOfOneThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := store.NewMemory(time.Now)
		ctx := context.Background()
		leaves, comes := newStorage(kv), newStorage(kv)
		if err := leaves.Lock(ctx, "site"); err != nil {
			t.Fatal(err)
		}
		if err := leaves.close(); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if err := comes.Lock(ctx, "site"); err != nil || time.Since(began) > 2*lockPoll {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := comes.Unlock(ctx, "site"); err != nil {
			t.Error(err)
		}
		time.Sleep(lockPoll)
		if err := leaves.Lock(ctx, "site"); !errors.Is(err, errClosed) {
			t.Errorf("one that has left locks: %v", err)
		}
		time.Sleep(lockPoll)
		if err := comes.Lock(ctx, "site"); err != nil || comes.close() != nil {
			t.Error(err)
		}
	})
}

// TestConfig: what is no public host is refused with its key.
func TestConfig(t *testing.T) {
	c := DefaultConfig()
	c.Hosts = []string{
		"www.example.com", "localhost", "*.example.com", "пример.рф", "a b.example",
		"https://example.com",
	}
	c.Email, c.Directory = "nobody", "http://ca.example/"
	err := c.Validate()
	for _, want := range []string{"hosts[1]: ", "hosts[2]: ", "hosts[4]: ", "hosts[5]: ", "email: ", "directory: "} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if c = DefaultConfig(); c.Validate() != nil {
		t.Error(c.Validate())
	}
}
