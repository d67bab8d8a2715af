package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestCertificatesOfAllListeners: certificates replaced on disk are served after a reload, without a restart, by the
// private and the public listener alike, and open connections stay; files that don't belong together are refused, and
// nothing changes.
func TestCertificatesOfAllListeners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, 1)
	file := filepath.Join(dir, "antirobot.yaml")
	text := fmt.Sprintf(`
listen: [{address: "127.0.0.1:0", tls_cert: %[1]q, tls_key: %[2]q}]
admin: {tls_cert: %[1]q, tls_key: %[2]q}
defaults: {upstream: {urls: [%[3]q]}}
`, cert, key, site(t).URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startWith(t, "serve", "--config", file)
	listeners := map[string]string{"visitors": strings.TrimPrefix(g.url, "http://"), "the operator": strings.TrimPrefix(g.admin, "http://")}

	clients := map[string]*http.Client{} // each with a connection that stays open
	for of := range listeners {
		clients[of] = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	}
	serial := func(of string, c *http.Client) int64 {
		t.Helper()
		path := map[string]string{"visitors": "/", "the operator": "/readyz"}[of]
		req, _ := http.NewRequest("GET", "https://"+listeners[of]+path, nil)
		req.Header.Set("Authorization", "Bearer "+g.token)
		res, err := c.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", of, err)
		}
		_, _ = io.Copy(io.Discard, res.Body) // else the connection is not used again
		_ = res.Body.Close()
		if res.StatusCode != 200 {
			t.Fatalf("%s: %s", of, res.Status)
		}
		return res.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	expect := func(old, fresh int64) {
		t.Helper()
		for of, kept := range clients {
			if got := serial(of, kept); got != old {
				t.Errorf("%s, open connection: certificate %d, wanted %d", of, got, old)
			}
			c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
			if got := serial(of, c); got != fresh {
				t.Errorf("%s: certificate %d, wanted %d", of, got, fresh)
			}
		}
	}
	reload := func(said string) {
		t.Helper()
		_ = g.cmd.Process.Signal(syscall.SIGHUP)
		if g.logs.find(func(s string) bool { return strings.Contains(s, said) }) == "" {
			t.Fatalf("a reload did not say %q:\n%s", said, g.logs)
		}
	}
	expect(1, 1)
	certificate(t, dir, 2)
	expect(1, 1) // nothing is read before a reload
	reload(`"reloaded"`)
	expect(1, 2)
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload("reload refused")
	expect(1, 2)
}

// TestPartnersByCertificate: a partner is known by its certificate to the service and to rules; nobody else can say so.
func TestPartnersByCertificate(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, t.TempDir(), 1)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: "127.0.0.1:0", tls_cert: %[1]q, tls_key: %[2]q, client_ca: %[1]q}]
defaults:
  upstream: {urls: [%[3]q]}
  rules:
    text: |
      do regexpCheck(regexp="^/partners", attribute="path") mark elsewhere
      if elsewhere stop as OK
      do hasAttribute(attribute="client_cert") mark unknown
      if unknown stop as BLOCK
      do attributeCheck(attribute="client_cert", value="localhost") mark other
      if other stop as BLOCK
      stop as OK
`, cert, key, site(t).URL))
	partner, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for name, own := range map[string][]tls.Certificate{"localhost": {partner}, "": nil} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: own}, DisableKeepAlives: true}}
		ask := func(path string) (int, string) {
			t.Helper()
			req, _ := http.NewRequest("GET", strings.Replace(g.url, "http:", "https:", 1)+path, nil)
			req.Header.Set("X-Antirobot-Client", "forged")
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			return res.StatusCode, string(b)
		}
		if _, got := ask("/"); strings.Contains(got, "X-Antirobot-Client: localhost\n") != (name != "") || strings.Contains(got, "forged") {
			t.Errorf("of the partner %q the service got %s", name, got)
		}
		if status, _ := ask("/partners"); (status == 200) != (name != "") {
			t.Errorf("by the rule, the partner %q got %d", name, status)
		}
	}
}
