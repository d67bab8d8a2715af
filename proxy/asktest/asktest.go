// Package asktest runs servers of balancers' protocols for their tests.
package asktest

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/proxy/h1"
)

// Patience bounds waits.
const Patience = 60 * time.Second

// Trusts implements h1.Balancers.
type Trusts bool

// Trusts implements h1.Balancers.
func (t Trusts) Trusts(netip.Addr) bool { return bool(t) }

// Front returns a server with a handler, for the time of the test.
func Front(t testing.TB, handler h1.Handler, set *metrics.Set) *h1.Server {
	t.Helper()
	front, err := h1.NewServer(h1.DefaultConfig(), h1.Deps{Handler: handler, Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = front.Close() })
	return front
}

// Server is the server under test.
type Server interface {
	Serve(ln net.Listener) error
	Shutdown(ctx context.Context) error
}

// Serve runs a server on loopback for the time of the test, and returns its address.
func Serve(t testing.TB, s Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}
