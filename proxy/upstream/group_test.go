package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// echoLines answers every line with itself.
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

func groupWith(t testing.TB, set *metrics.Set, change func(*Config), urls ...string) (*Group, *bytes.Buffer) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Service, cfg.URLs = "shop", urls
	cfg.DialTimeout = 2 * time.Second
	if change != nil {
		change(&cfg)
	}
	var logged bytes.Buffer
	g, err := New(cfg, Deps{Log: zerolog.New(zerolog.SyncWriter(&logged)), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g, &logged
}

func get(t testing.TB, g *Group) *Conn {
	t.Helper()
	c, err := g.Get(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a line and wants it back.
func ask(t testing.TB, c *Conn, line string) {
	t.Helper()
	fmt.Fprintln(c.W, line)
	if err := c.W.Flush(); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	got, err := c.R.ReadString('\n')
	if err != nil || got != line+"\n" {
		t.Fatalf("asked %q, got %q, %v", line, got, err)
	}
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func TestConnectionIsUsedAgainLatestFirst(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, nil, s.url())
	a := get(t, g)
	ask(t, a, "one")
	if a.Reused() || a.Addr() != s.Addr().String() {
		t.Fatal(a.Reused(), a.Addr())
	}
	a.Release()
	for i := range 5 {
		b := get(t, g)
		if b != a || !b.Reused() {
			t.Fatal("another connection")
		}
		ask(t, b, fmt.Sprint("more ", i))
		b.Release()
	}
	if n := s.accepted.Load(); n != 1 {
		t.Fatalf("%d connections", n)
	}
	if c, err := g.Get(t.Context(), true); err != nil || c.Reused() || c == a {
		t.Fatal("a fresh one was asked for", err)
	} else {
		c.Discard(nil)
	}
}

func TestDeadlinesOfTheLastRequestAreForgotten(t *testing.T) {
	g := group(t, nil, serve(t, listen(t), echoLines).url())
	c := get(t, g)
	ask(t, c, "one")
	c.SetDeadline(time.Now().Add(-time.Second))
	c.Release()
	d := get(t, g)
	defer d.Discard(nil)
	if d != c {
		t.Fatal("a passed deadline made the connection look dead")
	}
	fmt.Fprintln(d.W, "two")
	d.W.Flush()
	if got, err := d.R.ReadString('\n'); got != "two\n" {
		t.Fatal(got, err)
	}
}

// The server answers each question, and then says more without being asked: with the answer, a moment later, much later.
func TestUnaskedAnswerNeverReachesTheNextClient(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			said := make(chan struct{}, 100)
			s := serve(t, listen(t), func(c net.Conn) {
				r := bufio.NewReader(c)
				for {
					l, err := r.ReadString('\n')
					if err != nil {
						return
					}
					if delay == 0 {
						io.WriteString(c, l+"poison\n")
						said <- struct{}{}
						continue
					}
					io.WriteString(c, l)
					time.Sleep(delay)
					io.WriteString(c, "poison\n")
					said <- struct{}{}
				}
			})
			set := metrics.NewSet()
			g, logged := groupWith(t, set, nil, s.url())
			for i := range 10 {
				c := get(t, g)
				ask(t, c, fmt.Sprint("question ", i))
				c.Release()
				<-said
				time.Sleep(time.Millisecond) // loopback
			}
			if n := s.accepted.Load(); n != 10 {
				t.Fatalf("%d connections for ten spoiled exchanges", n)
			}
			var b bytes.Buffer
			set.WritePrometheus(&b)
			want := fmt.Sprintf(`antirobot_upstream_dropped_dirty_total{service="shop",addr=%q} `, s.Addr().String())
			if !strings.Contains(b.String(), want+"10") && !strings.Contains(b.String(), want+"9") {
				t.Error(b.String())
			}
			if !strings.Contains(logged.String(), "upstream") {
				t.Error("nothing was logged")
			}
		})
	}
}

func TestUnsentRequestBytesDropTheConnection(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, nil, s.url())
	c := get(t, g)
	c.W.WriteString("half a request")
	c.Release()
	if d := get(t, g); d.Reused() {
		t.Fatal("lent again")
	} else {
		ask(t, d, "clean")
		d.Release()
	}
}

