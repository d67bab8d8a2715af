package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"antirobot/servertest"
)

// TestGRPC: grpc-go's own interoperability tests between its client and its server, with the gateway in the path: calls, streams in
// either direction and in both at once, metadata, status codes and messages in trailers, deadlines and cancelled calls, which
// leave nothing behind. Client and service speak TLS, or neither does.
func TestGRPC(t *testing.T) {
	t.Parallel()
	bin := servertest.Tool(t, "interop")
	service, secureService, secure, plain := freePort(t), freePort(t), freePort(t), freePort(t)
	cert, key := certificate(t, t.TempDir(), 1)
	runDaemon(t, service, bin, "serve", service)
	runDaemon(t, secureService, bin, "serve", secureService, cert, key)
	g := startWith(t, "serve", "--config", configFile(t, `
listen:
  - {address: %q, tls_cert: %q, tls_key: %q}
  - {address: %q, h2c: true}
defaults: {upstream: {urls: ["http://%s"], protocol: h2}, verdict: {mode: observe}}
services:
  - {name: plain}
  - {name: secure, hosts: [localhost], upstream: {urls: ["https://%s"], tls: {ca_file: %[2]q, server_name: localhost}}}
`, secure, cert, key, plain, service, secureService))
	for _, args := range [][]string{{"ask", plain}, {"ask", "localhost:" + portOf(secure), "tls"}} {
		out, err := exec.Command(bin, args...).CombinedOutput()
		if n := strings.Count(string(out), "\n"); err != nil || n != 13 {
			t.Errorf("%v: %v, %d of 13 pass; the one after the last that is named fails:\n%s", args, err, n, out)
		}
	}
	for _, of := range []string{"plain", "secure"} {
		eventually(t, "calls that were cut end at the service, too", func() bool {
			return g.metric("upstream_connections", `service="`+of+`"`, `"active"`) == 0
		})
		if n := g.metric("upstream_dials_total", `service="`+of+`"`); n < 1 {
			t.Errorf("%v connections to the %s service", n, of)
		}
	}
	if n := g.metric("panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}
