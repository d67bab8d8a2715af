package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// BenchmarkHTTP3 compares the CPU time of a request over HTTP/3 with one over HTTP/2: the same gateway with all that it does by
// default, and a client in Go for each, in interleaved pairs. h2load, as Debian has it, speaks no HTTP/3.
func BenchmarkHTTP3(b *testing.B) {
	const clients, each = 4, 8 // connections, and requests of each at a time
	pairs, requests := 1, 1600
	if v, err := strconv.Atoi(os.Getenv("BENCH_PAIRS")); err == nil && v > 0 {
		pairs, requests = v, 8000
	}
	service := startRole(b, "service", "")
	cert, key := certificate(b, b.TempDir(), 1)
	gateway := startHTTP3Gateway(b, service.addr, cert, key)
	cookie := secureCookie(b, gateway.addr)
	own := &tls.Config{InsecureSkipVerify: true}
	var carriers [2][]http.RoundTripper // of HTTP/2 and HTTP/3, a connection each
	for range clients {
		second, third := &http.Transport{TLSClientConfig: own.Clone(), ForceAttemptHTTP2: true}, &http3.Transport{TLSClientConfig: own.Clone()}
		b.Cleanup(func() { second.CloseIdleConnections(); _ = third.Close() })
		carriers[0], carriers[1] = append(carriers[0], second), append(carriers[1], third)
	}
	var perRequest [2][]float64
	for i := range pairs + 1 {
		for k := range carriers {
			n := (i + k) % len(carriers)
			before := gateway.cpu(b)
			askAll(b, carriers[n], "https://"+gateway.addr+"/articles/42?page=2", cookie, n+2, each, requests)
			if i > 0 { // the first warms up
				perRequest[n] = append(perRequest[n], (gateway.cpu(b)-before)/float64(requests)*1e6)
			}
		}
	}
	for range b.N { // the work is done above, in pairs
	}
	b.ReportMetric(0, "ns/op")
	ratio := make([]float64, pairs)
	for i := range ratio {
		ratio[i] = perRequest[1][i] / perRequest[0][i]
	}
	for n := range carriers {
		fmt.Printf("  HTTP/%d %6.1f µs CPU per request (median of %d × %d requests, 1 KB, %d connections of %d at a time)\n", n+2, median(perRequest[n]), pairs, requests, clients, each)
	}
	low, high := interval(ratio)
	fmt.Printf("  HTTP/3 %5.2f × HTTP/2 (95 %% %.2f–%.2f)\n", median(ratio), low, high)
}

// askAll sends requests of a browser, some at a time over each connection; each has to be answered with 200 over HTTP of a version.
func askAll(b *testing.B, over []http.RoundTripper, url, cookie string, version, each, requests int) {
	b.Helper()
	var wg sync.WaitGroup
	for i := range len(over) * each {
		wg.Go(func() {
			for range requests / (len(over) * each) {
				if err := askOne(over[i%len(over)], url, cookie, version); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	if wg.Wait(); b.Failed() {
		b.FailNow()
	}
}

func askOne(over http.RoundTripper, url, cookie string, version int) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Host = "bench.test"
	for name, value := range map[string]string{
		"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "Accept": "text/html", "Accept-Language": "en",
		"Accept-Encoding": "gzip", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Cookie": cookie,
	} {
		req.Header.Set(name, value)
	}
	res, err := over.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || res.ProtoMajor != version {
		return fmt.Errorf("%s by %s", res.Status, res.Proto)
	}
	return nil
}

// startHTTP3Gateway runs a gateway that speaks HTTP/2 and HTTP/3 at one port.
func startHTTP3Gateway(b *testing.B, upstream, cert, key string) process {
	b.Helper()
	bin, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	dir, addr := b.TempDir(), freePort(b)
	file := filepath.Join(dir, "bench.yaml")
	// the load comes from one address: no limit may stop it
	return startServer(b, "gateway", addr, file, fmt.Sprintf(`listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
admin: {listen: "127.0.0.1:0"}
data_dir: %q
http: {max_conns_per_addr: 0, max_handshake_rate: 0, idle_timeout: 1h, max_requests_per_conn: 0}
defaults:
  upstream: {urls: ["http://%s"]}
  verdict: {mode: observe}
`, addr, cert, key, dir, upstream), bin, "serve", "--config", file)
}
