package h3

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"antirobot/proxy/h1"
	"antirobot/proxy/streams"
)

// Why a connection ends (RFC 9114 section 8.1).
const (
	noError       = quic.ApplicationErrorCode(http3.ErrCodeNoError)
	excessiveLoad = quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad)
)

// lastWords is how long a client that was asked to leave may take for what was sent to it last.
const lastWords = time.Second

// Heads of requests are read before there is anybody to serve them, and each may be as large as http.max_header_bytes.
const (
	headsAtOnce = 8 // of a connection; the others wait unread, within its window
	lateHeads   = 4 // of a connection that may have no end in time, within ten seconds; more: the connection ends
)

// ownStreams is how many streams beside those of requests a client may begin in ten seconds; more: the connection ends. HTTP/3 needs
// three, and some clients add one that means nothing.
const ownStreams = 50

// conn is one connection.
type conn struct {
	srv      *Server
	quic     *quic.Conn
	http     *http3.RawServerConn
	from     h1.Origin // Peer changes from request to request
	resets   streams.Allowance
	late     streams.Allowance
	own      streams.Allowance
	flood    sync.Once // ends it, for too many of either
	requests atomic.Int64
	underWay atomic.Int64
	room     chan struct{} // full while headsAtOnce heads are read

	mu      sync.Mutex
	control *quic.SendStream           // nil until the connection is served
	heads   map[quic.StreamID]struct{} // those that are read
	next    quic.StreamID              // above all that were accepted
	running int                        // handlers
	left    bool                       // it is to end
	idle    *time.Timer
}

func newConn(s *Server, qc *quic.Conn, from h1.Origin) *conn {
	c := &conn{srv: s, quic: qc, from: from, room: make(chan struct{}, headsAtOnce), heads: make(map[quic.StreamID]struct{}, headsAtOnce)}
	c.from.Own, c.late.Most = &c.underWay, lateHeads
	if !from.Trusted { // a balancer carries many clients
		c.resets.Most, c.own.Most = s.cfg.MaxResets, ownStreams
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = time.AfterFunc(s.deps.Front.Config().HeaderTimeout, c.expire) // until the first request
	return c
}

// serve returns when the connection has ended and all its handlers have.
func (c *conn) serve() {
	c.serveStreams()
	c.idle.Stop()
	_ = c.quic.CloseWithError(noError, "")
}

// serveStreams does what http3.Server does, but for the heads, which have no deadline there.
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

// accept reports whether a request may begin.
func (c *conn) accept(id quic.StreamID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return false
	}
	c.heads[id], c.next = struct{}{}, id+4
	return true
}

// serveStream reads the head of a request, and has it served.
func (c *conn) serveStream(str *quic.Stream) {
	by := time.Now().Add(c.srv.deps.Front.Config().HeaderTimeout)
	_ = str.SetReadDeadline(by)
	c.http.HandleRequestStream(str)
	switch {
	case !c.whole(str.StreamID()) || c.quic.Context().Err() != nil:
	case time.Now().Before(by): // it was taken back before anybody saw it, or the library refused it
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

// flooded ends a connection that makes the gateway work too much for nothing.
func (c *conn) flooded(of *metrics.Counter, why string) {
	c.flood.Do(func() {
		of.Inc()
		go c.quic.CloseWithError(excessiveLoad, why)
	})
}

// whole notes that a head is read no more, and reports whether it was until now.
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

// expire ends a connection on which nothing has happened for long. Its client is told so first, as long as it may have sent a request
// meanwhile: that is refused then, by which the client knows that nobody has seen it, and asks again on another connection.
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

// close ends the connection.
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

// rest sets when a connection without requests ends. The caller holds mu.
func (c *conn) rest() {
	if c.left {
		c.idle.Reset(lastWords)
		return
	}
	c.idle.Reset(c.srv.deps.Front.Config().IdleTimeout)
}

// leave asks the client to leave: requests in progress go on, new ones are refused.
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
	go func() { _, _ = control.Write(frame) }() // it waits for room in the client's window until the connection ends
}

// cut ends the connection, whatever is in progress.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close()
}

// ServeHTTP implements http.Handler for the requests of one connection.
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
	back := r.Context().Err() != nil // a short answer is written after the handler, which does not notice
	if err == nil && !back {
		return
	}
	if (back || errors.Is(err, h1.ErrClientGone)) && c.quic.Context().Err() == nil && !c.resets.Take() {
		c.flooded(c.srv.m.resets, "too many requests taken back")
	}
	panic(http.ErrAbortHandler) // resets the stream
}

// isReset reports whether a client has taken its request back.
func isReset(err error) bool {
	why, ok := errors.AsType[*http3.Error](err)
	return ok && why.Remote
}
