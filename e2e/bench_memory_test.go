package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

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
