package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	"github.com/valyala/fasthttp"

	"antirobot/servertest"
)

// BenchmarkProxiedRequest compares the CPU time of one proxied request: the gateway against a bare fasthttp proxy and
// nginx, in interleaved pairs. The result is the median of the pairs' ratios with its 95 % interval.
func BenchmarkProxiedRequest(b *testing.B) {
	pairs, requests := 3, 2000
	if v, err := strconv.Atoi(os.Getenv("BENCH_PAIRS")); err == nil && v > 0 {
		pairs, requests = v, 16000
	}
	const conns = 64
	service := startRole(b, "service", "")
	bare := startRole(b, "bare", service.addr)
	others := []process{bare}
	if nginx, ok := startNginx(b, service.addr); ok {
		others = append(others, nginx)
	}
	ours := []process{
		startGateway(b, "gateway", service.addr, "processor: {enabled: false}\nlog: {access: false}\n"),
		startGateway(b, "gateway with processor", service.addr, "log: {access: false}\n"),
		startGateway(b, "gateway with processor and access log", service.addr, ""),
	}
	all := append(slices.Clone(others), ours...)
	// a browser that was here before: it has the gateway's cookie, so none is made for it on each request
	cookies := map[string]string{}
	for _, p := range all {
		cookies[p.name] = "Cookie: session=s3cr3t; " + browserCookie(b, p.addr) + "\r\n"
		load(b, p.addr, conns, requests, cookies[p.name]) // warm up
	}
	perRequest := map[string][]float64{}
	for i := range pairs {
		for k := range all {
			p := all[(i+k)%len(all)]
			before := p.cpu(b)
			load(b, p.addr, conns, requests, cookies[p.name])
			perRequest[p.name] = append(perRequest[p.name], (p.cpu(b)-before)/float64(requests)*1e6)
		}
	}
	for range b.N { // the work is done above, in pairs
	}
	b.ReportMetric(0, "ns/op")
	for _, p := range all {
		fmt.Printf("  %-40s %6.1f µs CPU per request (median of %d × %d requests, 1 KB, %d connections)\n", p.name, median(perRequest[p.name]), pairs, requests, conns)
	}
	for _, our := range ours {
		for _, other := range others {
			ratio := make([]float64, pairs)
			for i := range ratio {
				ratio[i] = perRequest[our.name][i] / perRequest[other.name][i]
			}
			low, high := interval(ratio)
			fmt.Printf("  %-40s %5.2f × %s (95 %% %.2f–%.2f)\n", our.name, median(ratio), other.name, low, high)
		}
	}
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// interval returns the 95 % confidence interval of the mean in logarithms, which suits ratios.
func interval(ratios []float64) (low, high float64) {
	mean, square := 0.0, 0.0
	for _, r := range ratios {
		mean += math.Log(r) / float64(len(ratios))
	}
	for _, r := range ratios {
		square += math.Pow(math.Log(r)-mean, 2) / math.Max(1, float64(len(ratios)-1))
	}
	half := 1.96 * math.Sqrt(square/float64(len(ratios)))
	return math.Exp(mean - half), math.Exp(mean + half)
}

// BenchmarkAddedLatency sends requests to the service directly and through the gateway at a steady rate, alternating, and
// prints the quantiles of both: the difference is what the gateway adds. Latency counts from the time at which a request
// was due, so that a stall also counts for the requests queued behind it.
func BenchmarkAddedLatency(b *testing.B) {
	rate, rounds, each := 1000, 1, time.Second
	if os.Getenv("BENCH_PAIRS") != "" {
		rate, rounds, each = 5000, 5, 4*time.Second
	}
	service := startRole(b, "service", "")
	gateway := startGateway(b, "gateway", service.addr, "log: {access: false}\n")
	var direct, through []time.Duration
	for range rounds {
		direct = append(direct, steady(b, service.addr, rate, each)...)
		through = append(through, steady(b, gateway.addr, rate, each)...)
	}
	slices.Sort(direct)
	slices.Sort(through)
	at := func(d []time.Duration, q float64) time.Duration { return d[min(int(q*float64(len(d))), len(d)-1)] }
	for range b.N { // the work is done above, in turns
	}
	b.ReportMetric(0, "ns/op")
	fmt.Printf("  %d requests a second, 64 connections, %d requests each\n", rate, len(through))
	for _, q := range []float64{0.5, 0.98, 0.99, 0.999} {
		fmt.Printf("  p%-5g direct %8v, through the gateway %8v: added %v\n", q*100, at(direct, q).Round(time.Microsecond),
			at(through, q).Round(time.Microsecond), (at(through, q) - at(direct, q)).Round(time.Microsecond))
	}
}

// steady sends requests at a rate for a while over 64 connections and returns each one's latency.
func steady(b *testing.B, addr string, rate int, d time.Duration) []time.Duration {
	b.Helper()
	const conns = 64
	interval := time.Duration(conns) * time.Second / time.Duration(rate)
	all := make([][]time.Duration, conns)
	var wg sync.WaitGroup
	began := time.Now().Add(20 * time.Millisecond)
	for i := range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			request := fmt.Appendf(nil, browserRequest, "")
			r := bufio.NewReaderSize(c, 8192)
			var res fasthttp.Response
			for due := began.Add(interval * time.Duration(i) / conns); due.Before(began.Add(d)); due = due.Add(interval) {
				<-time.After(time.Until(due))
				if _, err := c.Write(request); err != nil {
					b.Error(err)
					return
				}
				if err := res.Read(r); err != nil || res.StatusCode() != 200 {
					b.Errorf("%v, status %d", err, res.StatusCode())
					return
				}
				all[i] = append(all[i], time.Since(due))
			}
		})
	}
	wg.Wait()
	return slices.Concat(all...)
}

