package admin

import (
	"net"
	"net/netip"
	"sync"

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
		if !counts {
			return c, nil
		}
		if f.take(from) {
			return &fairConn{Conn: c, of: f, from: from}, nil
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

// fairConn is a connection that counts.
type fairConn struct {
	net.Conn
	of   *fair
	from netip.Prefix
	once sync.Once
}

// Close implements net.Conn.
func (c *fairConn) Close() error {
	c.once.Do(func() { c.of.give(c.from) })
	return c.Conn.Close()
}
