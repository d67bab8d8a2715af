package blackbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"antirobot/servertest"
)

// The hosts by which the gateway tells in which protocol it speaks with the service.
const (
	hostHTTP1 = "h1.test"
	hostHTTP2 = "h2.test"
)

// gatewayHTTP2 starts the product's binary with a listener of HTTP/2 without TLS, so that cases can be raw.
func gatewayHTTP2(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		addr, dir := ports.Addr(t), t.TempDir()
		file := filepath.Join(dir, "antirobot.yaml")
		text := fmt.Sprintf(`listen: [{address: %q, h2c: true}]
admin: {listen: %q}
data_dir: %q
http: {max_conns_per_addr: 0}
defaults: {upstream: {urls: [%q]}}
services:
  - {name: one, hosts: [%s]}
  - {name: two, hosts: [%s], upstream: {protocol: h2}}
`, addr, ports.Addr(t), dir, serviceURL, hostHTTP1, hostHTTP2)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return addr, run(t, addr, bin, "serve", "--config", file)
	}
}

// nginxHTTP2 starts nginx with a listener of HTTP/2 alone; it speaks HTTP/1.1 with services.
func nginxHTTP2(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		text := strings.Replace(nginxConf, "listen %[2]s;", "listen %[2]s http2; http2_max_concurrent_streams 100;", 1)
		return startNginx(t, bin, text, serviceURL)
	}
}

// suiteStreams runs cases over HTTP/2 against what l starts, one after another. tries is as for suite.
func suiteStreams(t *testing.T, l launcher, cases []Case, host string, tries int, known map[string]bool) (results []result) {
	t.Helper()
	v := newWeb()
	defer v.Close()
	addr, stop := l(t, v.URL)
	defer stop()
	e := &env{addr: addr, host: host, web: v}
	for i := range cases {
		known := known[cases[i].ID()]
		fails := e.runHTTP2(&cases[i], known)
		for again := 1; again < tries && len(fails) > 0 && !known; again++ {
			fails = e.runHTTP2(&cases[i], known)
		}
		results = append(results, result{c: &cases[i], fails: fails})
	}
	return results
}

// runHTTP2 runs one case to its end, and waits until nothing of it can reach the service any more.
func (e *env) runHTTP2(c *Case, known bool) []string {
	x := &X{Case: c, env: e, known: known, done: make(chan struct{}), signals: map[string]chan struct{}{}, named: e.web.next()}
	x.guarded(func() { c.Run(x) })
	close(x.done)
	x.mu.Lock()
	fails, all := x.fails, x.streams
	x.mu.Unlock()
	for _, k := range all {
		k.Close()
	}
	e.settle()
	return fails
}

// settle sends a request of the suite's own, and waits until the service serves no other.
func (e *env) settle() {
	x := &X{Case: &Case{}, env: e, done: make(chan struct{}), signals: map[string]chan struct{}{}}
	x.guarded(func() {
		c := x.dialHTTP2()
		defer c.Close()
		c.mustLive()
	})
	for end := time.Now().Add(patience); e.web.busy.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// TestHTTP2 runs the cases over HTTP/2 against the binary, with a service that speaks HTTP/1.1 and with one of HTTP/2.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	for _, host := range []string{hostHTTP1, hostHTTP2} {
		t.Run(host, func(t *testing.T) { report(t, suiteStreams(t, gatewayHTTP2(bin), http2Cases(), host, 1, nil), nil) })
	}
}

// TestReferenceHTTP2 runs them against nginx: an unlisted failure there is an error of the suite.
func TestReferenceHTTP2(t *testing.T) {
	t.Parallel()
	report(t, suiteStreams(t, nginxHTTP2(servertest.Need(t, "nginx")), http2Cases(), hostHTTP1, 3, nginxFailsHTTP2), nginxFailsHTTP2)
}
