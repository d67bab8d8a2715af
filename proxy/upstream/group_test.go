package upstream

import (
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

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/sys/unix"

	"antirobot/servertest"
)

func TestBalance(t *testing.T) {
	a, b := serve(t, listen(t), echoLines), serve(t, listen(t), echoLines)
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
	servertest.Eventually(t, "someone waits", func() bool { return g.queue.waiting.Load() == 1 })
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, errNoUpstream) {
		t.Fatal(err)
	}
	ask(t, b, "a lent connection lives on")
	b.Release()
	a.Discard(nil)
	a.Discard(nil)
	if _, err := g.Get(t.Context(), false); !errors.Is(err, errNoUpstream) {
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
				fmt.Fprintf(c, "%d %d\n", i, j)
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
	const wanted, fresh = 32, 32 * 6 // concurrent requests, and connections requested as fresh
	if h.Active != 0 || int64(h.Idle) != g.addrs[0].open.Load() || h.Idle > wanted+fresh {
		t.Fatalf("%+v, open %d", h, g.addrs[0].open.Load())
	}
}

// TestHTTP makes an HTTP exchange with a real server, to show that nothing here interferes with it.
func TestHTTP(t *testing.T) {
	l := listen(t)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		io.WriteString(w, r.URL.Path)
	})}
	go srv.Serve(l)
	defer srv.Close()
	g := group(t, nil, "http://"+l.Addr().String())
	for i := range 3 {
		c := get(t, g)
		fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
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

func TestLimitIsKeptAndEveryWaiterServed(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 3; c.MaxWait = 20 * time.Second }, s.url())
	var most, now atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for j := range 50 {
				c, err := g.Get(t.Context(), j%11 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if open := g.addrs[0].open.Load(); open > 4 { // reserve counts before it gives up
					t.Log("open", open)
				}
				now.Add(-1)
				if (i+j)%7 == 0 {
					c.Discard(nil)
				} else {
					c.Release()
				}
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 {
		t.Fatalf("%d connections at once", most.Load())
	}
	if g.queue.waiting.Load() != 0 || g.queue.line.Len() != 0 {
		t.Fatal("someone still waits")
	}
}

func TestWaitersAreBoundedInNumberAndTime(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 1; c.MaxWaiters = 1; c.MaxWait = 200 * time.Millisecond }, s.url())
	c := get(t, g)
	first := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := g.Get(context.Background(), false)
		first <- err
	}()
	servertest.Eventually(t, "one waits", func() bool { return g.queue.waiting.Load() == 1 })
	if _, err := g.Get(t.Context(), false); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if err := <-first; !errors.Is(err, ErrBusy) || time.Since(began) < 200*time.Millisecond {
		t.Fatal(err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := g.Get(ctx, false)
		first <- err
	}()
	servertest.Eventually(t, "one waits", func() bool { return g.queue.waiting.Load() == 1 })
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.Release()
	if d := get(t, g); d != c {
		t.Fatal("not the same")
	} else {
		d.Discard(nil)
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 1 }, s.url())
	c := get(t, g)
	order := make(chan int, 5)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			c, err := g.Get(context.Background(), false)
			if err != nil {
				t.Error(err)
				return
			}
			order <- i // the only connection is held, so nobody else gets here
			c.Release()
		})
		servertest.Eventually(t, "in line", func() bool {
			g.queue.mu.Lock()
			defer g.queue.mu.Unlock()
			return g.queue.line.Len() == i+1
		})
	}
	c.Release()
	wg.Wait()
	for want := range 5 {
		if got := <-order; got != want {
			t.Fatalf("%d came before %d", got, want)
		}
	}
}

func TestFreshMakesRoomAtTheLimit(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 1 }, s.url())
	c := get(t, g)
	c.Release()
	d, err := g.Get(t.Context(), true)
	if err != nil || d == c {
		t.Fatal(err)
	}
	d.Discard(nil)
}

func TestFullAddressIsPassedOver(t *testing.T) {
	a, b := serve(t, listen(t), echoLines), serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 2 }, a.url(), b.url())
	var all []*Conn
	for range 4 {
		all = append(all, get(t, g))
	}
	for _, h := range g.Healthy() {
		if h.Active != 2 {
			t.Fatalf("%+v", h)
		}
	}
	for _, c := range all {
		c.Release()
	}
}

func TestStartsWithoutAnUpstreamAndFailsTyped(t *testing.T) {
	l := listen(t)
	l.Close()
	g := group(t, nil, "http://"+l.Addr().String())
	_, err := g.Get(t.Context(), false)
	if !errors.Is(err, errDial) || !errors.Is(err, errNoUpstream) || errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	// If it is the only one, it is retried at once, however often it failed.
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
	dead, alive := listen(t), listen(t) // both before one is closed, so that they differ
	dead.Close()
	good := serve(t, alive, echoLines)
	g := group(t, nil, "http://"+dead.Addr().String(), good.url())
	for i := range 20 {
		c, err := g.Get(t.Context(), true)
		if err != nil {
			t.Fatal(i, err)
		}
		ask(t, c, "hello")
		c.Release()
	}
	h := g.Healthy()
	if h[0].Up || h[0].RetryIn <= 0 || !h[1].Up {
		t.Fatalf("%+v", h)
	}
}

func TestAnswersThatFailTakeAnAddressOutAndTheProbeBringsItBack(t *testing.T) {
	a, b := serve(t, listen(t), echoLines), serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.FailTimeout = 300 * time.Millisecond }, a.url(), b.url())
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
	servertest.Eventually(t, "probed and back, with the probe's connection kept",
		func() bool { h := g.Healthy()[0]; return h.Up && h.Idle == 1 })
	if h := g.Healthy()[0]; h.Fails != 2 {
		t.Fatalf("%+v: on trial", h)
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
