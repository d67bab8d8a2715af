package e2e

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"antirobot/servertest"
)

// responder answers for certificates of pebble's intermediate authority whether they are revoked (RFC 6960): by good or
// revoked, with a response that was made two hours ago and lasts another one, so that whoever starts asks again; by not
// answering (hang), or by an error (away).
type responder struct {
	issuer *x509.Certificate
	key    crypto.Signer

	mode          atomic.Value // string
	asked, waited atomic.Int32
	release       chan struct{}
}

func (r *responder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.asked.Add(1)
	status := ocsp.Good
	switch r.mode.Load() {
	case "away":
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case "hang":
		r.waited.Add(1)
		defer r.waited.Add(-1)
		select {
		case <-r.release:
		case <-req.Context().Done():
			return
		}
	case "revoked":
		status = ocsp.Revoked
	}
	body, _ := io.ReadAll(req.Body)
	asked, err := ocsp.ParseRequest(body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer, err := ocsp.CreateResponse(r.issuer, r.issuer, ocsp.Response{
		Status: status, SerialNumber: asked.SerialNumber, RevokedAt: time.Now(),
		ThisUpdate: time.Now().Add(-2 * time.Hour), NextUpdate: time.Now().Add(time.Hour),
	}, r.key)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/ocsp-response")
	_, _ = w.Write(answer)
}

// learn gets the intermediate authority from pebble.
func (r *responder) learn(t *testing.T, management string) (root string) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(path string) []byte {
		t.Helper()
		res, err := c.Get("https://" + management + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		if block, _ := pem.Decode(b); block == nil {
			t.Fatalf("pebble answers %s with %q", path, b)
		}
		return b
	}
	der := func(path string) []byte {
		block, _ := pem.Decode(get(path))
		return block.Bytes
	}
	var err error
	if r.issuer, err = x509.ParseCertificate(der("/intermediates/0")); err != nil {
		t.Fatal(err)
	}
	if r.key, err = x509.ParsePKCS1PrivateKey(der("/intermediate-keys/0")); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "root.pem", string(get("/roots/0")))
}

// staple is the response that a handshake brings; "": none.
func (r *responder) staple(t *testing.T, address, host string, version uint16) string {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{ServerName: host, MaxVersion: version, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw := c.OCSPResponse()
	if raw == nil {
		return ""
	}
	got, err := ocsp.ParseResponseForCert(raw, c.ConnectionState().PeerCertificates[0], r.issuer)
	if err != nil {
		t.Fatalf("the staple: %v", err)
	}
	return map[int]string{ocsp.Good: "good", ocsp.Revoked: "revoked"}[got.Status]
}

// await waits until something holds.
func await(t *testing.T, g *gateway, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("%s:\n%s", what, tail(g.logs.String(), 4000))
}

// TestStaples: certificates that demand an OCSP response have one stapled, in TLS 1.2, 1.3 and QUIC, which curl takes. A
// responder that never answers, or answers with errors, keeps no certificate from being served, new or after a restart; what it
// said before is stapled until that ends. A certificate that was revoked is replaced.
func TestStaples(t *testing.T) {
	t.Parallel()
	const host = "www.shop.example"
	r := &responder{release: make(chan struct{})}
	r.mode.Store("hang")
	at := httptest.NewServer(r)
	defer at.Close()
	secure, plain, management := freePort(t), freePort(t), freePort(t)
	directory, root := authorityWith(t, portOf(plain), portOf(secure), map[string]any{
		"ocspResponderURL": at.URL, "managementListenAddress": management, "keyAlgorithm": "rsa", // other keys it can't show
	})
	awaitPort(t, management)
	trusted := r.learn(t, management)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, acme: true, http3: true}, {address: %q, redirect_https: true}]
tls: {acme: {hosts: [%s], directory: %q, root_ca: %q, challenges: [http-01], must_staple: true}}
defaults: {upstream: {urls: [%q]}}`, secure, plain, host, directory, root, site(t).URL))
	without := func() bool {
		return g.metric("acme_hosts_without_staple") == 1 && strings.Contains(string(g.api("GET", "/healthz", nil)), "demands an OCSP response")
	}

	serial := obtained(t, g, secure, host, "")
	await(t, g, "the responder is not asked", func() bool { return r.waited.Load() > 0 })
	if r.staple(t, secure, host, tls.VersionTLS13) != "" || r.waited.Load() == 0 || g.metric("acme_hosts_without_certificate") != 0 {
		t.Error("a new certificate is not served before its responder answers")
	}
	await(t, g, "health does not say that there is no response", without)
	r.mode.Store("good")
	close(r.release)
	await(t, g, "no response is stapled", func() bool { return r.staple(t, secure, host, tls.VersionTLS13) == "good" })
	if got := r.staple(t, secure, host, tls.VersionTLS12); got != "good" {
		t.Errorf("in TLS 1.2 the staple is %q", got)
	}
	if dialQUIC(t, secure, host).conn.ConnectionState().TLS.OCSPResponse == nil {
		t.Error("in QUIC there is no staple")
	}
	if health := string(g.api("GET", "/healthz", nil)); without() || g.metric("acme_hosts_without_staple") != 0 {
		t.Errorf("with a response health says %s", health)
	}
	curl := servertest.Need(t, "curl")
	verified := func(when string) {
		t.Helper()
		out, err := exec.Command(curl, "-sS", "--cert-status", "--cacert", trusted, "--resolve", fmt.Sprintf("%s:%s:127.0.0.1", host, portOf(secure)),
			"-o", "/dev/null", "-w", "%{http_code}", "https://"+host+":"+portOf(secure)+"/").CombinedOutput()
		if err != nil || string(out) != "200" {
			t.Errorf("%s, curl --cert-status: %v, %s", when, err, out)
		}
	}
	verified("with a new response")

	r.release = make(chan struct{})
	for _, mode := range []string{"away", "hang"} { // although the response is old enough to be asked for again
		r.mode.Store(mode)
		asked := r.asked.Load()
		g.kill(syscall.SIGKILL)
		g.run()
		if again := obtained(t, g, secure, host, ""); again != serial {
			t.Errorf("with the responder %s the certificate is %s, before it was %s", mode, again, serial)
		}
		verified("after a restart, the responder " + mode)
		await(t, g, "the responder was not asked", func() bool { return r.asked.Load() > asked })
		verified("after a restart, the responder having been " + mode)
	}
	r.mode.Store("revoked")
	close(r.release)
	g.kill(syscall.SIGKILL)
	g.run()
	await(t, g, "the revoked certificate was not asked for", func() bool { return g.metric("acme_obtained_total") > 0 })
	if fresh := obtained(t, g, secure, host, serial); fresh == serial {
		t.Error("a revoked certificate is not replaced")
	}
}
