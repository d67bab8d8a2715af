package h3

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for linkname

	"github.com/VictoriaMetrics/metrics"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	frames "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/quic-go/quic-go/quicvarint"

	"antirobot/proxy/h1"
	"antirobot/proxy/streams"
)

// Error codes (RFC 9114 section 8.1).
const (
	noError       = quic.ApplicationErrorCode(http3.ErrCodeNoError)
	excessiveLoad = quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad)
)

// lastWords bounds the delivery of the last answers after GOAWAY.
const lastWords = time.Second

// Bounds on heads in progress, each of up to http.max_header_bytes.
const (
	headsAtOnce = 8 // per connection; others wait unread
	lateHeads   = 4 // incomplete heads per connection in ten seconds
)

// ownStreams bounds the streams other than requests that a client opens in ten seconds. HTTP/3 needs three.
const ownStreams = 50

type conn struct {
	srv      *Server
	quic     *quic.Conn
	http     *http3.RawServerConn
	from     h1.Origin // Peer changes from request to request
	resets   streams.Allowance
	late     streams.Allowance
	own      streams.Allowance
	flood    sync.Once // ends the connection
	requests atomic.Int64
	underWay atomic.Int64
	room     chan struct{} // full while headsAtOnce heads are read

	mu      sync.Mutex
	control *quic.SendStream           // nil until served
	heads   map[quic.StreamID]struct{} // being read
	next    quic.StreamID              // above all accepted
	running int
	left    bool // ending
	idle    *time.Timer
}

func newConn(s *Server, qc *quic.Conn, from h1.Origin) *conn {
	c := &conn{
		srv: s, quic: qc, from: from, room: make(chan struct{}, headsAtOnce),
		heads: make(map[quic.StreamID]struct{}, headsAtOnce),
	}
	c.from.Own, c.late.Most = &c.underWay, lateHeads
	if !from.Trusted { // a balancer carries many clients
		c.resets.Most, c.own.Most = s.cfg.MaxResets, ownStreams
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = time.AfterFunc(s.deps.Front.Config().HeaderTimeout, c.expire) // until the first request
	return c
}

func (c *conn) serve() {
	c.serveStreams()
	c.idle.Stop()
	_ = c.quic.CloseWithError(noError, "")
}

// serveStreams is http3.Server's loop with deadlines for heads.
func (c *conn) serveStreams() {
	own := &http3.Server{Handler: c, MaxHeaderBytes: streams.HeaderRoom(c.srv.deps.Front.Config())}
	raw, control, err := newRawServerConn(own, c.quic)
	if err != nil {
		return
	}
	c.http = raw
	c.mu.Lock()
	c.control = control
	c.mu.Unlock()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		for {
			str, err := c.quic.AcceptUniStream(context.Background())
			if err != nil {
				return
			}
			if !c.own.Take() {
				c.flooded(c.srv.m.streams, "too many streams that are no requests")
				return
			}
			go c.http.HandleUnidirectionalStream(str)
		}
	})
	for {
		str, err := c.quic.AcceptStream(context.Background()) // until the connection has ended
		if err != nil {
			return
		}
		if !c.accept(str.StreamID()) {
			str.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestRejected))
			str.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestRejected))
			continue
		}
		select {
		case c.room <- struct{}{}:
			running.Go(func() { c.serveStream(str) })
		case <-c.quic.Context().Done():
			return
		}
	}
}

func (c *conn) accept(id quic.StreamID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return false
	}
	c.heads[id], c.next = struct{}{}, id+4
	return true
}

func (c *conn) serveStream(str *quic.Stream) {
	by := time.Now().Add(c.srv.deps.Front.Config().HeaderTimeout)
	_ = str.SetReadDeadline(by)
	c.http.HandleRequestStream(str)
	switch {
	case !c.whole(str.StreamID()) || c.quic.Context().Err() != nil:
	case time.Now().Before(by): // reset, or refused by the library
		if !c.resets.Take() {
			c.flooded(c.srv.m.resets, "too many requests taken back")
		}
	default:
		c.srv.m.late.Inc()
		if !c.late.Take() {
			c.flooded(c.srv.m.heads, "too many heads without an end")
		}
	}
}

func (c *conn) flooded(of *metrics.Counter, why string) {
	c.flood.Do(func() {
		of.Inc()
		go c.quic.CloseWithError(excessiveLoad, why)
	})
}

// whole notes that a head is complete; false: it already was.
func (c *conn) whole(id quic.StreamID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, was := c.heads[id]
	if was {
		delete(c.heads, id)
		<-c.room
	}
	return was
}

// expire ends an idle connection, after GOAWAY: a request sent meanwhile is refused as unprocessed, and the client
// retries it elsewhere.
func (c *conn) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.running > 0:
	case c.left:
		c.close()
	default:
		c.sayGoodbye()
	}
}

func (c *conn) close() { go c.quic.CloseWithError(noError, "") }

func (c *conn) enter() {
	c.srv.m.openStreams.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
}

func (c *conn) done() {
	c.srv.m.openStreams.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running == 0 {
		c.rest()
	}
}

// rest arms the end of a connection without requests. The caller holds mu.
func (c *conn) rest() {
	if c.left {
		c.idle.Reset(lastWords)
		return
	}
	c.idle.Reset(c.srv.deps.Front.Config().IdleTimeout)
}

// leave sends GOAWAY: requests in progress continue.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left {
		c.sayGoodbye()
	}
}

