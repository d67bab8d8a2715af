package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"antirobot/store/redisstore/redistest"
)

// TestSessionsAreShared: a session that began at one gateway is resumed by another one with the same ring, in TLS 1.2 and 1.3, over
// HTTP/1.1 and HTTP/2, and by the first after it was killed; a gateway with another ring makes a new one.
func TestSessionsAreShared(t *testing.T) {
	t.Parallel()
	upstream := site(t).URL
	shared := []string{"--store", "redis://" + redistest.Start(t).Addr, "--secret-file", secretFile(t)}
	start := func(more ...string) (*gateway, string) {
		cert, key := certificate(t, t.TempDir(), 1)
		address := freePort(t)
		file := configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q}]
defaults: {upstream: {urls: [%q]}}`, address, cert, key, upstream)
		return startWith(t, append([]string{"serve", "--config", file}, more...)...), address
	}
	one, first := start(shared...)
	_, second := start(shared...)
	_, stranger := start()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, protocol := range []string{"http/1.1", "h2"} {
			cfg := &tls.Config{
				ServerName: "localhost", MinVersion: version, MaxVersion: version, NextProtos: []string{protocol},
				InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1),
			}
			resumes := func(address string) bool {
				t.Helper()
				c := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: protocol == "h2", DisableKeepAlives: true}
				defer c.CloseIdleConnections()
				req, err := http.NewRequest("GET", "https://"+address+"/", nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := c.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.TLS.NegotiatedProtocol != protocol {
					t.Errorf("the protocol is %q", res.TLS.NegotiatedProtocol)
				}
				return res.TLS.DidResume
			}
			what := fmt.Sprintf("%s, %s", tls.VersionName(version), protocol)
			if resumes(first) {
				t.Errorf("%s: the first connection is resumed", what)
			}
			if !resumes(second) || !resumes(first) {
				t.Errorf("%s: another gateway with the same ring does not resume the session", what)
			}
			one.kill(syscall.SIGKILL)
			one.run()
			if !resumes(first) {
				t.Errorf("%s: after a restart the session is not resumed", what)
			}
			if resumes(stranger) {
				t.Errorf("%s: a gateway with another ring resumes the session", what)
			}
		}
	}
}

// TestPartnersOverEveryProtocol: whom a certificate names is told to the service over HTTP/1.1, HTTP/2 and HTTP/3, in new
// sessions and in resumed ones; nobody can say it in a field; a listener that demands a certificate serves nobody without one.
func TestPartnersOverEveryProtocol(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, t.TempDir(), 1)
	other, otherKey := certificateFor(t, t.TempDir(), 2, "somebody.example")
	asked, demanded, open := freePort(t), freePort(t), freePort(t)
	startWith(t, "serve", "--config", configFile(t, `
listen:
  - {address: %[1]q, tls_cert: %[3]q, tls_key: %[4]q, client_ca: %[3]q, http3: true}
  - {address: %[2]q, tls_cert: %[3]q, tls_key: %[4]q, client_ca: %[3]q, client_required: true, http3: true}
  - {address: %[6]q, tls_cert: %[3]q, tls_key: %[4]q, http3: true}
defaults: {upstream: {urls: [%[5]q]}}`, asked, demanded, cert, key, site(t).URL, open))
	pair := func(cert, key string) []tls.Certificate {
		c, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	for who, own := range map[string][]tls.Certificate{"partner": pair(cert, key), "another authority's": pair(other, otherKey), "nobody": nil} {
		for _, protocol := range []string{"http/1.1", "h2", "h3"} {
			cfg := &tls.Config{
				ServerName: "localhost", NextProtos: []string{protocol}, Certificates: own,
				InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(4),
			}
			for i := range 2 {
				got, err := askAs(cfg, protocol, asked)
				if who != "another authority's" && err != nil {
					t.Errorf("%s over %s: %v", who, protocol, err)
				}
				if strings.Contains(got, "X-Antirobot-Client: localhost\n") != (who == "partner") || strings.Contains(got, "forged") {
					t.Errorf("%s over %s, connection %d: the service got %s", who, protocol, i, got)
				}
			}
			// A session of one listener is no certificate at another, which takes tickets sealed with the same keys.
			if got, err := askAs(cfg, protocol, open); err != nil || strings.Contains(got, "X-Antirobot-Client") {
				t.Errorf("%s over %s with a session, where nobody is asked: %v, %s", who, protocol, err, got)
			}
			if who != "another authority's" {
				if _, err := askAs(cfg, protocol, asked); err != nil {
					t.Error(err)
				}
			}
			if got, err := askAs(cfg, protocol, demanded); (err == nil) != (who == "partner") {
				t.Errorf("%s over %s with a session, where a certificate is demanded: %v, %s", who, protocol, err, got)
			}
			cfg.ClientSessionCache = nil
			if got, err := askAs(cfg, protocol, demanded); (err == nil) != (who == "partner") {
				t.Errorf("%s over %s where a certificate is demanded: %v, %s", who, protocol, err, got)
			}
		}
	}
}

// askAs sends a request on a new connection and returns what the service saw of it.
func askAs(cfg *tls.Config, protocol, address string) (string, error) {
	var c http.RoundTripper
	if protocol == "h3" {
		over := &http3.Transport{TLSClientConfig: cfg}
		defer over.Close()
		c = over
	} else {
		over := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: protocol == "h2", DisableKeepAlives: true}
		defer over.CloseIdleConnections()
		c = over
	}
	req, err := http.NewRequest("GET", "https://"+address+"/", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-Antirobot-Client", "forged")
	res, err := c.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}
