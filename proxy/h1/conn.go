package h1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1/wire"
)

// The states of a connection that Shutdown distinguishes.
const (
	idle int32 = iota // waits for the first byte of a request: may be closed at any time
	active
	closed
)

const (
	readerSize = 4 << 10  // of a client's reader: also what an idle connection costs
	outSize    = 16 << 10 // up to this size an answer's pieces are joined by copying, beyond it by writev
	keptHead   = 16 << 10 // a larger buffer for heads is not kept with the connection
)

// outBuffers are lent to connections while they answer, so that idle connections cost little.
var outBuffers = sync.Pool{New: func() any { b := make([]byte, 0, outSize+1024); return &b }}

// past is a deadline that has always passed.
var past = time.Unix(1, 0)

// conn is one client connection. One goroutine serves it; while a body is uploaded, a second one (upload.go) reads from
// it. It is reused for other connections.
type conn struct {
	srv  *Server
	cfg  *Config
	opts *ListenerOptions

	sock  net.Conn // the socket
	nc    net.Conn // sock, or TLS over it
	br    *bufio.Reader
	state atomic.Int32

	id       uint64
	requests uint64
	peer     netip.Addr // the client
	trusted  bool       // the socket's peer is a balancer
	counted  bool       // in srv.perAddr, under counts
	counts   netip.Addr
	ja4      []byte        // of the TLS handshake; nil without
	client   []byte        // name of the client's certificate; nil without
	behind   time.Duration // of its answers, see paced; 0: not known

	readBy time.Time // the read deadline that is set
	headBy time.Time // zero unless a head is awaited
	inBody bool      // fill and read work with the rolling deadline of bodies

	keep    bool // the connection may carry another request
	linger  bool // the client may still be sending: let it read the answer before the socket is closed
	abort   bool // the answer was cut short: close without a clean end
	reset   bool // and so that the client can't take it for the end
	out     output
	watched watch
	pump    pump

	h   wire.Head
	dec wire.Chunks // of the request's body
	x   Exchange
}

func newConn(s *Server) *conn {
	c := &conn{srv: s, br: bufio.NewReaderSize(nil, readerSize)}
	c.watched.bind()
	c.pump.c, c.out.c = c, c
	c.pump.turn = c.pump.serve
	c.x.c = c
	c.x.bind(s, c, &c.h)
	return c
}

// begin takes over an accepted socket.
func (c *conn) begin(nc net.Conn, peer netip.Addr, trusted, counted bool, o *ListenerOptions) {
	c.opts, c.sock, c.nc = o, nc, nc
	c.id = c.srv.lastID.Add(1)
	c.requests, c.out.written, c.out.err = 0, 0, nil
	c.peer, c.trusted, c.counted, c.counts, c.ja4, c.client, c.behind = peer, trusted, counted, peer, nil, nil, 0
	c.readBy, c.out.by, c.headBy = time.Time{}, time.Time{}, time.Time{}
	c.keep, c.linger, c.abort, c.reset, c.inBody = true, false, false, false, false
	c.br.Reset(&c.pump)
	c.watched.reset(nc)
	c.pump.begin(nc)
	c.state.Store(idle)
}

// end forgets the socket.
func (c *conn) end() {
	c.br.Reset(nil)
	c.sock, c.nc, c.opts = nil, nil, nil
	c.watched.reset(nil)
	c.pump.begin(nil)
	c.h.Raw = c.h.Raw[:0]
}

// closeIfIdle is for Shutdown.
func (c *conn) closeIfIdle() {
	if c.state.CompareAndSwap(idle, closed) {
		_ = c.sock.Close()
	}
}

// cut is called when Shutdown runs out of patience, which closes the socket.
func (c *conn) cut() net.Conn {
	c.state.Store(closed)
	return c.sock
}

// serve is the life of a connection.
func (c *conn) serve() {
	c.cfg = c.srv.cfg.Load()
	if g := (greeter{c}); !g.greet() {
		_ = c.sock.Close()
		return
	}
	if g := (greeter{c}); g.isHTTP2() {
		g.serveHTTP2()
		return
	}
	for c.keep {
		c.cfg = c.srv.cfg.Load()
		pumped := c.nc == c.sock && c.pump.rc != nil && c.br.Buffered() == 0
		if pumped && !c.pump.run() {
			_ = c.nc.Close() // nothing is due, or the client has left
			return
		}
		if !c.keep {
			break
		}
		if pumped && c.pump.headIn {
			c.exchange()
			c.out.giveBack()
			continue
		}
		if !c.await() {
			_ = c.nc.Close()
			return
		}
		c.out.borrow()
		if err := c.readRequest(); err != nil {
			c.refuse(err)
		} else {
			c.exchange()
		}
		c.out.giveBack()
	}
	c.out.close()
}

