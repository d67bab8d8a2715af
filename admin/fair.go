package admin

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// fairShare is the part of all connections that one address may have, as a divisor: probes, scrapers and operators get the others.
const fairShare = 4

// fair is a listener on which no address, or /64 of IPv6, but this machine's has more than its share of the connections.
type fair struct {
	net.Listener
	most    int
	refused *metrics.Counter

	mu   sync.Mutex
	open map[netip.Prefix]int
}

func newFair(ln net.Listener, connections int, refused *metrics.Counter) *fair {
	return &fair{Listener: ln, most: max(connections/fairShare, 1), refused: refused, open: map[netip.Prefix]int{}}
}

// Accept implements net.Listener.
func (f *fair) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, counts := machine(c.RemoteAddr())
		if !counts || f.take(from) {
			return &fairConn{Conn: c, of: f, from: from, counts: counts}, nil
		}
		f.refused.Inc()
		_ = c.Close()
	}
}

// machine returns whose address it is, and whether it is another machine's than this one.
func machine(peer net.Addr) (from netip.Prefix, counts bool) {
	a, err := netip.ParseAddrPort(peer.String())
	if err != nil || a.Addr().Unmap().IsLoopback() {
		return from, false
	}
	addr, bits := a.Addr().Unmap(), 64
	if addr.Is4() {
		bits = 32
	}
	from, err = addr.Prefix(bits)
	return from, err == nil
}

func (f *fair) take(from netip.Prefix) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[from] >= f.most {
		return false
	}
	f.open[from]++
	return true
}

func (f *fair) give(from netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[from]--; f.open[from] == 0 {
		delete(f.open, from)
	}
}

// lingerTimeout bounds how long the rest of a refused request is read.
const lingerTimeout = 5 * time.Second

// fairConn is a connection that may count, and that can be closed without losing the last answer.
type fairConn struct {
	net.Conn
	of     *fair
	from   netip.Prefix
	counts bool
	once   sync.Once
	unread atomic.Bool // the peer may still be sending
}

// linger has the rest of a request read and discarded when its connection closes. Closing a socket with unread bytes resets it,
// and a reset discards the answer that the client has not read yet.
func linger(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if f, ok := c.(*fairConn); ok {
		f.unread.Store(true)
	}
}

// Close implements net.Conn.
func (c *fairConn) Close() error {
	c.once.Do(func() {
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.unread.Load() && half.CloseWrite() == nil {
			_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
			_, _ = io.Copy(io.Discard, c.Conn)
		}
		if c.counts {
			c.of.give(c.from)
		}
	})
	return c.Conn.Close()
}
