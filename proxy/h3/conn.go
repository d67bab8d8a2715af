package h3

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

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

// conn is one connection. It has an http3.Server of its own, which can be told to send GOAWAY on this connection alone.
type conn struct {
	srv      *Server
	quic     *quic.Conn
	http     http3.Server
	from     h1.Origin // Peer changes from request to request
	resets   streams.Allowance
	requests atomic.Int64

	mu      sync.Mutex
	running int  // handlers
	left    bool // it is to end
	goAway  bool // and its client was asked to leave
	idle    *time.Timer
}

func newConn(s *Server, qc *quic.Conn, from h1.Origin) *conn {
	c := &conn{srv: s, quic: qc, from: from}
	if !from.Trusted { // a balancer carries many clients
		c.resets.Most = s.cfg.MaxResets
	}
	c.http.Handler, c.http.MaxHeaderBytes = c, streams.HeaderRoom(s.deps.Front.Config())
	c.idle = time.AfterFunc(s.deps.Front.Config().HeaderTimeout, c.expire) // until the first request
	return c
}

// serve returns when the connection has ended and all its handlers have.
func (c *conn) serve() {
	_ = c.http.ServeQUICConn(c.quic) // its errors are caused by clients
	c.idle.Stop()
	_ = c.quic.CloseWithError(noError, "")
}

// expire ends a connection on which nothing has happened for long.
func (c *conn) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == 0 {
		c.close()
	}
}

// close ends the connection. One whose client was asked to leave is ended by the library: it takes each failure to accept a
// stream after GOAWAY for a reason to say GOAWAY again, without a pause, for as long as the connection is closing. The caller holds mu.
func (c *conn) close() {
	if c.goAway {
		go c.http.Close()
		return
	}
	go c.quic.CloseWithError(noError, "")
}

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

// leave asks the client to leave: requests in progress go on, new ones are refused. Without any the connection ends.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return
	}
	c.left = true
	if c.running == 0 {
		c.close()
		return
	}
	c.goAway = true
	go func() { _ = c.http.Shutdown(c.quic.Context()) }()
}

// cut ends the connection, whatever is in progress.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close()
}

// ServeHTTP implements http.Handler for the requests of one connection.
func (c *conn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.enter()
	defer c.done()
	most := c.srv.deps.Front.Config().MaxRequestsPerConn
	if most > 0 && c.requests.Add(1) >= int64(most) {
		c.leave()
	}
	from := c.from
	from.Peer = h1.AddrOf(c.quic.RemoteAddr())
	err := c.srv.streams.Serve(w, r, from, false)
	if err == nil {
		return
	}
	if errors.Is(err, h1.ErrClientGone) && c.quic.Context().Err() == nil && !c.resets.Take() {
		c.srv.m.resets.Inc()
		go c.quic.CloseWithError(excessiveLoad, "too many requests taken back")
	}
	panic(http.ErrAbortHandler) // resets the stream
}

// isReset reports whether a client has taken its request back.
func isReset(err error) bool {
	why, ok := errors.AsType[*http3.Error](err)
	return ok && why.Remote
}
