package e2e

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
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
		line := g.logs.find(func(s string) bool { return strings.Contains(s, fmt.Sprintf(`"path":%q`, path)) && strings.Contains(s, `"status":`) })
		if !strings.Contains(line, `"protocol":"HTTP/3"`) || !strings.Contains(line, `"ja4":"q13`) {
			t.Errorf("the line of %s: %s", path, line)
		}
	}
	if n := g.metric("antirobot_http3_connections_total"); n < 1 {
		t.Errorf("%v connections", n)
	}
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