// apiCall is a kind of request of the message API, which stands for so many messages.
type apiCall struct {
	name string
	each int
	body func(n int) string
}

func apiCalls() []apiCall {
	words := strings.Fields("the lighthouse stands where river and sea meet and nobody has seen its keeper since the winter when the old bridge fell down")
	text := func(n int) string {
		var b strings.Builder
		for i := range 14 {
			b.WriteString(words[(n*7+i*(1+n%5))%len(words)] + " ")
		}
		return b.String() + strconv.Itoa(n)
	}
	input := func(n int) string {
		return fmt.Sprintf(`{"service":null,"method":"sf.message.input","id":%d,"params":[{"partner":null,"message":{"text":%q,"from":%d}}]}`, n, text(n), n)
	}
	return []apiCall{
		{"judged, one a request", 1, input},
		{"judged, batches of 50", 50, func(n int) string {
			all := make([]string, 50)
			for i := range all {
				all[i] = input(n*50 + i)
			}
			return "[" + strings.Join(all, ",") + "]"
		}},
		{"taught, one a request", 1, func(n int) string {
			return fmt.Sprintf(`{"method":"sf.model.train","id":1,"params":[{"partner":null,"model":"model","marker":%q,"message":{"text":%q}}]}`, []string{"good", "bad"}[n%2], text(n))
		}},
	}
}

// BenchmarkMessageAPI asks the message firewall over JSON-RPC and prints the CPU that the gateway spends on a message, beside
// that of a bare HTTP answer by the same library: processor time says the same on a busy machine.
func BenchmarkMessageAPI(b *testing.B) {
	requests, rounds := 1000, 1
	if os.Getenv("BENCH_PAIRS") != "" {
		requests, rounds = 20000, 3
	}
	service := startRole(b, "service", "")
	gateway := startGatewayWith(b, "gateway", service.addr, "log: {access: false}\n"+benchRules, "")
	teach(b, gateway)
	calls := apiCalls()
	bare, ours := make([]float64, 0, rounds), make([][]float64, len(calls))
	for range rounds {
		before := service.cpu(b)
		postAll(b, service.addr, "/bare", requests, calls[0].body)
		bare = append(bare, (service.cpu(b)-before)/float64(requests)*1e6)
		for i, c := range calls {
			n := max(requests/c.each, 50)
			before := gateway.cpu(b)
			postAll(b, gateway.admin, "/api/json/", n, c.body)
			ours[i] = append(ours[i], (gateway.cpu(b)-before)/float64(n*c.each)*1e6)
		}
	}
	for range b.N { // the work is done above, in turns
	}
	b.ReportMetric(0, "ns/op")
	middle := func(x []float64) float64 { slices.Sort(x); return x[len(x)/2] }
	answer := middle(bare)
	fmt.Printf("  %-24s %6.1f µs of CPU\n", "a bare HTTP answer", answer)
	for i, c := range calls {
		cpu := middle(ours[i])
		fmt.Printf("  %-24s %6.1f µs of CPU a message, %.2f of the bare answer, %.0f a second on two cores\n", c.name, cpu, cpu/answer, 2e6/cpu)
	}
}