// sayGoodbye sends GOAWAY. The caller holds mu.
func (c *conn) sayGoodbye() {
	c.left = true
	if c.running == 0 {
		c.rest()
	}
	if c.control == nil {
		c.close()
		return
	}
	control, frame := c.control, goAway(c.next)
	go func() { _, _ = control.Write(frame) }() // may wait for the client's window
}

func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close()
}

// ServeHTTP serves the requests of one connection.
func (c *conn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if body, ok := r.Body.(interface{ StreamID() quic.StreamID }); ok {
		c.whole(body.StreamID())
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	c.enter()
	defer c.done()
	most := c.srv.deps.Front.Config().MaxRequestsPerConn
	if most > 0 && c.requests.Add(1) >= int64(most) {
		c.leave()
	}
	from := c.from
	from.Peer = h1.AddrOf(c.quic.RemoteAddr())
	err := c.srv.streams.Serve(w, r, from, false)
	back := r.Context().Err() != nil // the handler does not notice for short answers
	if err == nil && !back {
		return
	}
	if (back || errors.Is(err, h1.ErrClientGone)) && c.quic.Context().Err() == nil && !c.resets.Take() {
		c.flooded(c.srv.m.resets, "too many requests taken back")
	}
	panic(http.ErrAbortHandler) // resets the stream
}

func isReset(err error) bool {
	why, ok := errors.AsType[*http3.Error](err)
	return ok && why.Remote
}

// pieces counts the small pieces of streams, and HTTP/3 frames without content. quic-go keeps each piece out of order:
// some two hundred bytes for a tiny one, a packet's buffer for a small one. A client that withholds the first byte of a
// stream and sends the rest byte by byte multiplies its window. Only traces see pieces, so this is one. It belongs to
// its connection's goroutine, except conn and control.
type pieces struct {
	most int // in ten seconds
	left int
	till time.Time
	full int                  // bytes of longer pieces
	conn atomic.Pointer[conn] // nil before the end of the handshake

	control streams.Allowance // frames without content
}

const (
	tinyPiece    = 128     // bytes: no packet buffer
	smallPiece   = 512     // costs several times its length
	smallCounts  = 4       // tiny ones that cost as much as a small one
	fullPerPiece = 512     // longer bytes that allow a tiny one: every write ends with a short piece
	fullKept     = 2 << 20 // of those bytes
	piecesWindow = 10 * time.Second
)

// tracer is a quic.Config's.
func tracer(ctx context.Context, _ bool, _ quic.ConnectionID) qlogwriter.Trace {
	if h, _ := ctx.Value(handshakeKey{}).(*handshake); h != nil && (h.pieces.most > 0 || h.pieces.control.Most > 0) {
		return &h.pieces
	}
	return nil
}

func (p *pieces) AddProducer() qlogwriter.Recorder { return p }

func (p *pieces) SupportsSchemas(schema string) bool {
	return schema == frames.EventSchema && p.control.Most > 0
}

func (p *pieces) Close() error { return nil }

func (p *pieces) RecordEvent(e qlogwriter.Event) {
	switch e := e.(type) {
	case qlog.PacketReceived:
		p.packet(&e)
	case frames.FrameParsed:
		if c := p.conn.Load(); c != nil && idle(&e) && !p.control.Take() {
			c.flooded(c.srv.m.control, "too many frames that carry nothing")
		}
	}
}

func (p *pieces) packet(e *qlog.PacketReceived) {
	for _, f := range e.Frames {
		if s, ok := f.Frame.(*qlog.StreamFrame); ok && p.most > 0 && !p.take(s) {
			if c := p.conn.Load(); c != nil {
				c.flooded(c.srv.m.pieces, "too many small pieces")
			}
			return
		}
	}
}

func idle(e *frames.FrameParsed) bool {
	switch e.Frame.Frame.(type) {
	case frames.HeadersFrame, frames.SettingsFrame:
		return false // one of each
	case frames.DataFrame:
		return e.Raw.PayloadLength == 0
	}
	return true
}

// take counts a piece; true: a flood.
func (p *pieces) take(s *qlog.StreamFrame) bool {
	switch {
	case s.Offset == 0 || s.Length == 0:
		return true // each needs a stream, or brings nothing
	case s.Length >= smallPiece:
		p.full = min(p.full+int(s.Length), fullKept)
		return true
	}
	counts := 1
	if s.Length >= tinyPiece {
		counts = smallCounts
	}
	if p.full >= counts*fullPerPiece {
		p.full -= counts * fullPerPiece
		return true
	}
	if p.left -= counts; p.left >= 0 {
		return true
	}
	now := time.Now()
	if now.Before(p.till) {
		return false
	}
	p.till, p.left = now.Add(piecesWindow), p.most-counts
	return true
}

// newRawServerConn is http3.Server's NewRawServerConn with the control stream, on which GOAWAY is sent: the library
// offers it to no caller that accepts streams itself. TestDrain detects changes.
//
//go:linkname newRawServerConn github.com/quic-go/quic-go/http3.(*Server).newRawServerConn
func newRawServerConn(s *http3.Server, conn *quic.Conn) (*http3.RawServerConn, *quic.SendStream, error)

// goAway refuses requests from this stream on (RFC 9114 section 7.2.6).
func goAway(from quic.StreamID) []byte {
	id := uint64(from)
	return quicvarint.Append([]byte{7, byte(quicvarint.Len(id))}, id)
}
