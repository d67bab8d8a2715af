package h2

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/net/http2"

	"antirobot/proxy/h1"
	"antirobot/proxy/streams"
)

// guarded is a connection whose frames are counted as they arrive, before anything processes them. http2.Server bounds what
// it keeps; but frames that it discards at once cost it time, and it has no bound on those.
type guarded struct {
	net.Conn
	r      *bufio.Reader
	out    *batch
	m      *serverMetrics
	blocks int         // CONTINUATION frames left of the current header
	mostOf int         // of one header
	answer sent        // the frames that go out
	over   atomic.Bool // too many: nothing more is read

	resets, control streams.Allowance // http2.Server writes and reads at the same time, and resets are counted both ways

	first  func()      // called before the first byte is read, when http2.Server knows the connection; nil afterwards
	print  fingerprint // not written any more once its first request is handed over
	skip   int         // bytes until the next frame's header
	within bool        // they are those of a frame that head describes, and print wants
	have   int         // bytes of head
	head   [frameHead]byte
}

const (
	frameHead  = 9
	readBuffer = 4 << 10

	continuations = 32 // of a header, beside those that its largest size needs in frames of 16 KiB
)

// overTLS is a guarded connection whose handshake http2.Server inspects; without the method it would be taken for plain
// text.
type overTLS struct {
	*guarded
	tls *tls.Conn
}

// ConnectionState lets http2.Server see the handshake.
func (c overTLS) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// guard counts the frames of a connection. The second result is what to read them from, and to write to.
func guard(nc net.Conn, cfg *Config, m *serverMetrics, trusted bool, limits *h1.Config) (*guarded, net.Conn) {
	g := &guarded{
		Conn: nc, r: bufio.NewReaderSize(nc, readBuffer), out: newBatch(nc, limits.WriteTimeout), m: m, skip: len(http2.ClientPreface),
	}
	g.mostOf = continuations + int(limits.MaxHeaderBytes/(16<<10))
	if !trusted { // a balancer carries many clients
		g.resets.Most, g.control.Most = cfg.MaxResets, cfg.MaxControlFrames
	}
	if t, ok := nc.(*tls.Conn); ok {
		return g, overTLS{g, t}
	}
	return g, g
}

// Read implements net.Conn.
func (g *guarded) Read(p []byte) (int, error) {
	if g.first != nil {
		g.first()
		g.first = nil
	}
	n, err := g.r.Read(p)
	if g.over.Load() || !g.count(p[:n]) {
		g.over.Store(true)
		g.out.hurry()
		return 0, http2.ConnectionError(http2.ErrCodeEnhanceYourCalm) // http2.Server says GOAWAY with it, and reads no more
	}
	return n, err
}

// Write implements net.Conn.
func (g *guarded) Write(p []byte) (int, error) {
	g.answer.take(p, g.answered)
	return g.out.Write(p)
}

// SetWriteDeadline implements net.Conn; what is sent has deadlines of its own.
func (g *guarded) SetWriteDeadline(time.Time) error { return nil }

// Close implements net.Conn.
func (g *guarded) Close() error {
	g.out.close()
	return g.Conn.Close()
}

// count reads the headers of the frames in p, and reports false if too many of them carry nothing.
func (g *guarded) count(p []byte) bool {
	for len(p) > 0 {
		if g.skip > 0 {
			p = p[g.pass(p):]
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
		if g.within = !g.print.done; g.within && g.skip == 0 {
			g.ended()
		}
	}
	return true
}

// pass skips what p has of a frame's payload, and returns how much that is.
func (g *guarded) pass(p []byte) int {
	n := min(g.skip, len(p))
	g.skip -= n
	if g.within {
		g.print.take(p[:n])
		if g.skip == 0 {
			g.ended()
		}
	}
	return n
}

// ended hands the frame that has just ended to the fingerprint.
func (g *guarded) ended() {
	g.print.frame(http2.FrameType(g.head[3]), http2.Flags(g.head[4]), binary.BigEndian.Uint32(g.head[5:])&(1<<31-1))
	g.within = false
}

// frame counts one.
func (g *guarded) frame(t http2.FrameType, flags http2.Flags, size int) bool {
	switch t {
	case http2.FrameRSTStream:
		return g.countReset()
	case http2.FrameHeaders:
		g.blocks = g.mostOf
		return true // each needs a stream
	case http2.FrameWindowUpdate:
		return true // as many as there is data for; one costs less than its bytes
	case http2.FrameContinuation:
		if g.blocks--; g.blocks < 0 {
			g.m.continuations.Inc()
			return false
		}
		return size > 0 || g.countControl()
	case http2.FrameData:
		if size > 0 || flags.Has(http2.FlagDataEndStream) {
			return true
		}
	}
	return g.countControl()
}

// answered counts a reset that goes out. A client that makes mistakes on purpose takes its requests back by them as well as by
// resets of its own (CVE-2025-8671).
func (g *guarded) answered(code http2.ErrCode) {
	switch code {
	case http2.ErrCodeProtocol, http2.ErrCodeFlowControl, http2.ErrCodeStreamClosed:
		if !g.over.Load() && !g.countReset() {
			g.over.Store(true)
		}
	}
}

// countReset counts a request that is taken back.
func (g *guarded) countReset() bool { return g.counted(&g.resets, g.m.resets) }

// countControl counts a frame that carries nothing.
func (g *guarded) countControl() bool { return g.counted(&g.control, g.m.control) }

func (g *guarded) counted(a *streams.Allowance, tooMany *metrics.Counter) bool {
	if a.Take() {
		return true
	}
	tooMany.Inc()
	return false
}
