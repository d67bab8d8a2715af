package h2

import (
	"bufio"
	"crypto/tls"
	"net"
	"time"

	"golang.org/x/net/http2"
)

// guarded is a connection whose frames are counted as they arrive, before anything processes them. http2.Server bounds what
// it keeps; but frames that it discards at once cost it time, and it has no bound on those.
type guarded struct {
	net.Conn
	r       *bufio.Reader
	m       *serverMetrics
	resets  int // left in this window; below 0: too many
	control int
	most    struct{ resets, control int } // 0: no limit
	since   time.Time

	skip int // bytes until the next frame's header
	have int // bytes of head
	head [frameHead]byte
}

const (
	frameHead   = 9
	readBuffer  = 4 << 10
	floodWindow = 10 * time.Second
)

// overTLS is a guarded connection whose handshake http2.Server inspects; without the method it would be taken for plain
// text.
type overTLS struct {
	*guarded
	tls *tls.Conn
}

// ConnectionState lets http2.Server see the handshake.
func (c overTLS) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// guard counts the frames of a connection.
func guard(nc net.Conn, cfg *Config, m *serverMetrics, trusted bool) net.Conn {
	g := &guarded{Conn: nc, r: bufio.NewReaderSize(nc, readBuffer), m: m, skip: len(http2.ClientPreface)}
	if !trusted { // a balancer carries many clients
		g.most.resets, g.most.control = cfg.MaxResets, cfg.MaxControlFrames
	}
	if t, ok := nc.(*tls.Conn); ok {
		return overTLS{g, t}
	}
	return g
}

// Read implements net.Conn.
func (g *guarded) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if !g.count(p[:n]) {
		return 0, net.ErrClosed
	}
	return n, err //nolint:wrapcheck // it is the connection
}

// count reads the headers of the frames in p, and reports false if too many of them carry nothing.
func (g *guarded) count(p []byte) bool {
	for len(p) > 0 {
		if g.skip > 0 {
			n := min(g.skip, len(p))
			g.skip -= n
			p = p[n:]
			continue
		}
		n := copy(g.head[g.have:], p)
		g.have += n
		p = p[n:]
		if g.have < frameHead {
			return true
		}
		g.have = 0
		g.skip = int(g.head[0])<<16 | int(g.head[1])<<8 | int(g.head[2])
		if !g.frame(http2.FrameType(g.head[3]), http2.Flags(g.head[4]), g.skip) {
			return false
		}
	}
	return true
}

// frame counts one.
func (g *guarded) frame(t http2.FrameType, flags http2.Flags, size int) bool {
	switch t {
	case http2.FrameRSTStream:
		if g.most.resets == 0 || g.within(&g.resets) {
			return true
		}
		g.m.resets.Inc()
		return false
	case http2.FrameHeaders:
		return true // each needs a stream
	case http2.FrameWindowUpdate:
		return true // as many as there is data for; one costs less than its bytes
	case http2.FrameData, http2.FrameContinuation:
		if size > 0 || flags.Has(http2.FlagDataEndStream) {
			return true
		}
	}
	if g.most.control == 0 || g.within(&g.control) {
		return true
	}
	g.m.control.Inc()
	return false
}

// within takes one from what is left in this window.
func (g *guarded) within(left *int) bool {
	if *left--; *left >= 0 {
		return true
	}
	now := time.Now()
	if now.Sub(g.since) < floodWindow {
		return false
	}
	g.since, g.resets, g.control = now, g.most.resets, g.most.control
	*left--
	return *left >= 0
}