// await waits for the first byte of a request. It skips one empty line, which some clients send after a body.
func (c *conn) await() bool {
	c.headBy, c.inBody = time.Time{}, false
	for skipped := false; ; skipped = true {
		if c.br.Buffered() == 0 && !c.awaitByte() {
			return false
		}
		c.state.CompareAndSwap(idle, active)
		if c.state.Load() == closed {
			return false
		}
		first, _ := c.br.Peek(1)
		if first[0] != '\r' || skipped {
			return true
		}
		if c.br.Buffered() < 2 {
			c.headBy = clock().Add(c.cfg.HeaderTimeout)
			c.setReadDeadline(c.headBy)
		}
		if two, err := c.br.Peek(2); err != nil || two[1] != '\n' {
			return err == nil
		}
		_, _ = c.br.Discard(2)
		c.headBy = time.Time{}
	}
}

// armIdle prepares the wait for a request: either the whole wait, or until the next look is due. It returns false if the
// server is shutting down.
func (c *conn) armIdle(lazy bool) bool {
	timeout := c.cfg.IdleTimeout
	if c.requests == 0 {
		timeout = c.cfg.HeaderTimeout
	}
	least := timeout - timeout/8 // a slightly shorter deadline saves setting it anew for every request
	if lazy {
		timeout = min(timeout, lookAgain)
		least = timeout / 3
	}
	now := clock()
	if left := c.readBy.Sub(now); left > timeout || left < least {
		c.setReadDeadline(now.Add(timeout))
	}
	c.state.CompareAndSwap(active, idle)
	return !c.srv.draining.Load()
}

func (c *conn) awaitByte() bool {
	if !c.armIdle(false) {
		return false
	}
	if _, err := c.br.Peek(1); err != nil {
		if isTimeout(err) {
			c.srv.m.limitIdle.Inc()
		}
		return false
	}
	return true
}

// readRequest reads and parses one head.
func (c *conn) readRequest() error {
	c.h.Reset()
	first, _ := c.br.Peek(1)
	if !wire.StartsToken(first[0]) {
		return wire.BadLine // not HTTP: answer without waiting for the end of a head
	}
	var err error
	c.h.Raw, err = wire.ReadHead(c.br, c, c.h.Raw[:0], wire.LineRules{Max: int(c.cfg.MaxHeaderBytes)})
	if err != nil {
		return err
	}
	if err := c.h.ParseRequest(int(c.cfg.MaxTargetBytes), c.cfg.MaxHeaderFields); err != nil {
		return err
	}
	return c.h.TreatHigh(c.cfg.HighBytes, c.cfg.MaxTargetBytes)
}

// exchange serves one request that has been read.
func (c *conn) exchange() {
	c.requests++
	x := &c.x
	x.start(c.cfg, c.origin())
	if c.h.Chunked {
		c.dec.Reset(false, int(c.cfg.MaxHeaderBytes), c.cfg.MaxHeaderFields)
	}
	c.inBody = true
	c.keep = c.h.KeepsAlive() && (c.cfg.MaxRequestsPerConn == 0 || c.requests < uint64(c.cfg.MaxRequestsPerConn))
	c.srv.handle(x)
	c.finish()
	x.finish()
}

// finish leaves the connection ready for the next request, or for closing.
func (c *conn) finish() {
	x := &c.x
	if x.gone {
		c.Cut(true)
	}
	if err := c.out.flush(); err != nil {
		c.keep = false
	}
	for c.keep && !x.body.done {
		buf := streamBuffers.Get().(*streamBuffer)
		_, err := x.body.read(buf[:])
		streamBuffers.Put(buf)
		if err != nil && err != io.EOF { //nolint:errorlint // body.read returns it bare
			c.LeaveBody()
		}
	}
	if !x.body.done {
		c.linger = true
	}
}

// fill and read make conn the source of requests and their bodies.
func (c *conn) Fill() error {
	if err := c.armRead(); err != nil {
		return err
	}
	_, err := c.br.Peek(1)
	return err
}

func (c *conn) Read(p []byte) (int, error) {
	if c.br.Buffered() == 0 {
		if err := c.armRead(); err != nil {
			return 0, err
		}
	}
	return c.br.Read(p)
}

// armRead sets the deadline of a read that may block: for a head one deadline for the whole, for a body a rolling one.
func (c *conn) armRead() error {
	if !c.inBody {
		if c.headBy.IsZero() {
			c.headBy = clock().Add(c.cfg.HeaderTimeout)
		}
		if !c.readBy.Equal(c.headBy) {
			c.setReadDeadline(c.headBy)
		}
		return nil
	}
	timeout := c.cfg.ReadTimeout
	now := clock()
	if left := c.readBy.Sub(now); left > timeout || left < timeout-timeout/8 {
		c.setReadDeadline(now.Add(timeout))
	}
	if c.x.upload.stop.Load() { // after the deadline: whoever stops the upload sets the flag first
		return errStopped
	}
	return nil
}

func (c *conn) setReadDeadline(t time.Time) {
	c.readBy = t
	_ = c.nc.SetReadDeadline(t)
}

func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
