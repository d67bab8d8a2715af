package h1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"antirobot/proxy/h1/wire"
	"antirobot/proxy/upstream"
	"antirobot/request"
)

const (
	roleEnv = "H1_BENCH_ROLE" // ours or bare: play a proxy in a process of its own
	backEnv = "H1_BENCH_BACKEND"

	browserGet = "GET /index.html?x=1 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux " +
		"x86_64) AppleWebKit/537.36\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n" +
		"Accept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\nCookie: " +
		"spravka=dD0xNzAwMDAwMDAwO2k9MTI3LjAuMC4x; i=abcdef; sid=1\r\n" +
		"Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nUpgrade-Insecure-Requests: 1\r\n\r\n"
)

// benchHandler forwards as the gateway does, with the fields that the gateway sets.
func benchHandler(g *upstream.Group) Handler {
	o := ForwardOptions{
		SetFields: []request.Field{
			field("X-Forwarded-For", "203.0.113.7"), field("X-Forwarded-Proto", "https"),
			field("X-Forwarded-Host", "www.example.com"),
			field("X-Real-IP", "203.0.113.7"), field("X-Request-Id", "0123456789abcdef0123456789abcdef"),
		},
		Drop: func(n []byte) bool {
			return request.HasPrefixFold(n, "x-antirobot-") || request.HasPrefixFold(n, "x-accel-")
		},
	}
	return handlerFunc(func(x *Exchange) { _, _ = x.Forward(g, &o) })
}

// playRole is the child process of BenchmarkProxyCPU: it prints its address, and then its CPU time for every line read.
func playRole(role string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	back := os.Getenv(backEnv)
	if role == "ours" {
		set := metrics.NewSet()
		ucfg := upstream.DefaultConfig()
		ucfg.URLs = []string{"http://" + back}
		g, err := upstream.New(ucfg, upstream.Deps{Log: zerolog.Nop(), Metrics: set})
		if err != nil {
			panic(err)
		}
		if err := g.Start(context.Background()); err != nil {
			panic(err)
		}
		srv, err := NewServer(DefaultConfig(), Deps{Handler: benchHandler(g), Log: zerolog.Nop(), Metrics: set})
		if err != nil {
			panic(err)
		}
		go func() { _ = srv.Serve(ln, ListenerOptions{}) }()
	} else {
		hc := &fasthttp.HostClient{Addr: back, MaxConns: 10_000}
		s := &fasthttp.Server{StreamRequestBody: true, Handler: func(ctx *fasthttp.RequestCtx) {
			if err := hc.Do(&ctx.Request, &ctx.Response); err != nil {
				ctx.SetStatusCode(502)
			}
		}}
		go func() { _ = s.Serve(ln) }()
	}
	fmt.Println(ln.Addr())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		fmt.Println(time.Duration(u.Utime.Nano()+u.Stime.Nano()).Nanoseconds(), time.Duration(u.Utime.Nano()).
			Nanoseconds())
	}
}

// child is a proxy in its own process.
type child struct {
	addr  string
	in    io.Writer
	out   *bufio.Reader
	conns []net.Conn
}

func newChild(b *testing.B, role, backend string) *child {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, backEnv+"="+backend)
	cmd.Stderr = os.Stderr
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c := &child{in: in, out: bufio.NewReader(out)}
	b.Cleanup(func() {
		for _, nc := range c.conns {
			nc.Close()
		}
		in.Close()
		_ = cmd.Wait()
	})
	line, err := c.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	c.addr = strings.TrimSpace(line)
	for range 64 {
		nc, err := net.Dial("tcp", c.addr)
		if err != nil {
			b.Fatal(err)
		}
		c.conns = append(c.conns, nc)
	}
	return c
}

func (c *child) cpu(b *testing.B) (all, user float64) {
	fmt.Fprintln(c.in)
	line, err := c.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	f := strings.Fields(line)
	all, _ = strconv.ParseFloat(f[0], 64)
	user, _ = strconv.ParseFloat(f[1], 64)
	return all, user
}

// run sends n requests over all connections and returns the CPU nanoseconds that each cost the child.
func (c *child) run(b *testing.B, n, answerSize int) (all, user float64) {
	a0, u0 := c.cpu(b)
	var wg sync.WaitGroup
	for _, nc := range c.conns {
		wg.Go(func() {
			buf := make([]byte, 64<<10)
			for range n / len(c.conns) {
				_, _ = nc.Write([]byte(browserGet))
				for got := 0; got < answerSize; {
					m, err := nc.Read(buf)
					if err != nil {
						b.Error(err)
						return
					}
					if end := bytes.Index(buf[:m], []byte("\r\n\r\n")); got == 0 && end >= 0 {
						got -= end + 4
					}
					got += m
				}
			}
		})
	}
	wg.Wait()
	a1, u1 := c.cpu(b)
	return (a1 - a0) / float64(n), (u1 - u0) / float64(n)
}

