package cmd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/config"
	"antirobot/store/redisstore/redistest"
)

// TestFilesFor: more open files are asked for only where a busy site would lack them, and what the configuration allows is said beside.
func TestFilesFor(t *testing.T) {
	for _, tt := range []struct {
		have     uint64
		maxConns int
		state    string
		parts    string
	}{
		{1 << 20, 100_000, healthy, "1048576 may be open at once, enough for 524032 connections of visitors; the 100000 of http.max_conns would need 200512"},
		{20_000, 100_000, healthy, "enough for 9744 connections"},
		{1024, 100_000, look, "LimitNOFILE=8704"},
		{1024, 200, healthy, "the 200 of http.max_conns would need 912"},
		{100, 200, look, "enough for 0 connections"},
		{1024, 0, look, "http.max_conns sets no limit"},
	} {
		f := filesFor(tt.have, tt.maxConns)
		if f.State != tt.state || !strings.Contains(f.Says+" "+f.Do, tt.parts) || (f.Do == "") != (f.State == healthy) {
			t.Errorf("%d files, %d connections: %+v", tt.have, tt.maxConns, f)
		}
	}
}

// TestModesOfSecrets: the keys are their owner's alone, and the token may be for a group, as the gateway itself has it: Kubernetes mounts
// secrets so.
func TestModesOfSecrets(t *testing.T) {
	for _, tt := range []struct {
		mode        os.FileMode
		keys, token string
	}{
		{0o600, healthy, healthy},
		{0o440, bad, healthy},
		{0o604, bad, bad},
	} {
		d := &doctor{cfg: new(config.Config)}
		d.cfg.DataDir = t.TempDir()
		for _, name := range []string{d.cfg.KeyFile(), tokenFile(d.cfg)} {
			err := os.WriteFile(name, nil, 0o600)
			if err == nil {
				err = os.Chmod(name, tt.mode)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		d.keys()
		if got := []string{d.all[0].State, d.all[1].State}; !slices.Equal(got, []string{tt.keys, tt.token}) {
			t.Errorf("mode %04o: %+v", tt.mode, d.all)
		}
	}
}

// TestKeysOfAFleet: gateways that share a store have a copy of its ring, and no ring of their own that could be missed.
func TestKeysOfAFleet(t *testing.T) {
	d := &doctor{cfg: new(config.Config)}
	d.cfg.DataDir, d.cfg.Store.URL = t.TempDir(), "redis://127.0.0.1:1"
	d.keys()
	if err := os.WriteFile(d.cfg.KeyCopy(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.keys()
	if d.all[0].State != look || !strings.Contains(d.all[0].Says, "shared store") || d.all[2].State != healthy {
		t.Errorf("%+v", d.all)
	}
}

// TestSharedStore: doctor says of servers that gateways share what would make them forget, and which do not answer.
func TestSharedStore(t *testing.T) {
	for want, args := range map[string][]string{
		"keeps what it is told": {"--appendonly", "yes"}, "since its last snapshot": nil, "memory is short (maxmemory-policy allkeys-lru)": {"--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"},
	} {
		d := &doctor{cfg: new(config.Config)}
		d.cfg.Store = config.Default().Store
		d.cfg.Store.URL = "redis://" + redistest.Start(t, args...).Addr
		d.cfg.Store.Redis.Timeout = 30 * time.Second // the machine may be busy
		d.stores(t.Context())
		if len(d.all) != 1 || !strings.Contains(d.all[0].Says, want) || (d.all[0].State == healthy) != (args != nil && args[0] == "--appendonly") {
			t.Errorf("%v: %+v", args, d.all)
		}
	}
	d := &doctor{cfg: new(config.Config)}
	d.cfg.Store = config.Default().Store
	d.cfg.Store.URL = "redis://127.0.0.1:1"
	d.stores(t.Context())
	if len(d.all) != 1 || d.all[0].State != bad || !strings.Contains(d.all[0].Says, "127.0.0.1:1") {
		t.Errorf("a server that is away: %+v", d.all)
	}
}

// TestSignIn: of a provider of OpenID Connect it is said that it is away, and that it has another name.
func TestSignIn(t *testing.T) {
	said, status := "", http.StatusOK
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/.well-known/openid-configuration" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(said, "SELF", "http://"+r.Host))
	}))
	defer p.Close()
	f := func(answers int, says string, want ...string) {
		t.Helper()
		status, said = answers, says
		d := &doctor{cfg: new(config.Config)}
		d.cfg.Admin.OIDC.Issuer = p.URL
		d.signIn(t.Context())
		for _, w := range want {
			if len(d.all) != 1 || !strings.Contains(strings.Join([]string{d.all[0].State, d.all[0].Says, d.all[0].Do}, "\n"), w) {
				t.Errorf("%d %s: %+v, want %q", answers, says, d.all, w)
			}
		}
	}
	f(200, `{"issuer": "SELF"}`, healthy)
	f(200, `{"issuer": "https://id.example/dex"}`, bad, "write admin.oidc.issuer: https://id.example/dex")
	f(404, `no`, bad, "openid-configuration of http://127.0.0.1:", "404 Not Found")
	f(200, `<html>`, bad, "failed to decode provider discovery object")
	f(200, strings.Repeat(" ", 1<<20)+`{"issuer": "SELF"}`, bad, "failed to decode provider discovery object")
	p.Close()
	f(200, ``, bad, "nobody can sign in at the provider", "tokens work meanwhile")
	d := &doctor{cfg: new(config.Config)}
	if d.signIn(t.Context()); len(d.all) > 0 {
		t.Errorf("without a provider: %+v", d.all)
	}
}
