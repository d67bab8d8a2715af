package e2e

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// ports are given out one after the other, so that none is soon given again.
var firstPort, ports = rand.Int64N(900), atomic.Int64{}

// freePort returns an address on loopback where nobody listens. It is below the ports from which connections go out: the
// kernel gives those to whoever asks next, and between a look and a server's start that is often somebody else.
func freePort(t testing.TB) string {
	t.Helper()
	for range 900 {
		addr := net.JoinHostPort("127.0.0.1", strconv.FormatInt(31000+(firstPort+ports.Add(1))%900, 10))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}
