package upstream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"antirobot/servertest"
)

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
