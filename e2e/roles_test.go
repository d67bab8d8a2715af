package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// roleVariable selects the role of this test binary when it runs again as a process next to the gateway.
const roleVariable = "ANTIROBOT_BENCH_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "service":
		runService()
	case "bare":
		runBareProxy()
	default:
		code := m.Run()
		endRested()
		os.Exit(code)
	}
}

// runService answers everything with 1 KB.
func runService() {
	body := bytes.Repeat([]byte("x"), 1024)
	serveRole(func(ctx *fasthttp.RequestCtx) { ctx.SetBody(body) })
}

// runBareProxy is the reference: fasthttp's server and client with streaming on, and nothing else.
func runBareProxy() {
	client := &fasthttp.HostClient{Addr: os.Getenv("ANTIROBOT_BENCH_UPSTREAM"), MaxConns: 4096, DisablePathNormalizing: true, DisableHeaderNamesNormalizing: true}
	serveRole(func(ctx *fasthttp.RequestCtx) {
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
		}
	})
}

func serveRole(h fasthttp.RequestHandler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	s := &fasthttp.Server{Handler: h, StreamRequestBody: true, DisableHeaderNamesNormalizing: true, NoDefaultServerHeader: true}
	if err := s.Serve(l); err != nil {
		panic(err)
	}
}

// process is something whose CPU time is compared.
type process struct {
	name, addr string
	admin      string // of a gateway
	pids       []int
}

func startRole(b *testing.B, role, upstream string) process {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "ANTIROBOT_BENCH_UPSTREAM="+upstream, "GOMAXPROCS=2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return process{name: role, addr: strings.TrimSpace(line), pids: []int{cmd.Process.Pid}}
}

func startNginx(b *testing.B, upstream string) (process, bool) {
	b.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path = "/usr/sbin/nginx"; !isFile(path) {
			return process{}, false
		}
	}
	addr := freePort(b)
	dir := b.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`worker_processes 1; daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  keepalive_requests 100000000;
  upstream u { server %[2]s; keepalive 512; keepalive_requests 100000000; }
  server { listen %[3]s; location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host; } }
}`, dir, upstream, addr)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(path, "-c", conf, "-p", dir, "-e", filepath.Join(dir, "error.log"))
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 100 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return process{name: "nginx", addr: addr, pids: []int{cmd.Process.Pid}}, true
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.Fatal("nginx does not listen")
	return process{}, false
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// cpu returns the user and system time of p in seconds.
func (p process) cpu(b *testing.B) float64 {
	b.Helper()
	total := 0.0
	for _, pid := range p.pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, i := range []int{11, 12} {
			ticks, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				b.Fatal(err)
			}
			total += ticks / 100
		}
	}
	return total
}

const browserRequest = "GET /articles/42?page=2 HTTP/1.1\r\nHost: bench.test\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate, br\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\n%s\r\n"

// load sends n requests over conns kept-alive connections and returns how long it took.
func load(b *testing.B, addr string, conns, n int, extra string) time.Duration {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	began := time.Now()
	for range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			request := []byte(fmt.Sprintf(browserRequest, extra))
			r := bufio.NewReaderSize(c, 8192)
			var res fasthttp.Response
			for left.Add(-1) >= 0 {
				if _, err := c.Write(request); err != nil {
					b.Error(err)
					return
				}
				if err := res.Read(r); err != nil {
					b.Error(err)
					return
				}
				if res.StatusCode() != 200 || len(res.Body()) != 1024 {
					b.Errorf("%s: status %d, %d bytes", addr, res.StatusCode(), len(res.Body()))
					return
				}
			}
		}()
	}
	wg.Wait()
	return time.Since(began)
}

// browserCookie is the i cookie that a first visit earns; if there is none, something of the same size.
func browserCookie(b *testing.B, addr string) string {
	b.Helper()
	req, err := http.NewRequest("GET", "http://"+addr+"/", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Host = "bench.test" // whose the cookie is
	req.Header.Set("Accept", "text/html")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	res.Body.Close()
	for _, c := range res.Cookies() {
		if c.Name == "i" {
			return "i=" + c.Value
		}
	}
	return "i=" + strings.Repeat("x", 120)
}

func startGateway(b *testing.B, name, upstream, settings string) process {
	b.Helper()
	return startGatewayWith(b, name, upstream, settings, "")
}

// startGatewayWith runs a gateway with further settings of its service.
func startGatewayWith(b *testing.B, name, upstream, settings, service string) process {
	b.Helper()
	bin, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	file := filepath.Join(dir, "bench.yaml")
	// the load comes from one address: no limit may stop it
	text := settings + fmt.Sprintf("defaults:\n  upstream: {urls: [\"http://%s\"]}\n  verdict: {mode: observe}\n%s", upstream, service)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.Fatal(err)
	}
	addr, admin := freePort(b), freePort(b)
	cmd := exec.Command(bin, "serve", "--config", file, "--listen", addr, "--admin", admin, "--data-dir", dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait(); log.Close() })
	for range 250 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return process{name: name, addr: addr, admin: admin, pids: []int{cmd.Process.Pid}}
		}
		time.Sleep(20 * time.Millisecond)
	}
	text2, _ := os.ReadFile(log.Name())
	b.Fatalf("the gateway does not listen: %s", text2)
	return process{}
}
