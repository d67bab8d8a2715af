package redisstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/servertest"
	"antirobot/store"
	"antirobot/store/redisstore"
	"antirobot/store/redisstore/redistest"
)

var bg = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long anything that must happen may take on a busy machine.
const patience = time.Minute

// metric returns the value of a metric that the store writes.
func metric(t testing.TB, s *redisstore.Store, name string) (v float64) {
	t.Helper()
	var b strings.Builder
	s.WriteMetrics(&b)
	for line := range strings.SplitSeq(b.String(), "\n") {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			_, err := fmt.Sscan(rest, &v)
			must(t, err)
			return v
		}
	}
	t.Fatalf("no %s in\n%s", name, b.String())
	return 0
}

// TestAwayAtOpen: a store that is unavailable when it is opened works as soon as it is available.
func TestAwayAtOpen(t *testing.T) {
	r := redistest.Start(t)
	r.Kill()
	s := open(t, "redis://"+r.Addr, config())
	if err := s.Healthy(); err == nil {
		t.Fatal("a store that is away calls itself healthy")
	}
	if err := s.Put(bg, []byte("k"), nil, 0); err == nil {
		t.Fatal("Put works without a server")
	}
	if metric(t, s, "antirobot_redis_up") != 0 {
		t.Error("antirobot_redis_up is not 0")
	}
	r.Restart(t)
	servertest.Eventually(t, "health", func() bool { return s.Healthy() == nil })
	must(t, s.Put(bg, []byte("k"), []byte("v"), 0))
	if v, err := s.Get(bg, nil, []byte("k")); err != nil || string(v) != "v" {
		t.Fatalf("%q, %v", v, err)
	}
}

// TestNetworkFaults: the connection to the server is cut, swallows everything, or is slow.
func TestNetworkFaults(t *testing.T) {
	t.Parallel()
	p := redistest.StartProxy(t, redistest.Start(t).Addr)
	cfg := config()
	cfg.Timeout = time.Second
	s := open(t, "redis://"+p.Addr, cfg)
	written := func() bool { return s.Put(bg, []byte("k"), []byte("v"), 0) == nil } // on a busy machine not always within the timeout
	servertest.Eventually(t, "a write", written)
	follow := func() chan error {
		end := make(chan error, 1)
		go func() { end <- s.Follow(bg, "t", "", func(string, []byte) error { return nil }) }()
		return end
	}
	for name, fault := range map[string]func(){"cut": p.Cut, "hole": p.Hole} {
		following := follow()
		time.Sleep(50 * time.Millisecond)
		fault()
		began := time.Now()
		for what, call := range map[string]func() error{
			"Put":   func() error { return s.Put(bg, []byte("k"), []byte("v"), 0) },
			"Get":   func() error { _, err := s.Get(bg, nil, []byte("k")); return err },
			"Spend": func() error { _, err := s.Spend(bg, []byte("k"), 0); return err },
			"Scan":  func() error { return s.Scan(bg, nil, func(_, _ []byte, _ time.Duration) error { return nil }) },
			"Count": func() error {
				return s.Counters().Count(bg, &store.Batch{Adds: []store.Delta{{Counter: store.Counter{Prefix: "p"}, Slot: 1, N: 1}}})
			},
		} {
			if err := call(); err == nil {
				t.Errorf("%s: %s works", name, what)
			}
		}
		if took := time.Since(began); took > patience {
			t.Errorf("%s: five calls took %v with a timeout of %v", name, took, cfg.Timeout)
		}
		servertest.Eventually(t, name+": Healthy says so", func() bool { return s.Healthy() != nil })
		select {
		case err := <-following:
			if err == nil {
				t.Errorf("%s: Follow ends without an error", name)
			}
		case <-time.After(patience):
			t.Errorf("%s: Follow does not notice", name)
		}
		p.Heal()
		took := servertest.Eventually(t, name+": health after it", func() bool { return s.Healthy() == nil })
		t.Logf("%s: well again after %v", name, took)
		servertest.Eventually(t, name+": a write after it", written)
	}
	cfg = config()
	cfg.Timeout = patience
	s = open(t, "redis://"+p.Addr, cfg)
	p.Slow(50 * time.Millisecond)
	for range 5 {
		must(t, s.Put(bg, []byte("k"), []byte("v"), 0))
	}
	if err := s.Healthy(); err != nil {
		t.Errorf("a slow store is unhealthy: %v", err)
	}
}

// TestHungServer: a server that hangs delays nobody for longer than the timeout.
func TestHungServer(t *testing.T) {
	r := redistest.Start(t)
	cfg := config()
	cfg.Timeout = 300 * time.Millisecond
	s := open(t, "redis://"+r.Addr, cfg)
	r.Signal(t, syscall.SIGSTOP)
	began := time.Now()
	_, err := s.Spend(bg, []byte("k"), 0)
	if took := time.Since(began); err == nil || took > patience {
		t.Errorf("Spend: %v after %v", err, took)
	}
	if s.Healthy() == nil {
		t.Error("a hung store is healthy")
	}
	ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, nil, []byte("k")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get with a deadline of its own: %v", err)
	}
	r.Signal(t, syscall.SIGCONT)
	servertest.Eventually(t, "health", func() bool { return s.Healthy() == nil })
}

