package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// TestGRPC: grpc-go's own interoperability tests between its client and its server, with the gateway in the path: calls, streams in
// either direction and in both at once, metadata, status codes and messages in trailers, deadlines and cancelled calls, which
// leave nothing behind.
func TestGRPC(t *testing.T) {
	t.Parallel()
	bin := program(t, "../.bin/interop")
	service, secure, plain := freePort(t), freePort(t), freePort(t)
	runDaemon(t, service, bin, "serve", service)
	cert, key := certificate(t, t.TempDir(), 1)
	g := startWith(t, "serve", "--config", configFile(t, `
listen:
  - {address: %q, tls_cert: %q, tls_key: %q}
  - {address: %q, h2c: true}
defaults: {upstream: {urls: ["http://%s"], protocol: h2}, verdict: {mode: observe}}`, secure, cert, key, plain, service))
	for _, args := range [][]string{{"ask", plain}, {"ask", secure, "tls"}} {
		out, err := exec.Command(bin, args...).CombinedOutput()
		if n := strings.Count(string(out), "\n"); err != nil || n != 13 {
			t.Errorf("%v: %v, %d of 13 pass; the one after the last that is named fails:\n%s", args, err, n, out)
		}
	}
	eventually(t, "calls that were cut end at the service, too", func() bool { return g.metric("upstream_connections", `"active"`) == 0 })
	if n := g.metric("panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}