func TestClosedByServerWhileUnused(t *testing.T) {
	s := serve(t, listen(t), func(c net.Conn) {
		r := bufio.NewReader(c)
		l, _ := r.ReadString('\n')
		io.WriteString(c, l)
	})
	g := group(t, nil, s.url())
	for i := range 3 {
		c := get(t, g)
		ask(t, c, "q")
		c.Release()
		eventually(t, "the end arrives", func() bool {
			// Each look drops a dead connection; what is left is fresh.
			c := get(t, g)
			defer c.Discard(nil)
			return !c.Reused()
		})
		_ = i
	}
	if !g.Healthy()[0].Up || g.Healthy()[0].Fails != 0 {
		t.Fatal("a server that closes unused connections is not to blame")
	}
}

func TestSweepClosesTheOldAndTheDead(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.IdleTimeout = time.Minute }, s.url())
	var all []*Conn
	for i := range 200 {
		c, err := g.Get(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		ask(t, c, fmt.Sprint(i))
		all = append(all, c)
	}
	for _, c := range all {
		c.Release()
	}
	a := g.addrs[0]
	at := g.now() + int64(10*time.Second)
	a.sweep(at)
	if n := g.Healthy()[0].Idle; n != 200 {
		t.Fatalf("a sweep left %d of 200 good connections", n)
	}
	s.mu.Lock()
	for i, c := range s.conns {
		if i%3 == 0 {
			c.Close()
		}
	}
	s.mu.Unlock()
	eventually(t, "dead ones are gone", func() bool { a.sweep(at); return g.Healthy()[0].Idle == 133 })
	if n := a.open.Load(); n != 133 {
		t.Fatalf("%d counted as open", n)
	}
	c := get(t, g)
	ask(t, c, "still good")
	c.Release()
	a.sweep(g.now() + int64(2*time.Minute))
	if g.Healthy()[0].Idle != 0 || a.open.Load() != 0 {
		t.Fatal(g.Healthy(), a.open.Load())
	}
}

func TestMaxIdleAndMaxAge(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxIdle = 2; c.MaxAge = time.Hour }, s.url())
	var all []*Conn
	for range 5 {
		all = append(all, get(t, g))
	}
	for _, c := range all {
		c.Release()
	}
	if h := g.Healthy()[0]; h.Idle != 2 || h.Active != 0 || g.addrs[0].open.Load() != 2 {
		t.Fatalf("%+v", h)
	}
	c := get(t, g)
	c.born -= int64(2 * time.Hour)
	c.Release()
	if h := g.Healthy()[0]; h.Idle != 1 {
		t.Fatalf("%+v: an aged connection was kept", h)
	}
}

func TestStartsWithoutAnUpstreamAndFailsTyped(t *testing.T) {
	l := listen(t)
	l.Close()
	g := group(t, nil, "http://"+l.Addr().String())
	_, err := g.Get(t.Context(), false)
	if !errors.Is(err, ErrDial) || !errors.Is(err, ErrNoUpstream) || errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	// It is tried again at once when it is the only one, however often it failed.
	for range 5 {
		g.Get(t.Context(), false)
	}
	if g.Healthy()[0].Up {
		t.Fatal("still thought to be up")
	}
	l2, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Skip("the port was taken meanwhile")
	}
	serve(t, l2, echoLines)
	c := get(t, g)
	ask(t, c, "back")
	c.Release()
	if !g.Healthy()[0].Up {
		t.Fatal("not back")
	}
}

func TestNextAddressWithinOneGet(t *testing.T) {
	dead := listen(t)
	dead.Close()
	good := serve(t, listen(t), echoLines)
	for _, balance := range []string{LeastConn, RoundRobin} {
		g := group(t, func(c *Config) { c.Balance = balance }, "http://"+dead.Addr().String(), good.url())
		for i := range 20 {
			c, err := g.Get(t.Context(), true)
			if err != nil {
				t.Fatal(balance, i, err)
			}
			ask(t, c, "hello")
			c.Release()
		}
		h := g.Healthy()
		if h[0].Up || h[0].RetryIn <= 0 || !h[1].Up {
			t.Fatalf("%+v", h)
		}
	}
}