// postAll posts n bodies over 16 connections, and wants 200 for each.
func postAll(b *testing.B, addr, path string, n int, body func(n int) string) {
	b.Helper()
	const conns = 16
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			r := bufio.NewReaderSize(c, 16<<10)
			var res fasthttp.Response
			for k := i; k < n; k += conns {
				text := body(k)
				if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(text), text); err != nil {
					b.Error(err)
					return
				}
				if err := res.Read(r); err != nil || res.StatusCode() != 200 || strings.Contains(string(res.Body()), `"error"`) {
					b.Errorf("%v, status %d: %.200s", err, res.StatusCode(), res.Body())
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkBesideHAProxy compares what asking costs: the CPU time of one request in HAProxy and the gateway together, over
// Lua and HTTP and over SPOE, beside HAProxy alone.
func BenchmarkBesideHAProxy(b *testing.B) {
	pairs, requests := 1, 1000
	if v, err := strconv.Atoi(os.Getenv("BENCH_PAIRS")); err == nil && v > 0 {
		pairs, requests = v, 8000
	}
	service := startRole(b, "service", "")
	check, spoe := freePort(b), freePort(b)
	gateway := startGateway(b, "gateway", service.addr, fmt.Sprintf("log: {access: false}\ncheck: {listen: [%q], spoe: [%q]}\n", check, spoe))
	common := []string{deployGateway, check, deployService, service.addr}
	lua := writeFile(b, "antirobot.lua", deployed(b, "haproxy/antirobot.lua", deployGateway, check))
	engine := writeFile(b, "antirobot.spoe", deployed(b, "haproxy-spoe/antirobot.spoe"))
	ways := []process{
		balance(b, "HAProxy alone", deployed(b, "haproxy-spoe/haproxy.cfg", append([]string{
			"    filter spoe engine antirobot config /etc/haproxy/antirobot.spoe\n", "", "    http-request send-spoe-group antirobot check\n", "",
			"    http-request deny deny_status 503 unless { var(txn.antirobot.verdict) -m str human stop }\n", "", "127.0.0.1:9092", spoe,
		}, common...)...)),
		balance(b, "HAProxy with Lua, and the gateway", deployed(b, "haproxy/haproxy.cfg", append([]string{"/etc/haproxy/antirobot.lua", lua}, common...)...)),
		balance(b, "HAProxy with SPOE, and the gateway", deployed(b, "haproxy-spoe/haproxy.cfg", append([]string{
			"/etc/haproxy/antirobot.spoe", engine, "127.0.0.1:9092", spoe,
		}, common...)...)),
	}
	cookies := map[string]string{}
	for i := range ways {
		p := &ways[i]
		if i > 0 {
			p.pids = append(p.pids, gateway.pids...)
			cookies[p.name] = "Cookie: session=s3cr3t; " + browserCookie(b, p.addr) + "\r\n"
		}
		load(b, p.addr, 32, requests, cookies[p.name]) // warm up
	}
	per := map[string][]float64{}
	for i := range pairs {
		for k := range ways {
			p := ways[(i+k)%len(ways)]
			before := p.cpu(b)
			load(b, p.addr, 32, requests, cookies[p.name])
			per[p.name] = append(per[p.name], (p.cpu(b)-before)/float64(requests)*1e6)
		}
	}
	for range b.N { // the work is done above, in turns
	}
	b.ReportMetric(0, "ns/op")
	for _, p := range ways {
		fmt.Printf("  %-40s %6.1f µs CPU per request (median of %d × %d requests, 32 connections)\n", p.name, median(per[p.name]), pairs, requests)
	}
}

// balance runs HAProxy with a file of deploy/, on a free port.
func balance(b *testing.B, name, conf string) process {
	b.Helper()
	addr := freePort(b)
	file := writeFile(b, "haproxy.cfg", "global\n    nbthread 2\n"+strings.Replace(conf, "bind :80", "bind "+addr, 1))
	cmd := exec.Command(servertest.Need(b, "haproxy"), "-db", "-f", file)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			b.Fatalf("%s does not listen", name)
		}
	}
	return process{name: name, addr: addr, pids: []int{cmd.Process.Pid}}
}

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

// ownMemory returns the memory that is a process's own, in bytes: without the pages of its program's file.
func (p process) ownMemory(b *testing.B) float64 {
	b.Helper()
	total := 0.0
	for _, pid := range p.pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); f[0] == "RssAnon:" {
				kb, err := strconv.ParseFloat(f[1], 64)
				if err != nil {
					b.Fatal(err)
				}
				total += kb * 1024
			}
		}
	}
	return total
}

