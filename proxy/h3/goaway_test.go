package h3

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"

	"antirobot/proxy/h1"
)

// TestDrain: a request in progress gets its answer, no other begins, and the connection ends.
func TestDrain(t *testing.T) {
	began, finish := make(chan struct{}, 2), make(chan struct{})
	end := sync.OnceFunc(func() { close(finish) })
	f := newFront(t, setup{handler: func(x *h1.Exchange) {
		began <- struct{}{}
		<-finish
		reply(x, "whole")
	}})
	t.Cleanup(end)
	c := f.mustDial(t)
	idle, err := f.dialQUIC(t, nil) // heeds no GOAWAY
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		_, body, err := c.do(t, "GET", "/")
		if err != nil {
			body = err.Error()
		}
		got <- body
	}()
	<-began
	f.await(t, "antirobot_http3_open_connections", "2")
	down := make(chan error, 1)
	go func() { down <- f.h3.Shutdown(context.Background()) }()
	ended(t, idle)
	if _, body, err := c.do(t, "GET", "/more"); err == nil {
		t.Errorf("another request was answered: %s", body)
	}
	end()
	if body := <-got; body != "whole" {
		t.Error(body)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	if code := ended(t, c.Conn); code != http3.ErrCodeNoError {
		t.Errorf("it ended with %v", code)
	}
}

// TestConnectionsEnd: after so many requests, and after a time without any.
func TestConnectionsEnd(t *testing.T) {
	answer := func(x *h1.Exchange) { reply(x, "ok") }
	limits := map[string]func(*h1.Config){
		"requests": func(c *h1.Config) { c.MaxRequestsPerConn = 1 },
		"idle":     func(c *h1.Config) { c.IdleTimeout = 20 * time.Millisecond },
		"silent":   func(c *h1.Config) { c.HeaderTimeout = 100 * time.Millisecond },
	}
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, setup{h1: limit, handler: answer})
			c, err := f.dial(t, nil)
			if err != nil {
				if name != "silent" { // a handshake on a busy machine may take longer than that
					t.Fatal(err)
				}
				return
			}
			if name == "silent" {
				f.await(t, "antirobot_http3_open_handshakes", "0")
				if f.metric("antirobot_http3_failed_handshakes_total") != "0" {
					return // it took longer, and the client alone takes it for done
				}
			} else {
				_, body, err := c.do(t, "GET", "/")
				if (err != nil || body != "ok") && name != "idle" { // a busy machine is idle before it asks
					t.Fatal(body, err)
				}
			}
			if code := ended(t, c.Conn); code != http3.ErrCodeNoError {
				t.Errorf("it ended with %v", code)
			}
		})
	}
}

// TestNoRequestIsLostWithItsConnection: what a client sends while the gateway ends a connection that was idle for long,
// or drains, is refused as a request that nobody has seen, which browsers send again.
func TestNoRequestIsLostWithItsConnection(t *testing.T) {
	for name, limit := range map[string]func(c *h1.Config){
		"silent": func(c *h1.Config) { c.HeaderTimeout = 500 * time.Millisecond },
		"drain":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, setup{h1: limit, handler: func(x *h1.Exchange) { reply(x, "ok") }})
			qc, err := f.dialQUIC(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			control, err := qc.AcceptUniStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if name == "drain" {
				f.await(t, "antirobot_http3_open_connections", "1")
				go func() { _ = f.h3.Shutdown(context.Background()) }()
			}
			r := quicvarint.NewReader(control)
			_, _ = quicvarint.Read(r) // its type
			for frame := uint64(0); frame != 7; {
				if frame, err = quicvarint.Read(r); err != nil {
					t.Fatalf("the connection ends without GOAWAY: %v", err)
				}
				length, _ := quicvarint.Read(r)
				_, _ = io.CopyN(io.Discard, r, int64(length))
			}
			told := time.Now()
			late, err := qc.OpenStreamSync(t.Context())
			if err == nil {
				_, _ = late.Write([]byte{1})
				_, err = late.Read(make([]byte, 1))
			}
			why, ok := errors.AsType[*quic.StreamError](err)
			// a busy machine is late
			if (!ok || http3.ErrCode(why.ErrorCode) != http3.ErrCodeRequestRejected) && time.Since(told) < lastWords {
				t.Errorf("a late request: %v", err)
			}
			if code := ended(t, qc); code != http3.ErrCodeNoError {
				t.Errorf("it ended with %v", code)
			}
		})
	}
}