func TestAnswersThatFailTakeAnAddressOutAndTheProbeBringsItBack(t *testing.T) {
	a, b := serve(t, listen(t), echoLines), serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.FailTimeout = 300 * time.Millisecond; c.Balance = RoundRobin }, a.url(), b.url())
	bad := errors.New("broken answer")
	for g.Healthy()[0].Up {
		c := get(t, g)
		if c.Addr() == a.Addr().String() {
			c.Discard(bad)
		} else {
			c.Release()
		}
	}
	for range 10 {
		c := get(t, g)
		if c.Addr() != b.Addr().String() {
			t.Fatal("the address that is out was chosen")
		}
		c.Release()
	}
	eventually(t, "probed and back", func() bool { return g.Healthy()[0].Up })
	if h := g.Healthy()[0]; h.Fails != 2 || h.Idle != 1 {
		t.Fatalf("%+v: on trial, with the probe's connection kept", h)
	}
	for {
		c := get(t, g)
		if c.Addr() == a.Addr().String() {
			c.Discard(bad)
			break
		}
		c.Release()
	}
	if g.Healthy()[0].Up {
		t.Fatal("one failure on trial is enough")
	}
}

func TestASuccessForgivesAndOldFailuresAreForgotten(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, nil, s.url(), "http://127.0.0.1:1")
	a := g.addrs[0]
	bad := errors.New("x")
	a.failed(bad)
	a.failed(bad)
	a.succeeded()
	a.failed(bad)
	a.failed(bad)
	if !g.Healthy()[0].Up {
		t.Fatal("failures that were not in a row")
	}
	a.firstFail -= int64(time.Minute)
	a.failed(bad)
	if h := g.Healthy()[0]; !h.Up || h.Fails != 1 {
		t.Fatalf("%+v", h)
	}
	off := group(t, func(c *Config) { c.MaxFails = 0 }, s.url())
	for range 10 {
		off.addrs[0].failed(bad)
	}
	if !off.Healthy()[0].Up {
		t.Fatal("switched off")
	}
}

func TestAllDownTriesTheOneLongestDown(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, nil, "http://127.0.0.1:1", s.url(), "http://127.0.0.1:2")
	for _, i := range []int{1, 0, 2} {
		for range 3 {
			g.addrs[i].failed(errors.New("x"))
		}
	}
	c := get(t, g)
	if c.Addr() != s.Addr().String() {
		t.Fatal(c.Addr())
	}
	c.Release()
}

func TestBalance(t *testing.T) {
	a, b := serve(t, listen(t), echoLines), serve(t, listen(t), echoLines)
	rr := group(t, func(c *Config) { c.Balance = RoundRobin }, a.url(), b.url())
	n := map[string]int{}
	for range 10 {
		c := get(t, rr)
		n[c.Addr()]++
		c.Release()
	}
	if n[a.Addr().String()] != 5 {
		t.Fatal(n)
	}
	lc := group(t, nil, a.url(), b.url())
	var held []*Conn
	for range 10 {
		held = append(held, get(t, lc))
	}
	for _, h := range lc.Healthy() {
		if h.Active != 5 {
			t.Fatalf("%+v", h)
		}
	}
	for _, c := range held {
		c.Release()
	}
}

func TestUnixSocket(t *testing.T) {
	path := t.TempDir() + "/s.sock"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, echoLines)
	g := group(t, nil, "http+unix://"+path)
	for range 2 {
		c := get(t, g)
		ask(t, c, "over a socket file")
		c.Release()
	}
	if c := get(t, g); !c.Reused() || c.Addr() != path {
		t.Fatal(c.Reused(), c.Addr())
	} else {
		c.Release()
	}
}