// BenchmarkConnectionMemory prints what open connections cost the gateway and nginx: idle ones with TLS that have made one
// request over HTTP/1.1, and ones with HTTP/2 whose streams all wait for their answers. BENCH_PAIRS or BENCH_CONNS, a number of
// connections, makes them as many as docs/performance.md has.
func BenchmarkConnectionMemory(b *testing.B) {
	idle, conns, streams := 200, 4, 25
	if os.Getenv("BENCH_PAIRS") != "" {
		idle, conns, streams = 10_000, 100, 100
	}
	if n, err := strconv.Atoi(os.Getenv("BENCH_CONNS")); err == nil && n > 0 {
		idle, conns, streams = n, n, 100
	}
	cert, key := certificate(b, b.TempDir(), 1)
	service := startRole(b, "service", "")
	gateway := startTLSGateway(b, service.addr, "", cert, key)
	others := []process{gateway, startTLSNginx(b, service.addr, cert, key)}
	for _, p := range others {
		before := p.ownMemory(b)
		closeAll := holdIdle(b, p.addr, idle)
		fmt.Printf("  %-8s %5.1f KB for each of %d idle connections with TLS\n", p.name, (p.ownMemory(b)-before)/float64(idle)/1024, idle)
		closeAll()
	}
	slow, release := startSlow(b)
	busy := startTLSGateway(b, slow, ", protocol: h2, response_timeout: 1h", cert, key)
	before := busy.ownMemory(b)
	closeAll := holdStreams(b, busy, conns, streams)
	fmt.Printf("  %-8s %5.1f KB for each of %d × %d streams of HTTP/2 that wait for answers\n", busy.name, (busy.ownMemory(b)-before)/float64(conns*streams)/1024, conns, streams)
	release()
	closeAll()
	for range b.N { // the work is done above
	}
	b.ReportMetric(0, "ns/op")
}

// holdIdle makes connections with one request each, and returns what closes them.
func holdIdle(b *testing.B, addr string, n int) (closeAll func()) {
	b.Helper()
	all := make([]net.Conn, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
				if err != nil {
					b.Error(err)
					return
				}
				all[i] = c
				if _, err := fmt.Fprintf(c, browserRequest, ""); err != nil {
					b.Error(err)
					return
				}
				res, err := http.ReadResponse(bufio.NewReaderSize(c, 2048), nil)
				if err != nil || res.StatusCode != http.StatusOK {
					b.Error(res, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return func() {
		for _, c := range all {
			if c != nil {
				c.Close()
			}
		}
	}
}

// startSlow is a service that speaks HTTP/2 without TLS and answers nobody before it is released.
func startSlow(b *testing.B) (url string, release func()) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	wait := make(chan struct{})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: protocols, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-wait })}
	go func() { _ = s.Serve(l) }()
	b.Cleanup(func() { s.Close() })
	return l.Addr().String(), sync.OnceFunc(func() { close(wait) })
}

// holdStreams opens streams and returns once the gateway has all of them, with what closes them.
func holdStreams(b *testing.B, p process, conns, streams int) (closeAll func()) {
	b.Helper()
	var all []*http.ClientConn
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	for range conns {
		c, err := t.NewClientConn(b.Context(), "https", p.addr)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, c)
		for range streams {
			req, err := http.NewRequest(http.MethodGet, "https://"+p.addr+"/articles/42", nil)
			if err != nil {
				b.Fatal(err)
			}
			go func() {
				if res, err := c.RoundTrip(req); err == nil {
					res.Body.Close()
				}
			}()
		}
	}
	want := fmt.Sprintf("antirobot_http2_open_streams %d\n", conns*streams)
	for began := time.Now(); !strings.Contains(metricsOf(b, p), want); time.Sleep(200 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			b.Fatal("the streams are not open")
		}
	}
	return func() {
		for _, c := range all {
			c.Close()
		}
	}
}

