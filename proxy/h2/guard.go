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

// guarded counts frames as they arrive. http2.Server bounds what it keeps, but not the frames that it discards.
type guarded struct {
	net.Conn
	r      *bufio.Reader
	out    *batch
	m      *serverMetrics
	blocks int         // CONTINUATION frames left in the header
	mostOf int         // per header
	answer sent        // outgoing frames
	over   atomic.Bool // flooded: nothing more is read

	resets, control streams.Allowance // resets are counted in both directions, concurrently

	first  func()      // called before the first read; nil afterwards
	print  fingerprint // complete once its first request is handed over
	skip   int         // to the next frame
	within bool        // within a frame that print wants
	have   int         // of head
	head   [frameHead]byte
}

const (
	frameHead  = 9
	readBuffer = 4 << 10

	continuations = 32 // beyond a header of the largest size in 16 KiB frames
)

// overTLS shows http2.Server the handshake.
type overTLS struct {
	*guarded
	tls *tls.Conn
}

// ConnectionState returns the handshake.
func (c overTLS) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// guard counts the frames of a connection; use the second result in its place.
func guard(nc net.Conn, cfg *Config, m *serverMetrics, trusted bool, limits *h1.Config) (*guarded, net.Conn) {
	g := &guarded{
		Conn: nc, r: bufio.NewReaderSize(nc, readBuffer), out: newBatch(nc, limits.WriteTimeout), m: m,
		skip: len(http2.ClientPreface),
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

func (g *guarded) Read(p []byte) (int, error) {
	if g.first != nil {
		g.first()
		g.first = nil
	}
	n, err := g.r.Read(p)
	if g.over.Load() || !g.count(p[:n]) {
		g.over.Store(true)
		g.out.hurry()
		return 0, http2.ConnectionError(http2.ErrCodeEnhanceYourCalm) // http2.Server sends GOAWAY
	}
	return n, err
}

func (g *guarded) Write(p []byte) (int, error) {
	g.answer.take(p, g.answered)
	return g.out.Write(p)
}

// SetWriteDeadline does nothing: batch sets deadlines.
func (g *guarded) SetWriteDeadline(time.Time) error { return nil }

func (g *guarded) Close() error {
	g.out.close()
	return g.Conn.Close()
}

// count parses the frames in p; false: a flood.
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

func (g *guarded) ended() {
	g.print.frame(http2.FrameType(g.head[3]), http2.Flags(g.head[4]), binary.BigEndian.Uint32(g.head[5:])&(1<<31-1))
	g.within = false
}

func (g *guarded) frame(t http2.FrameType, flags http2.Flags, size int) bool {
	switch t {
	case http2.FrameRSTStream:
		return g.countReset()
	case http2.FrameHeaders:
		g.blocks = g.mostOf
		return true // each needs a stream
	case http2.FrameWindowUpdate:
		return true // bounded by its data
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

// answered counts an outgoing reset: clients cause them by deliberate mistakes (CVE-2025-8671).
func (g *guarded) answered(code http2.ErrCode) {
	switch code {
	case http2.ErrCodeProtocol, http2.ErrCodeFlowControl, http2.ErrCodeStreamClosed:
		if !g.over.Load() && !g.countReset() {
			g.over.Store(true)
		}
	}
}

func (g *guarded) countReset() bool { return g.counted(&g.resets, g.m.resets) }

func (g *guarded) countControl() bool { return g.counted(&g.control, g.m.control) }

func (g *guarded) counted(a *streams.Allowance, tooMany *metrics.Counter) bool {
	if a.Take() {
		return true
	}
	tooMany.Inc()
	return false
}

// sent finds resets in outgoing frames, in pieces of any size. The zero value is ready.
type sent struct {
	skip int // to the next frame
	have int // of buf
	buf  [resetFrame]byte
	late [lateStreams]uint32 // reset streams, by number
}

const (
	resetFrame  = frameHead + 4
	lateStreams = 128
)

// take calls reset for each stream reset in p, once: frames that the client sent before it knew cause further resets.
func (s *sent) take(p []byte, reset func(http2.ErrCode)) {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.skip -= n
			p = p[n:]
			continue
		}
		n := copy(s.buf[s.have:s.want()], p)
		s.have += n
		p = p[n:]
		switch {
		case s.have < frameHead || s.have < s.want():
			continue
		case s.have == frameHead:
			s.skip = int(s.buf[0])<<16 | int(s.buf[1])<<8 | int(s.buf[2])
		default:
			if id := binary.BigEndian.Uint32(s.buf[5:]); s.first(id) {
				reset(http2.ErrCode(binary.BigEndian.Uint32(s.buf[frameHead:])))
			}
		}
		s.have = 0
	}
}

// want is how much of the frame is read: its header, or all of a reset.
func (s *sent) want() int {
	if s.have >= frameHead && http2.FrameType(s.buf[3]) == http2.FrameRSTStream {
		return resetFrame
	}
	return frameHead
}

// first reports whether a stream is reset for the first time.
func (s *sent) first(id uint32) bool {
	place := &s.late[id/2%lateStreams]
	if *place == id {
		return false
	}
	*place = id
	return true
}