func TestClose(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	set := metrics.NewSet()
	g, _ := groupWith(t, set, func(c *Config) { c.MaxConns = 2 }, s.url())
	a, b := get(t, g), get(t, g)
	a.Release()
	waited := make(chan error, 1)
	a = get(t, g)
	go func() {
		_, err := g.Get(context.Background(), false)
		waited <- err
	}()
	eventually(t, "someone waits", func() bool { return g.queue.waiting.Load() == 1 })
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, ErrNoUpstream) {
		t.Fatal(err)
	}
	ask(t, b, "a lent connection lives on")
	b.Release()
	a.Discard(nil)
	a.Discard(nil)
	if _, err := g.Get(t.Context(), false); !errors.Is(err, ErrNoUpstream) {
		t.Fatal(err)
	}
	if g.addrs[0].open.Load() != 0 || g.Close() != nil {
		t.Fatal("connections left")
	}
	var out bytes.Buffer
	set.WritePrometheus(&out)
	for _, l := range strings.Split(out.String(), "\n") {
		if strings.Contains(l, "connections{") && !strings.HasSuffix(l, " 0") {
			t.Error(l)
		}
	}
}

func TestGroupsOfOneNameShareTheirMetrics(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	set := metrics.NewSet()
	old, _ := groupWith(t, set, nil, s.url())
	c := get(t, old)
	fresh, _ := groupWith(t, set, nil, s.url())
	d := get(t, fresh)
	old.publish()
	fresh.publish()
	seen := func() string {
		var out bytes.Buffer
		set.WritePrometheus(&out)
		for _, l := range strings.Split(out.String(), "\n") {
			if strings.Contains(l, `state="active"`) {
				return l[strings.LastIndexByte(l, ' ')+1:]
			}
		}
		return "none"
	}
	if seen() != "2" {
		t.Fatal(seen())
	}
	old.Close()
	c.Release()
	if seen() != "1" {
		t.Fatal(seen())
	}
	d.Release()
}

func TestUnbuffer(t *testing.T) {
	s := serve(t, listen(t), func(c net.Conn) {
		io.WriteString(c, "head\nearly bytes")
		io.Copy(c, c)
	})
	g := group(t, nil, s.url())
	c := get(t, g)
	if l, err := c.R.ReadString('\n'); l != "head\n" {
		t.Fatal(l, err)
	}
	eventually(t, "they come", func() bool { b, _ := c.R.Peek(11); return len(b) == 11 })
	if early := c.Unbuffer(); string(early) != "early bytes" || c.R != nil || c.W != nil {
		t.Fatalf("%q", early)
	}
	io.WriteString(c, "tunnel")
	b := make([]byte, 6)
	if _, err := io.ReadFull(c, b); string(b) != "tunnel" {
		t.Fatal(b, err)
	}
	c.Discard(nil)
}

// busyListener returns the address of a listener whose queue is full, so that a dial waits.
func busyListener(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue of the listener does not fill")
	return ""
}

func TestTheClientsEndIsNotTheAddressFault(t *testing.T) {
	g := group(t, nil, "http://"+busyListener(t))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := g.Get(ctx, false)
	if !errors.Is(err, context.DeadlineExceeded) || g.Healthy()[0].Fails != 0 {
		t.Fatal(err, g.Healthy())
	}
}

func TestManyClients(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, nil, s.url())
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for j := range 100 {
				c, err := g.Get(t.Context(), j%17 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(c.W, "%d %d\n", i, j)
				c.W.Flush()
				got, err := c.R.ReadString('\n')
				if err != nil || got != fmt.Sprintf("%d %d\n", i, j) {
					t.Error(got, err)
					c.Discard(err)
					return
				}
				if j%23 == 0 {
					c.Discard(nil)
				} else {
					c.Release()
				}
			}
		})
	}
	wg.Wait()
	h := g.Healthy()[0]
	const wanted, fresh = 32, 32 * 6 // what works at once, and what was asked for anew
	if h.Active != 0 || int64(h.Idle) != g.addrs[0].open.Load() || h.Idle > wanted+fresh {
		t.Fatalf("%+v, open %d", h, g.addrs[0].open.Load())
	}
}

// An HTTP exchange with a real server, to see that nothing here stands in its way.
func TestHTTP(t *testing.T) {
	l := listen(t)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })}
	go srv.Serve(l)
	defer srv.Close()
	g := group(t, nil, "http://"+l.Addr().String())
	for i := range 3 {
		c := get(t, g)
		fmt.Fprintf(c.W, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
		c.W.Flush()
		resp, err := http.ReadResponse(c.R, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		if string(b) != fmt.Sprint("/", i) || c.Reused() != (i > 0) {
			t.Fatal(string(b), c.Reused())
		}
		c.Release()
	}
}