// metricsOf returns the metrics of a gateway.
func metricsOf(b *testing.B, p process) string {
	b.Helper()
	res, err := http.Get("http://" + p.admin + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// benchRules are the example rules of docs/messages.md.
const benchRules = `
message:
  partners:
    - name: default
      domain:
        properties:
          - {name: storage, class: DomainMemoryStorage}
          - name: messageAnalyzer
            class: Firewall
            rules: |
              do lengthCheck(minLength=1, maxLength=1000) mark invalid
              if invalid skip to 1000
              do messageFrequencyCheck() mark messagefrequent, frequent
              do userFrequencyCheck(count=1000000000) mark userfrequent, frequent
              if frequent skip to 1000
              do modelClassify() mark spam
              1000: do messageLogPut()
              if invalid stop as INVALID
              if frequent stop as FREQUENT
              if spam stop as SPAM
              stop as OK
          - {name: messageLog, class: MessageLog}
          - {name: model, class: BayesModel}
`

const benchRoute = `  messages:
    routes:
      - route: POST /comments
        sources:
          - {attribute: text, from: form, key: words}
          - {attribute: from, from: subject}
          - {attribute: ip, from: address}
`

// BenchmarkInlineRoute posts comments at a steady rate to a route whose messages are judged and, alternating on the same
// connections, to one without judging, and prints the quantiles of both: the difference is the cost of judging inline.
func BenchmarkInlineRoute(b *testing.B) {
	rate, each := 400, 3*time.Second
	if os.Getenv("BENCH_PAIRS") != "" {
		rate, each = 2000, 20*time.Second
	}
	service := startRole(b, "service", "")
	gateway := startGatewayWith(b, "gateway", service.addr, "log: {access: false}\n"+benchRules, benchRoute)
	teach(b, gateway)
	plain, judged := posts(b, gateway.addr, rate, each)
	for range b.N { // the work is done above, in turns
	}
	b.ReportMetric(0, "ns/op")
	slices.Sort(plain)
	slices.Sort(judged)
	at := func(d []time.Duration, q float64) time.Duration { return d[min(int(q*float64(len(d))), len(d)-1)] }
	fmt.Printf("  %d posts a second, 16 connections, %d of each kind\n", rate, len(judged))
	for _, q := range []float64{0.5, 0.9, 0.99} {
		fmt.Printf("  p%-5g without rules %8v, judged %8v: added %v\n", q*100, at(plain, q).Round(time.Microsecond),
			at(judged, q).Round(time.Microsecond), (at(judged, q) - at(plain, q)).Round(time.Microsecond))
	}
}

// teach trains the model with some texts, so that it has something to look up.
func teach(b *testing.B, g process) {
	b.Helper()
	for i := range 40 {
		marker, text := "good", fmt.Sprintf("I liked the chapter about the river very much, number %d was my favourite", i)
		if i%2 == 0 {
			marker, text = "bad", fmt.Sprintf("win money at our casino today, bonus %d for new players", i)
		}
		body := fmt.Sprintf(`{"method":"sf.model.train","params":[{"partner":null,"model":"model","marker":%q,"message":{"text":%q}}]}`, marker, text)
		res, err := http.Post("http://"+g.admin+"/api/json/", "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		res.Body.Close()
	}
}

// posts sends comments at a rate for a while, alternating between both routes, and returns each one's latency from its due
// time.
func posts(b *testing.B, addr string, rate int, d time.Duration) (plain, judged []time.Duration) {
	b.Helper()
	const conns = 16
	interval := time.Duration(conns) * time.Second / time.Duration(rate)
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now().Add(20 * time.Millisecond)
	for i := range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			var took [2][]time.Duration
			r := bufio.NewReaderSize(c, 8192)
			var res fasthttp.Response
			n := 0
			for due := began.Add(interval * time.Duration(i) / conns); due.Before(began.Add(d)); due = due.Add(interval) {
				body := fmt.Sprintf("words=Hello+from+connection+%d,+this+is+my+comment+number+%d+about+the+old+lighthouse+and+the+sea&x=1", i, n)
				path := [2]string{"/plain", "/comments"}[n%2]
				request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: Mozilla/5.0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
				<-time.After(time.Until(due))
				if _, err := c.Write(request); err != nil {
					b.Error(err)
					return
				}
				if err := res.Read(r); err != nil || res.StatusCode() != 200 || !bytes.HasPrefix(res.Body(), []byte("xxxx")) {
					b.Errorf("%v, status %d", err, res.StatusCode())
					return
				}
				took[n%2] = append(took[n%2], time.Since(due))
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			plain, judged = append(plain, took[0]...), append(judged, took[1]...)
		})
	}
	wg.Wait()
	if len(plain) == 0 || len(judged) == 0 {
		b.Fatal("nothing was measured")
	}
	return plain, judged
}
