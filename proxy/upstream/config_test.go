package upstream

import (
	"strings"
	"testing"
	"time"
)

func TestValidateAcceptsAddresses(t *testing.T) {
	for _, u := range []string{
		"http://127.0.0.1:8080", "http://127.0.0.1:8080/", "http://app", "https://app.example",
		"https://[::1]:8443", "http+unix:///run/app.sock", "HTTP://App.Example:80",
	} {
		c := DefaultConfig()
		c.URLs = []string{u}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func TestParseTargetNames(t *testing.T) {
	f := func(raw, want string, tls bool) {
		t.Helper()
		got, err := parseTarget(raw)
		if err != nil || got.String() != want || got.tls != tls {
			t.Errorf("%s: %v %v %v", raw, got, got.tls, err)
		}
	}
	f("http://App.Example", "app.example:80", false)
	f("https://app.example", "app.example:443", true)
	f("https://[::1]:8443", "[::1]:8443", true)
	f("http+unix:///run/app.sock", "/run/app.sock", false)
}

// TestTargetErrorsShowNoSecrets: errors about an address do not contain anything that may be a password or a token.
func TestTargetErrorsShowNoSecrets(t *testing.T) {
	for _, raw := range []string{
		"http://user:secret@host", "http://user:sec/secret@host", "http://user:secret@host:bad",
		"http://user:%zzsecret@host",
		"ftp://user:secret@host", "http://user:sec?secret#@host", "http://host?token=secret", "http://ho st?secret",
		"//u:secret@h",
	} {
		if _, err := parseTarget(raw); err == nil || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), "h") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if got, err := parseTarget("http+unix:///run/a@b.sock"); err != nil || got.String() != "/run/a@b.sock" {
		t.Errorf("%v %v", got, err)
	}
}

func TestValidateReturnsEverythingWrong(t *testing.T) {
	f := func(want string, change func(*Config)) {
		t.Helper()
		c := DefaultConfig()
		c.URLs = []string{"http://127.0.0.1:1"}
		change(&c)
		err := c.Validate()
		if err == nil {
			t.Errorf("%s: accepted", want)
			return
		}
		for _, line := range strings.Split(err.Error(), "\n") {
			if strings.HasPrefix(line, want+": ") {
				return
			}
		}
		t.Errorf("no line for %s in: %v", want, err)
	}
	f("urls", func(c *Config) { c.URLs = nil })
	f("urls", func(c *Config) { c.URLs = make([]string, 65) })
	for _, u := range []string{
		"127.0.0.1:80", "ftp://x", "http://", "http://x:0", "http://x:99999", "http://x:", "http://x/path",
		"http://x?q",
		"http://x/?", "http://x#f", "http://u:p@x", "http+unix://x/y", "http+unix:///", "http://x y", "",
	} {
		f("urls[0]", func(c *Config) { c.URLs = []string{u} })
	}
	f("urls[1]", func(c *Config) { c.URLs = []string{"http://app", "http://APP:80"} })
	f("dial_timeout", func(c *Config) { c.DialTimeout = 0 })
	f("fail_timeout", func(c *Config) { c.FailTimeout = -time.Second })
	f("max_conns", func(c *Config) { c.MaxConns = -1 })
	f("tls.cert_file", func(c *Config) { c.TLS.CertFile = "x" })

	var zero Config
	if n := strings.Count(zero.Validate().Error(), "\n"); n < 6 {
		t.Errorf("an empty config has only %d lines of errors", n+1)
	}
	secret := DefaultConfig()
	secret.URLs = []string{"http://user:hunter2@app"}
	if strings.Contains(secret.Validate().Error(), "hunter2") {
		t.Error("the error repeats a password")
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"http://a", "https://[::1]:1", "http+unix:///x", "http://a/b", "::", "http://a:b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseTarget(s)
		if err != nil {
			return
		}
		if got.host == "" || got.network == "tcp" && got.port == "" {
			t.Fatalf("%q gives %+v", s, got)
		}
	})
}
