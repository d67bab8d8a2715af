package admin

import (
	"net"
	"net/netip"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/proxy/connlimit"
)

// fairShare is the part of all connections that one address may have, as a divisor: probes, scrapers and operators get the others.
const fairShare = 4

// fair is a listener on which no address, or /64 of IPv6, but this machine's has more than its share of the connections.
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
		peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
		from := peer.Addr().Unmap()
		if err != nil || from.IsLoopback() {
			return c, nil
		}
		if f.open.Add(from, f.most) {
			return &fairConn{Conn: c, of: f, from: from}, nil
		}
		f.refused.Inc()
		_ = c.Close()
	}
}

// fairConn is a connection that counts.
type fairConn struct {
	net.Conn
	of   *fair
	from netip.Addr
	once sync.Once
}

// Close implements net.Conn.
func (c *fairConn) Close() error {
	c.once.Do(func() { c.of.open.Remove(c.from) })
	return c.Conn.Close()
}