// TestFullMemory: a full server refuses writes and says so; reads go on; it recovers when there is room.
func TestFullMemory(t *testing.T) {
	r := redistest.Start(t, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
	s := open(t, "redis://"+r.Addr, config())
	must(t, s.Put(bg, []byte("first"), []byte("v"), 0))
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = s.Put(bg, fmt.Appendf(nil, "k%d", i), make([]byte, 64<<10), 0)
	}
	if err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("Put into full memory: %v", err)
	}
	if err := s.Healthy(); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Healthy: %v", err)
	}
	for i := 0; ; i++ { // until there is no room for small values either
		if _, err := s.Spend(bg, fmt.Appendf(nil, "x%d", i), 0); err != nil {
			break
		}
		if i > 100_000 {
			t.Fatal("Spend works in full memory")
		}
	}
	b := &store.Batch{Uniques: []store.Unique{{Counter: store.Counter{Prefix: "p"}, Slot: 1}}}
	if err := s.Counters().Count(bg, b); err == nil {
		t.Error("Count works in full memory")
	}
	if v, err := s.Get(bg, nil, []byte("first")); err != nil || string(v) != "v" {
		t.Errorf("Get from full memory: %q, %v", v, err)
	}
	r.CLI(t, "config", "set", "maxmemory", "100mb")
	servertest.Eventually(t, "health", func() bool { return s.Healthy() == nil })
	if first, err := s.Spend(bg, []byte("y"), 0); err != nil || !first {
		t.Errorf("Spend when there is room again: %v, %v", first, err)
	}
}

// TestWaitsForReplica: spends and puts wait for a replica; a replica that hangs is not waited for long, and this is
// counted.
func TestWaitsForReplica(t *testing.T) {
	r := redistest.Start(t)
	replica := redistest.StartReplica(t, r)
	cfg := config()
	// A busy machine must not be taken for a replica that hangs.
	s := openWith(t, cfg, redisstore.Deps{URL: "redis://" + r.Addr, WaitTimeout: 5 * time.Second})
	if n := metric(t, s, "antirobot_redis_replicas"); n != 1 {
		t.Fatalf("%v replicas are seen", n)
	}
	must(t, s.Put(bg, []byte("k"), []byte("v"), 0))
	if _, err := s.Spend(bg, []byte("k"), 0); err != nil {
		t.Fatal(err)
	}
	if with, without := metric(t, s, "antirobot_redis_replicated_total"), metric(t, s, "antirobot_redis_unreplicated_total"); with != 2 || without != 0 {
		t.Errorf("%v writes with a replica, %v without", with, without)
	}
	if n := replica.CLI(t, "exists", cfg.KeyPrefix+"{00}xprobe"); n != "1" {
		t.Errorf("the replica has %s", n)
	}
	replica.Signal(t, syscall.SIGSTOP)
	began := time.Now()
	must(t, s.Put(bg, []byte("k2"), []byte("v"), 0))
	if took := time.Since(began); took > patience {
		t.Errorf("Put waited %v for a replica that hangs", took)
	}
	if without := metric(t, s, "antirobot_redis_unreplicated_total"); without != 1 {
		t.Errorf("%v writes without a replica", without)
	}
	replica.Signal(t, syscall.SIGCONT)
}

func TestTLSAndPassword(t *testing.T) {
	cert, key := certificate(t)
	r := redistest.StartTLS(t, cert, key, cert, "--user", "gate", "on", ">secret:word", "~*", "+@all", "--user", "default", "off")
	cfg := config()
	cfg.TLS.CAFile = cert
	s := open(t, "rediss://gate:secret%3Aword@"+r.Addr, cfg)
	must(t, s.Put(bg, []byte("k"), []byte("v"), 0))

	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("secret:word\n"), 0o600))
	cfg.PasswordFile = file
	s = open(t, "rediss://gate@"+r.Addr, cfg)
	if v, err := s.Get(bg, nil, []byte("k")); err != nil || string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
	_, err := redisstore.New(cfg, redisstore.Deps{URL: "rediss://gate:wrong@" + r.Addr, Log: zerolog.Nop()})
	if err == nil || strings.Contains(err.Error(), "wrong:") || !strings.Contains(err.Error(), "refuses") {
		t.Errorf("a wrong password: %v", err)
	}
	cfg.TLS.CAFile = ""
	s = open(t, "rediss://gate@"+r.Addr, cfg)
	err = s.Healthy()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); err = s.Healthy() {
		if err == nil || strings.Contains(err.Error(), "certificate") {
			break // on a busy machine the handshake may time out first
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server with an unknown certificate: %v", err)
	}
	cfg.TLS.CAFile = file
	if _, err := redisstore.New(cfg, redisstore.Deps{URL: "rediss://" + r.Addr, Log: zerolog.Nop()}); err == nil || !strings.Contains(err.Error(), "tls.ca_file") {
		t.Errorf("a file that is no certificate: %v", err)
	}
}

// certificate writes a self-signed certificate for 127.0.0.1, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &tmpl, &tmpl, &private.PublicKey, private)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}
