package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkHTTP2 compares the CPU time of a request over HTTP/2 and TLS: the gateway with all that it does by default, nginx and
// Caddy, loaded by h2load in interleaved pairs. All three speak HTTP/1.1 with the same service.
func BenchmarkHTTP2(b *testing.B) { overTLS(b, "h2", "-c", "16", "-m", "16") }

// BenchmarkHTTPS is BenchmarkHTTP2 with HTTP/1.1.
func BenchmarkHTTPS(b *testing.B) { overTLS(b, "http/1.1", "--h1", "-c", "64") }

func overTLS(b *testing.B, protocol string, load ...string) {
	b.Helper()
	pairs, requests := 1, 2000
	if v, err := strconv.Atoi(os.Getenv("BENCH_PAIRS")); err == nil && v > 0 {
		pairs, requests = v, 20000
	}
	for _, program := range []string{"h2load", "nginx", "caddy"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skipf("NOT MEASURED: there is no %s", program)
		}
	}
	service := startRole(b, "service", "")
	cert, key := certificate(b, b.TempDir(), 1)
	all := []process{
		startTLSGateway(b, service.addr, "", cert, key),
		startTLSNginx(b, service.addr, cert, key),
		startCaddy(b, service.addr, cert, key),
	}
	cookie := secureCookie(b, all[0].addr)
	for _, p := range all {
		loadTLS(b, p.addr, requests, cookie, protocol, load) // warm up
	}
	perRequest := make([][]float64, len(all))
	for i := range pairs {
		for k := range all {
			n := (i + k) % len(all)
			before := all[n].cpu(b)
			loadTLS(b, all[n].addr, requests, cookie, protocol, load)
			perRequest[n] = append(perRequest[n], (all[n].cpu(b)-before)/float64(requests)*1e6)
		}
	}
	for range b.N { // the work is done above, in pairs
	}
	b.ReportMetric(0, "ns/op")
	for n, p := range all {
		fmt.Printf("  %-10s %6.1f µs CPU per request (median of %d × %d requests, 1 KB, %s, h2load %s)\n", p.name, median(perRequest[n]), pairs, requests, protocol, strings.Join(load, " "))
	}
	for n, other := range all[1:] {
		ratio := make([]float64, pairs)
		for i := range ratio {
			ratio[i] = perRequest[0][i] / perRequest[n+1][i]
		}
		low, high := interval(ratio)
		fmt.Printf("  gateway %5.2f × %s (95 %% %.2f–%.2f)\n", median(ratio), other.name, low, high)
	}
}

// loadTLS sends requests of a browser with h2load; each has to be answered with 200.
func loadTLS(b *testing.B, addr string, requests int, cookie, protocol string, load []string) {
	b.Helper()
	out, err := exec.Command("h2load", append(slices.Clone(load), "-n", strconv.Itoa(requests), "-H", ":authority: bench.test",
		"-H", "user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "-H", "accept: text/html", "-H", "accept-language: en",
		"-H", "accept-encoding: gzip", "-H", "sec-fetch-mode: navigate", "-H", "sec-fetch-dest: document", "-H", "cookie: "+cookie, "https://"+addr+"/articles/42?page=2")...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("status codes: %d 2xx", requests)) || !strings.Contains(string(out), "Application protocol: "+protocol) {
		b.Fatalf("h2load at %s: %v\n%s", addr, err, out)
	}
}

// secureCookie is browserCookie over TLS.
func secureCookie(b *testing.B, addr string) string {
	b.Helper()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer c.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, "https://"+addr+"/", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Host = "bench.test"
	req.Header.Set("Accept", "text/html")
	res, err := c.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	res.Body.Close()
	for _, k := range res.Cookies() {
		if k.Name == "i" {
			return "i=" + k.Value
		}
	}
	b.Fatal("no cookie")
	return ""
}

// startServer runs a program and waits until it listens.
func startServer(b *testing.B, name, addr, file, config string, argv ...string) process {
	b.Helper()
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	log, err := os.Create(file + ".log")
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2", "HOME="+filepath.Dir(file))
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait(); log.Close() })
	for range 1000 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return process{name: name, addr: addr, pids: []int{cmd.Process.Pid}}
		}
		time.Sleep(20 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	b.Fatalf("%s does not listen: %s", name, text)
	return process{}
}

// startTLSGateway runs a gateway with further settings of its service's upstream.
func startTLSGateway(b *testing.B, upstream, more, cert, key string) process {
	b.Helper()
	bin, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	dir, addr, private := b.TempDir(), freePort(b), freePort(b)
	// the load comes from one address: no limit may stop it
	p := startServer(b, "gateway", addr, filepath.Join(dir, "bench.yaml"), fmt.Sprintf(`listen: [{address: %q, tls_cert: %q, tls_key: %q}]
admin: {listen: %q}
data_dir: %q
http: {max_conns_per_addr: 0, max_handshake_rate: 0, idle_timeout: 1h, max_requests_per_conn: 0}
defaults:
  upstream: {urls: ["http://%s"]%s}
  verdict: {mode: observe}
`, addr, cert, key, private, dir, upstream, more), bin, "serve", "--config", filepath.Join(dir, "bench.yaml"))
	p.admin = private
	return p
}

func startTLSNginx(b *testing.B, upstream, cert, key string) process {
	b.Helper()
	dir, addr := b.TempDir(), freePort(b)
	file := filepath.Join(dir, "nginx.conf")
	return startServer(b, "nginx", addr, file, fmt.Sprintf(`worker_processes 1; daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;
worker_rlimit_nofile 65536;
events { worker_connections 32768; }
http {
  access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  keepalive_requests 100000000; keepalive_timeout 3600s;
  upstream u { server %[2]s; keepalive 512; keepalive_requests 100000000; }
  server { listen %[3]s ssl http2; ssl_certificate %[4]s; ssl_certificate_key %[5]s; ssl_protocols TLSv1.2 TLSv1.3;
    location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host; } }
}`, dir, upstream, addr, cert, key), "nginx", "-c", file, "-p", dir, "-e", filepath.Join(dir, "error.log"))
}

func startCaddy(b *testing.B, upstream, cert, key string) process {
	b.Helper()
	dir, addr := b.TempDir(), freePort(b)
	_, port, _ := net.SplitHostPort(addr)
	file := filepath.Join(dir, "Caddyfile")
	return startServer(b, "caddy", addr, file, fmt.Sprintf(`{
	admin off
	auto_https off
}
:%s {
	tls %s %s
	reverse_proxy %s
}
`, port, cert, key, upstream), "caddy", "run", "--config", file, "--adapter", "caddyfile")
}
