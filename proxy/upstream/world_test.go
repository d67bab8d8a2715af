package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server accepts connections and hands each to serve, which is awaited at the end of the test.
type server struct {
	net.Listener
	accepted atomic.Int32
	mu       sync.Mutex
	conns    []net.Conn
	done     sync.WaitGroup
}

func serve(t testing.TB, l net.Listener, handle func(c net.Conn)) *server {
	t.Helper()
	s := &server{Listener: l}
	s.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.done.Go(func() { handle(c); c.Close() })
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *server) stop() {
	s.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
}

func (s *server) url() string { return "http://" + s.Addr().String() }

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// echoLines echoes every line.
func echoLines(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		l, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, l); err != nil {
			return
		}
	}
}

func group(t testing.TB, change func(*Config), urls ...string) *Group {
	t.Helper()
	g, _ := groupWith(t, metrics.NewSet(), change, urls...)
	return g
}

// lines is what a Group logs, in goroutines of its own.
type lines struct {
	mu  sync.Mutex
	all []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p...)
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.all)
}

func groupWith(t testing.TB, set *metrics.Set, change func(*Config), urls ...string) (*Group, *lines) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Service, cfg.URLs = "shop", urls
	cfg.DialTimeout = 20 * time.Second
	if change != nil {
		change(&cfg)
	}
	logged := new(lines)
	g, err := New(cfg, Deps{Log: zerolog.New(logged), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g, logged
}

func get(t testing.TB, g *Group) *Conn {
	t.Helper()
	c, err := g.Get(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a line and expects it back.
func ask(t testing.TB, c *Conn, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(60 * time.Second))
	got, err := c.R.ReadString('\n')
	if err != nil || got != line+"\n" {
		t.Fatalf("asked %q, got %q, %v", line, got, err)
	}
}
