package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"antirobot/servertest"
	"antirobot/store/redisstore/redistest"
)

// fromScaling returns the lines of docs/scaling.md for a balancer, with its addresses replaced by those of a test.
func fromScaling(t *testing.T, which string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```" + which + "\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("docs/scaling.md has no lines for %s", which)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(m[1]), replace[i]) {
			t.Fatalf("the lines for %s in docs/scaling.md have no %q", which, replace[i])
		}
	}
	return strings.NewReplacer(replace...).Replace(string(m[1]))
}

// bare is an address without the scheme.
func bare(url string) string { return strings.TrimPrefix(url, "http://") }

// announced makes a request over its own connection, for which the PROXY protocol announces a client address.
func announced(to, client, path string) (status int, err error) {
	c, err := net.Dial("tcp", to)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, err = fmt.Fprintf(c, "PROXY TCP4 %s 192.0.2.1 40000 80\r\nGET %s HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: Mozilla/5.0\r\nAccept: text/html\r\nConnection: close\r\n\r\n", client, path)
	if err != nil {
		return 0, err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}

// throughFleet runs three gateways on one Redis, sends requests through the balancer started by run, and returns what each
// gateway has seen.
func throughFleet(t *testing.T, run func(t *testing.T, all []*gateway) (addr string)) {
	r := redistest.Start(t)
	all := fleet(t, 3, "redis://"+r.Addr, "--trusted-proxies", "127.0.0.1")
	addr := run(t, all)
	const clients, each = 40, 6
	for round := range each {
		for i := range clients {
			s, err := announced(addr, fmt.Sprintf("203.0.113.%d", i+1), fmt.Sprintf("/%d", round))
			if err != nil || s != 200 {
				t.Fatalf("client %d: %d, %v", i, s, err)
			}
		}
	}
	seen := map[string]int{} // client: gateways that have seen it
	for n, g := range all {
		mine := 0
		for i := range clients {
			client := fmt.Sprintf("203.0.113.%d", i+1)
			var d struct {
				Session *struct {
					Requests float64 `json:"requests"`
				} `json:"session"`
			}
			if err := json.Unmarshal(g.api("GET", "/api/subjects/ip:"+client, nil), &d); err != nil {
				t.Fatal(err)
			}
			if d.Session != nil {
				seen[client]++
				mine++
			}
		}
		t.Logf("gateway %d has sessions of %d clients", n, mine)
		if mine == 0 {
			t.Errorf("gateway %d has seen nobody", n)
		}
	}
	for client, n := range seen {
		if n != 1 {
			t.Errorf("%s was seen by %d gateways", client, n)
		}
	}
	if len(seen) != clients {
		t.Errorf("%d of %d clients were seen", len(seen), clients)
	}
}

// haproxyBefore runs HAProxy with the lines of the docs.
func haproxyBefore(t *testing.T, all []*gateway) string {
	bin, addr := servertest.Need(t, "haproxy"), freePort(t)
	lines := []string{"bind :80", "bind " + addr + " accept-proxy"}
	for i, g := range all {
		_, port, _ := net.SplitHostPort(bare(g.admin))
		lines = append(lines, fmt.Sprintf("10.0.0.1%d:8080 check port 8079", i+1), bare(g.url)+" check port "+port)
	}
	runDaemon(t, addr, bin, "-db", "-f", writeFile(t, "haproxy.cfg", fromScaling(t, "haproxy", lines...)))
	return addr
}

// TestBalanceByAddress checks the lines of docs/scaling.md: each client address reaches the same gateway.
func TestBalanceByAddress(t *testing.T) {
	t.Parallel()
	t.Run("HAProxy", func(t *testing.T) { throughFleet(t, haproxyBefore) })
	t.Run("nginx", func(t *testing.T) {
		throughFleet(t, func(t *testing.T, all []*gateway) string {
			bin, addr, dir := servertest.Need(t, "nginx"), freePort(t), t.TempDir()
			lines := []string{"listen 80;", "listen " + addr + " proxy_protocol;\n    set_real_ip_from 127.0.0.1;\n    real_ip_header proxy_protocol;"}
			for i, g := range all {
				lines = append(lines, fmt.Sprintf("10.0.0.1%d:8080", i+1), bare(g.url))
			}
			conf := fmt.Sprintf("worker_processes 1; daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;\nevents {}\nhttp {\naccess_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;\n%[2]s}\n", dir, fromScaling(t, "nginx", lines...))
			runDaemon(t, addr, bin, "-c", writeFile(t, "nginx.conf", conf), "-p", dir)
			return addr
		})
	})
}

// TestRollingRestart restarts two gateways one after the other behind HAProxy, under load: nobody gets an error.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	write(t, file, fmt.Sprintf(`
drain_delay: 1500ms
store: {url: "redis://%s"}
keys: {secret_file: %q}
identity: {trusted_proxies: [127.0.0.1]}
processor: {enabled: false}
defaults: {upstream: {urls: [%q]}}
services: [{name: default, hosts: ["*"]}]
`, r.Addr, secretFile(t), site(t).URL))
	var all []*gateway
	for range 3 {
		all = append(all, start(t, "serve", "--config", file))
	}
	addr := haproxyBefore(t, all)
	stop := make(chan struct{})
	var served, bad atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				s, err := announced(addr, fmt.Sprintf("203.0.%d.%d", w, i%200+1), "/x")
				if served.Add(1); err != nil || s != 200 {
					bad.Add(1)
					t.Logf("a request fails: %d, %v", s, err)
				}
			}
		})
	}
	for _, g := range all[:2] {
		before := served.Load()
		eventually(t, "some load", func() bool { return served.Load() > before+50 })
		end := g.done
		if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, "readyz says draining while it serves", func() bool {
			res, err := http.Get(g.admin + "/readyz")
			if err != nil {
				return false
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			return res.StatusCode == 503 && strings.Contains(string(b), "draining")
		})
		if s := g.asks(visitor(t), "/", "203.0.113.1"); s != 200 {
			t.Errorf("while it drains, connections are refused: %d", s)
		}
		<-end
		g.run()
	}
	before := served.Load()
	eventually(t, "some load", func() bool { return served.Load() > before+50 })
	close(stop)
	wg.Wait()
	t.Logf("%d requests, %d failed", served.Load(), bad.Load())
	if bad.Load() > 0 {
		t.Errorf("%d of %d requests failed", bad.Load(), served.Load())
	}
}

// TestReadyWithoutHost sends a balancer's simplest probe.
func TestReadyWithoutHost(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	c, err := net.Dial("tcp", bare(g.admin))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET /readyz HTTP/1.0\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("%v, %v", r, err)
	}
	_ = r.Body.Close()
}