// BenchmarkProxyCPU compares the CPU of one proxied request with that of a bare fasthttp proxy: two processes, one
// backend, rounds in turn. The budget is a ratio of 1.15.
func BenchmarkProxyCPU(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			body := bytes.Repeat([]byte("x"), size)
			back := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(body) }}
			go func() { _ = back.Serve(ln) }()
			defer func() { _ = back.Shutdown() }()
			ours, bare := newChild(b, "ours", ln.Addr().String()), newChild(b, "bare", ln.Addr().String())
			const per = 64 * 50
			ours.run(b, per, size)
			bare.run(b, per, size)
			pairs := max(b.N, 30)
			if testing.Short() {
				pairs = max(b.N, 2) // no figure to quote
			}
			var ratios []float64
			var sumOurs, sumBare, userOurs, userBare float64
			for i := range pairs {
				var o, ou, f, fu float64
				if i%2 == 0 {
					o, ou = ours.run(b, per, size)
					f, fu = bare.run(b, per, size)
				} else {
					f, fu = bare.run(b, per, size)
					o, ou = ours.run(b, per, size)
				}
				ratios = append(ratios, o/f)
				sumOurs, sumBare, userOurs, userBare = sumOurs+o, sumBare+f, userOurs+ou, userBare+fu
			}
			mean, half := interval(ratios)
			n := float64(pairs) * 1000
			b.ReportMetric(sumOurs/n, "µs-ours")
			b.ReportMetric(sumBare/n, "µs-bare")
			b.ReportMetric(userOurs/n, "µs-user-ours")
			b.ReportMetric(userBare/n, "µs-user-bare")
			b.ReportMetric(mean, "ratio")
			b.ReportMetric(half, "±95%")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// interval is the mean and half the width of its 95 % interval.
func interval(v []float64) (mean, half float64) {
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	var ss float64
	for _, x := range v {
		ss += (x - mean) * (x - mean)
	}
	return mean, 1.96 * math.Sqrt(ss/float64(len(v)-1)/float64(len(v)))
}

// cannedService answers every request with the same bytes, without allocating.
func cannedService(t testing.TB, answer []byte) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				buf := make([]byte, 8<<10)
				for {
					if _, err := c.Read(buf); err != nil { // a whole request: the test's fit one segment
						return
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln
}

func benchGateway(t testing.TB, answer string) net.Conn {
	ln := cannedService(t, []byte(answer))
	set := metrics.NewSet()
	ucfg := upstream.DefaultConfig()
	ucfg.URLs = []string{"http://" + ln.Addr().String()}
	g, err := upstream.New(ucfg, upstream.Deps{Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.MaxRequestsPerConn = 0
	srv, err := NewServer(cfg, Deps{Handler: benchHandler(g), Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	gw := &gateway{srv: srv, g: g, set: set}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { _ = gw.srv.Serve(front, ListenerOptions{}); close(served) }()
	c, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = gw.srv.Shutdown(ctx)
		<-served
		_ = g.Close()
	})
	return c
}

// BenchmarkProxy is one request through the gateway to a backend and back, all in this process, on one connection.
func BenchmarkProxy(b *testing.B) {
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)
	c := benchGateway(b, answer)
	req := []byte(browserGet)
	buf := make([]byte, len(answer))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(req); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// TestKeptAliveRequestAllocatesNothing holds the plain path to its promise.
func TestKeptAliveRequestAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)
	for _, c := range []struct{ name, req string }{
		{"GET", browserGet},
		{"POST", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"},
	} {
		nc := benchGateway(t, answer)
		buf := make([]byte, len(answer))
		req := []byte(c.req)
		once := func() {
			_, _ = nc.Write(req)
			if _, err := io.ReadFull(nc, buf); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			once()
		}
		runtime.GC()
		if n := testing.AllocsPerRun(2000, once); n >= 0.5 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// BenchmarkParseRequest measures the parser alone.
func BenchmarkParseRequest(b *testing.B) {
	var h wire.Head
	h.Raw = []byte(browserGet)
	b.SetBytes(int64(len(browserGet)))
	b.ReportAllocs()
	for b.Loop() {
		if err := h.ParseRequest(16<<10, 200); err != nil {
			b.Fatal(err)
		}
	}
}
