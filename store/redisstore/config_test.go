package redisstore_test

import (
	"strings"
	"testing"

	"antirobot/store/redisstore"
)

func TestParseURL(t *testing.T) {
	good := func(url, want string, check func(a *redisstore.Address) bool) {
		t.Helper()
		a, err := redisstore.ParseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			return
		}
		if a.String() != want || check != nil && !check(a) {
			t.Errorf("%s is %s %+v; want %s", url, a, *a, want)
		}
	}
	good("redis://h", "redis://h:6379", nil)
	good("redis://h:1/3", "redis://h:1/3", func(a *redisstore.Address) bool { return a.DB == 3 && !a.TLS })
	good("rediss://u:p%40%2F@h:1", "rediss://h:1", func(a *redisstore.Address) bool { return a.TLS && a.User == "u" && a.Password == "p@/" })
	good("redis://:p@[2001:db8::5]:6380", "redis://[2001:db8::5]:6380", func(a *redisstore.Address) bool { return a.Password == "p" })
	good("redis://[::1]", "redis://[::1]:6379", nil)
	good("redis-cluster://a:1,b,c:3", "redis-cluster://a:1,b:6379,c:3", func(a *redisstore.Address) bool { return a.Cluster })
	good("rediss-cluster://a:1/0", "rediss-cluster://a:1", func(a *redisstore.Address) bool { return a.Cluster && a.TLS })
	good("redis-sentinel://a,b:1/main/2", "redis-sentinel://a:26379,b:1/main/2", func(a *redisstore.Address) bool { return a.Master == "main" })
	for _, bad := range []string{
		"", "h:6379", "http://h", "redis://", "redis://h:0", "redis://h:65536", "redis://h:x", "redis://a,b", "redis://h/x", "redis://h/1/2",
		"redis://secret%zz@h", "redis://h?db=1", "redis-cluster://a,/0", "redis-cluster://a/1", "redis-sentinel://a", "redis-sentinel://a/", "redis://a b",
	} {
		_, err := redisstore.ParseURL(bad)
		if err == nil {
			t.Errorf("%q is taken", bad)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats a password: %v", bad, err)
		}
	}
}

// FuzzParseURL: a printed address parses to the same address; a password is never printed.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"redis://h", "redis://u:p@h:1/2", "redis-cluster://a:1,[::1]:2", "redis-sentinel://a,b/m/1", "rediss://[::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := redisstore.ParseURL(text)
		if err != nil {
			return
		}
		b, err := redisstore.ParseURL(a.String())
		if err != nil || b.String() != a.String() {
			t.Fatalf("%q is printed as %q, which is %v, %v", text, a, b, err)
		}
	})
}

func TestConfigNamesAllProblems(t *testing.T) {
	cfg := redisstore.DefaultConfig()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	cfg.KeyPrefix = "a{b"
	cfg.Timeout = 0
	cfg.TLS.CertFile = "x"
	err := cfg.Validate()
	for _, key := range []string{"key_prefix:", "timeout:", "tls.cert_file:"} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+key) {
			t.Errorf("no problem of %s in %v", key, err)
		}
	}
}
