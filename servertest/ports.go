// Package servertest has what tests share that run servers: ports for them, a log that they write while it is read, how to wait for
// a state, and what to do without a program.
package servertest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// Ports are ports of loopback for servers of tests. They are given out one after the other, so that none is soon given again,
// beginning with a random one, as tests of several packages run at the same time. Take them below 32768: the kernel
// gives connections that go out the ports from there on, and between a look and a server's start one is often somebody else's.
// Safe for concurrent use.
type Ports struct {
	from, n int64
	next    atomic.Int64
}

// NewPorts returns n ports from a first one on.
func NewPorts(from, n int64) *Ports {
	p := &Ports{from: from, n: n}
	p.next.Store(rand.Int64N(n))
	return p
}

// Next returns a port on which nobody listens, nor so many above.
func (p *Ports) Next(t testing.TB, above ...int) int {
	t.Helper()
	for range p.n {
		port := int(p.from + p.next.Add(1)%p.n)
		ok := free(port)
		for _, by := range above {
			ok = ok && free(port+by)
		}
		if ok {
			return port
		}
	}
	t.Fatalf("of %d ports from %d none is free", p.n, p.from)
	return 0
}

// Addr returns an address, host and port, at which nobody listens.
func (p *Ports) Addr(t testing.TB) string {
	t.Helper()
	return addr(p.Next(t))
}

func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func free(port int) bool {
	l, err := net.Listen("tcp", addr(port))
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}
