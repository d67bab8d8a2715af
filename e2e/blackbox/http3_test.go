package blackbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// gatewayHTTP3 starts the product's binary with a listener of HTTP/3, and an interpreter before it.
func gatewayHTTP3(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		addr, dir := ports.Addr(t), t.TempDir()
		file := filepath.Join(dir, "antirobot.yaml")
		cert := certify(t, dir)
		text := fmt.Sprintf(`listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
admin: {listen: %q}
data_dir: %q
http: {max_conns_per_addr: 0}
defaults: {upstream: {urls: [%q]}}
services:
  - {name: one, hosts: [%s]}
  - {name: two, hosts: [%s], upstream: {protocol: h2}}
`, addr, cert, cert, ports.Addr(t), dir, serviceURL, hostHTTP1, hostHTTP2)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stop := run(t, addr, bin, "serve", "--config", file)
		return interpret(t, addr), stop
	}
}

// certify writes a certificate and its key into one file.
func certify(t *testing.T, dir string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{hostHTTP1}}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	file := filepath.Join(dir, "cert.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// notHTTP3 are cases that mean something else over HTTP/3.
var notHTTP3 = []string{
	"the scheme does not say how the client came", // it speaks of a connection without TLS
	"trailers: without an end",                    // nothing may follow them in any case
	"refused: no scheme",                          // quic-go does not ask for one, and nobody is told of it
}

// http3Cases are those of HTTP/2 but for what is HTTP/2's own: windows and frames.
func http3Cases() []Case {
	var out []Case
	for _, f := range []func() []Case{malformedCases, requestCases, uploadCases, streamedCases, connectCases} {
		out = append(out, f()...)
	}
	return slices.DeleteFunc(out, func(c Case) bool { return slices.Contains(notHTTP3, c.Name) })
}

// TestHTTP3 runs them over HTTP/3 against the binary.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	report(t, suiteStreams(t, gatewayHTTP3(bin), http3Cases(), hostHTTP1, 1, nil), nil)
}
