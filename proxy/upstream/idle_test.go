package upstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/servertest"
)

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
	fmt.Fprintln(d, "two")
	if got, err := d.R.ReadString('\n'); got != "two\n" {
		t.Fatal(got, err)
	}
}

// TestDeadlinesStay: a deadline of reading that is still to come is known to whoever gets the connection next, which
// costs no call; one that another goroutine set to wake a reader, and one of writing, are taken away.
func TestDeadlinesStay(t *testing.T) {
	g := group(t, nil, serve(t, listen(t), echoLines).url())
	c := get(t, g)
	ask(t, c, "one")
	by := time.Now().Add(time.Hour)
	if err := c.SetReadDeadline(by); err != nil {
		t.Fatal(err)
	}
	again := func(want time.Time) {
		t.Helper()
		c.Release()
		if d := get(t, g); d != c {
			t.Fatal("another connection was lent")
		}
		if got := c.ReadBy(); !got.Equal(want) {
			t.Errorf("the deadline is %v, want %v", got, want)
		}
		ask(t, c, "two")
	}
	again(by)
	woken := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		woken <- err
	}()
	c.Wake()
	if err := <-woken; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the reader was woken by %v", err)
	}
	again(time.Time{})
	if err := c.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	again(time.Time{})
	c.Discard(nil)
}

// TestUnaskedAnswerNeverReachesTheNextClient: the server answers each question, and then sends more without being
// asked: together with the answer, a moment later, much later.
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
		servertest.Eventually(t, "the end arrives", func() bool {
			// Each check drops a dead connection; what is left is fresh.
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
	servertest.Eventually(t, "dead ones are gone", func() bool { a.sweep(at); return g.Healthy()[0].Idle == 133 })
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
	servertest.Eventually(t, "they come", func() bool { b, _ := c.R.Peek(11); return len(b) == 11 })
	if early := c.Unbuffer(); string(early) != "early bytes" || c.R != nil {
		t.Fatalf("%q", early)
	}
	io.WriteString(c, "tunnel")
	b := make([]byte, 6)
	if _, err := io.ReadFull(c, b); string(b) != "tunnel" {
		t.Fatal(b, err)
	}
	c.Discard(nil)
}

// TestAskIsWrittenByTheRead asks in every possible state of a connection: the line is sent once, completely, and the
// answer comes back.
func TestAskIsWrittenByTheRead(t *testing.T) {
	cert, certFile, _ := certificate(t)
	plain := serve(t, listen(t), echoLines)
	secure := serve(t, tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{cert}}), echoLines)
	large := strings.Repeat("x", 1<<20) + "\n" // more than any send buffer accepts at once
	for _, c := range []struct {
		name, url, line string
		before          func(c *Conn)
	}{
		{"plain", plain.url(), "hello\n", nil},
		{"in parts", plain.url(), large, func(c *Conn) { _ = c.Conn.(*net.TCPConn).SetWriteBuffer(4096) }},
		{"over TLS", strings.Replace(secure.url(), "http:", "https:", 1), "hello\n", nil},
		{"nothing", plain.url(), "", func(c *Conn) { _, _ = io.WriteString(c, "hello\n") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := group(t, func(cfg *Config) { cfg.TLS.CAFile = certFile }, c.url)
			for range 2 { // anew, and again
				conn := get(t, g)
				if c.before != nil {
					c.before(conn)
				}
				if err := conn.Ask([]byte(c.line)); err != nil {
					t.Fatal(err)
				}
				want := c.line
				if want == "" {
					want = "hello\n"
				}
				_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
				got := make([]byte, len(want))
				if _, err := io.ReadFull(conn.R, got); err != nil || string(got) != want {
					t.Fatalf("got %d of %d bytes, %v", len(got), len(want), err)
				}
				if err := conn.Unasked(); err != nil {
					t.Fatal(err)
				}
				conn.Release()
			}
		})
	}
}

// TestAskAfterTheDeadline reads with an expired deadline: the request is sent anyway, because the caller's next read
// will wait for its answer.
func TestAskAfterTheDeadline(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	c := get(t, group(t, nil, s.url()))
	defer c.Discard(nil)
	if err := c.Ask([]byte("late\n")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Unix(1, 0))
	if _, err := c.R.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read: %v", err)
	}
	_ = c.SetReadDeadline(time.Now().Add(60 * time.Second))
	if l, err := c.R.ReadString('\n'); err != nil || l != "late\n" {
		t.Fatalf("%q, %v", l, err)
	}
}

// TestAskTellsWhatWasNotSent: the server closes while the connection is lent.
func TestAskTellsWhatWasNotSent(t *testing.T) {
	lent := make(chan struct{})
	s := serve(t, listen(t), func(c net.Conn) {
		<-lent
		_ = c.(*net.TCPConn).SetLinger(0) // a reset
	})
	c := get(t, group(t, nil, s.url()))
	defer c.Discard(nil)
	close(lent)
	servertest.Eventually(t, "the reset", func() bool { n, err := c.sock.peek(); return n == 0 || err != nil })
	if err := c.Ask(bytes.Repeat([]byte("x"), 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.R.ReadByte(); err == nil || c.Unasked() == nil {
		t.Fatalf("read: %v, unasked: %v", err, c.Unasked())
	}
}

func TestReuseAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	g := group(t, nil, serve(t, listen(t), echoLines).url(), serve(t, listen(t), echoLines).url())
	a, b := get(t, g), get(t, g)
	a.Release()
	b.Release()
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		c, err := g.Get(ctx, false)
		if err != nil {
			t.Fatal(err)
		}
		if !c.Reused() {
			t.Fatal("a new connection")
		}
		c.Release()
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	g := group(b, nil, serve(b, listen(b), echoLines).url())
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		c, err := g.Get(ctx, false)
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
	}
}

func BenchmarkGetReleaseParallel(b *testing.B) {
	g := group(b, nil, serve(b, listen(b), echoLines).url())
	ctx := b.Context()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c, err := g.Get(ctx, false)
			if err != nil {
				b.Error(err)
				return
			}
			c.Release()
		}
	})
}
