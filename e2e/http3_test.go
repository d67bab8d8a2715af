package e2e

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// TestHTTP3Browser: Chromium, which speaks nothing but QUIC with the gateway, opens a page, is asked, answers, and is back on
// its page with a pass; each request's line says how it came.
func TestHTTP3Browser(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, site(t).URL), "--captcha-test-answer", testAnswer)
	ctx := browser(t, chromedp.Flag("disable-quic", false), chromedp.Flag("origin-to-force-quic-on", address),
		chromedp.Flag("ignore-certificate-errors-spki-list", keyHash(t, cert)))
	protocol := func(what string) {
		t.Helper()
		if p := value[string](t, ctx, `performance.getEntriesByType("navigation")[0].nextHopProtocol`); p != "h3" {
			t.Errorf("%s came by %s", what, p)
		}
	}
	run(t, ctx, "open the site", chromedp.Navigate("https://"+address+"/first"), chromedp.WaitVisible(`//pre[contains(.,"GET /first")]`))
	protocol("the page")
	g.ban("ip:127.0.0.1", "10m")
	run(t, ctx, "be asked", chromedp.Navigate("https://"+address+"/second"), chromedp.WaitVisible(`input[name="rep"]`, chromedp.ByQuery))
	protocol("the captcha")
	run(t, ctx, "answer", chromedp.SendKeys(`input[name="rep"]`, testAnswer+"\r", chromedp.ByQuery), chromedp.WaitVisible(`//pre[contains(.,"GET /second")]`))
	protocol("the page after it")
	run(t, ctx, "go on as a human", chromedp.Navigate("https://"+address+"/third"), chromedp.WaitVisible(`//pre[contains(.,"GET /third")]`))
	for _, path := range []string{"/first", "/second", "/third"} {
		line := g.logs.find(func(s string) bool {
			return strings.Contains(s, fmt.Sprintf(`"path":%q`, path)) && strings.Contains(s, `"status":`)
		})
		if !strings.Contains(line, `"protocol":"HTTP/3"`) || !strings.Contains(line, `"ja4":"q13`) {
			t.Errorf("the line of %s: %s", path, line)
		}
	}
	if n := g.metric("antirobot_http3_connections_total"); n < 1 {
		t.Errorf("%v connections", n)
	}
}

// TestHTTP3Certificates: the host that a client of QUIC names chooses the certificate; one replaced on disk is served after a
// reload, and open connections stay; what can't be used changes nothing.
func TestHTTP3Certificates(t *testing.T) {
	t.Parallel()
	dir, shop := t.TempDir(), t.TempDir()
	cert, key := certificate(t, dir, 1)
	shopCert, shopKey := certificateFor(t, shop, 10, "shop.example")
	address := freePort(t)
	file := configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, certificates: [{cert_file: %q, key_file: %q}], http3: true}]
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, shopCert, shopKey, site(t).URL)
	g := startWith(t, "serve", "--config", file)
	open := dialQUIC(t, address, "shop.example")
	expect := func(host, serial string) {
		t.Helper()
		if got := dialQUIC(t, address, host).serial(); got != serial {
			t.Errorf("%s: certificate %s, wanted %s", host, got, serial)
		}
	}
	expect("shop.example", "10")
	expect("localhost", "1")
	expect("unknown.example", "1")
	certificateFor(t, shop, 11, "shop.example")
	expect("shop.example", "10") // nothing is read before a reload
	reload := func(said string) {
		t.Helper()
		_ = g.cmd.Process.Signal(syscall.SIGHUP)
		if g.logs.find(func(s string) bool { return strings.Contains(s, said) }) == "" {
			t.Fatalf("a reload did not say %q:\n%s", said, g.logs)
		}
	}
	reload(`"reloaded"`)
	expect("shop.example", "11")
	expect("localhost", "1")
	if err := os.WriteFile(shopKey, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload("reload refused")
	expect("shop.example", "11")
	if status, err := open.get("https://shop.example/"); status != 200 || open.serial() != "10" {
		t.Errorf("the connection that was open: %d, %v, certificate %s", status, err, open.serial())
	}
}

// quicClient is one connection of HTTP/3.
type quicClient struct {
	conn *quic.Conn
	http *http3.ClientConn
}

// dialQUIC connects as a client that names a host. The connection ends with the test.
func dialQUIC(t *testing.T, address, host string) *quicClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	own := &tls.Config{InsecureSkipVerify: true, ServerName: host, NextProtos: []string{http3.NextProtoH3}}
	conn, err := quic.DialAddr(ctx, address, own, &quic.Config{MaxIdleTimeout: patience, KeepAlivePeriod: patience / 8})
	if err != nil {
		t.Fatalf("QUIC for %s: %v", host, err)
	}
	t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	return &quicClient{conn, new(http3.Transport).NewClientConn(conn)}
}

// serial is the number of the certificate that the connection began with.
func (c *quicClient) serial() string {
	return c.conn.ConnectionState().TLS.PeerCertificates[0].SerialNumber.String()
}

func (c *quicClient) get(url string) (status int, err error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := c.http.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// keyHash is how Chromium names the key of a certificate that it is to accept.
func keyHash(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}
