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

	"antirobot/proxy/connlimit"
)

// fairShare is the part of all connections that one address may have, as a divisor: probes, scrapers and operators get
// the others.
const fairShare = 4

// fair is a listener on which no address, or /64 of IPv6, but this machine's has more than its share of the
// connections.
type fair struct {
	net.Listener
	most    int
	refused *metrics.Counter
	open    connlimit.Counts
}

func newFair(ln net.Listener, connections int, refused *metrics.Counter) *fair {
	return &fair{Listener: ln, most: max(connections/fairShare, 1), refused: refused}
}

// Accept implements net.Listener.
func (f *fair) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, counts := other(c.RemoteAddr())
		if !counts || f.open.Add(from, f.most) {
			return &fairConn{Conn: c, of: f, from: from, counts: counts}, nil
		}
		f.refused.Inc()
		_ = c.Close()
	}
}

// other returns a peer's address, and whether it is another machine than this one.
func other(peer net.Addr) (from netip.Addr, counts bool) {
	a, err := netip.ParseAddrPort(peer.String())
	from = a.Addr().Unmap()
	return from, err == nil && !from.IsLoopback()
}

// lingerTimeout bounds how long the rest of a refused request is read.
const lingerTimeout = 5 * time.Second

// fairConn is a connection that may count, and that can be closed without losing the last answer.
type fairConn struct {
	net.Conn
	of     *fair
	from   netip.Addr
	counts bool
	once   sync.Once
	unread atomic.Bool // the peer may still be sending
}

// linger has the rest of a request read and discarded when its connection closes. Closing a socket with unread bytes
// resets it, and a reset discards the answer that the client has not read yet.
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
			c.of.open.Remove(c.from)
		}
	})
	return c.Conn.Close()
}
