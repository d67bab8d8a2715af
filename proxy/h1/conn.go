package h1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1/hello"
	"antirobot/proxy/h1/wire"
	"antirobot/proxy/socket"
)

const (
	idle int32 = iota // between requests: may be closed at any time
	active
	closed
)

const (
	readerSize = 4 << 10  // the cost of an idle connection
	outSize    = 16 << 10 // larger answers use writev
	keptHead   = 16 << 10 // larger buffers are not kept
)

// outBuffers are lent while a connection answers, so that idle ones cost little.
var outBuffers = sync.Pool{New: func() any { b := make([]byte, 0, outSize+1024); return &b }}

var past = time.Unix(1, 0)

// conn is one client connection, served by one goroutine; during an upload a second one reads (upload.go). It is
// reused.
type conn struct {
	srv  *Server
	cfg  *Config
	opts *ListenerOptions

	sock  net.Conn
	nc    net.Conn // or TLS over it
	br    *bufio.Reader
	state atomic.Int32

	id       uint64
	requests uint64
	peer     netip.Addr
	trusted  bool // a balancer holds the socket
	counted  bool // in srv.perAddr, under counts
	counts   netip.Addr
	ja4      []byte        // nil: none
	client   []byte        // from its certificate; nil: none
	behind   time.Duration // see hello.Paced

	readBy time.Time // the deadline that is set
	headBy time.Time // of the head; zero: none awaited
	inBody bool      // reads have the rolling deadline of bodies

	keep    bool // another request may follow
	linger  bool // let the client read the answer before closing
	abort   bool // close without a clean end
	reset   bool // with a TCP reset
	out     output
	watched watch
	pump    pump

	h   wire.Head
	dec wire.Chunks
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

func (c *conn) end() {
	c.br.Reset(nil)
	c.sock, c.nc, c.opts = nil, nil, nil
	c.watched.reset(nil)
	c.pump.begin(nil)
	c.h.Raw = c.h.Raw[:0]
}

func (c *conn) closeIfIdle() {
	if c.state.CompareAndSwap(idle, closed) {
		_ = c.sock.Close()
	}
}

// cut is for Shutdown, which closes the socket.
func (c *conn) cut() net.Conn {
	c.state.Store(closed)
	return c.sock
}

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
			_ = c.nc.Close() // shutting down, or the client has left
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

// await waits for the first byte of a request, and skips one empty line, which some clients send after a body.
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

// armIdle prepares the wait for a request, for the whole wait or until lookAgain. It returns false during shutdown.
func (c *conn) armIdle(lazy bool) bool {
	timeout := c.cfg.IdleTimeout
	if c.requests == 0 {
		timeout = c.cfg.HeaderTimeout
	}
	least := timeout - timeout/8 // reusing a slightly earlier deadline saves a call
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

func (c *conn) readRequest() error {
	c.h.Reset()
	first, _ := c.br.Peek(1)
	if !wire.StartsToken(first[0]) {
		return wire.BadLine // answer without waiting for the end of a head
	}
	var err error
	c.h.Raw, err = wire.ReadHead(c.br, c, c.h.Raw[:0], wire.LineRules{Max: int(c.cfg.MaxHeaderBytes)})
	if err != nil {
		return err
	}
	return c.h.ParseRequest(c.cfg.maxTarget(), c.cfg.MaxHeaderFields)
}

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
		if err != nil && err != io.EOF { //nolint:errorlint // bare
			c.leaveBody()
		}
	}
	if !x.body.done {
		c.linger = true
	}
}

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

// armRead sets one deadline for a head, a rolling one for a body.
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
	if c.x.upload.stop.Load() { // after the deadline: the stopper sets the flag first
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

// greeter reads what precedes the first request: the PROXY header and the TLS handshake.
type greeter struct{ c *conn }

func (g greeter) greet() bool {
	c := g.c
	if !c.opts.ProxyProtocol && c.opts.TLS == nil {
		return true
	}
	if !c.state.CompareAndSwap(idle, active) {
		return false
	}
	c.setReadDeadline(time.Now().Add(c.cfg.HeaderTimeout))
	if c.opts.ProxyProtocol && !g.proxy() {
		return false
	}
	return c.opts.TLS == nil || g.tls()
}

// http2Preface begins HTTP/2 with prior knowledge.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func (g greeter) isHTTP2() bool {
	c := g.c
	if c.opts.HTTP2 == nil {
		return false
	}
	if t, ok := c.nc.(*tls.Conn); ok {
		return t.ConnectionState().NegotiatedProtocol == "h2"
	}
	if !c.opts.H2C {
		return false
	}
	c.setReadDeadline(time.Now().Add(c.cfg.HeaderTimeout))
	for n := 1; n <= len(http2Preface); n++ {
		b, err := c.br.Peek(n)
		if err != nil || b[n-1] != http2Preface[n-1] {
			return false
		}
	}
	return true
}

// serveHTTP2 hands the connection to the HTTP/2 front, which Shutdown drains.
func (g greeter) serveHTTP2() {
	c := g.c
	c.state.CompareAndSwap(idle, active)
	_ = c.nc.SetDeadline(time.Time{})
	nc := c.nc
	if n := c.br.Buffered(); n > 0 {
		nc = &hello.Early{Conn: c.nc, Bytes: c.takeBody(nil, n)}
	}
	if c.state.Load() != closed {
		c.opts.HTTP2.ServeConn(nc, c.origin())
	}
	_ = c.sock.Close()
}

func (c *conn) origin() Origin {
	return Origin{
		Peer: c.peer, Trusted: c.trusted, Counted: c.counted, TLS: c.opts.TLS != nil, JA4: c.ja4, Client: c.client,
		Behind: c.behind, AltSvc: c.opts.AltSvc,
	}
}

func (g greeter) proxy() bool {
	c := g.c
	addr, err := hello.ReadProxyHeader(c.br)
	if err != nil {
		c.srv.m.badProxyHeader.Inc()
		c.srv.log.Debug().Err(err).Stringer("peer", c.peer).Msg("no PROXY header")
		return false
	}
	if !addr.IsValid() {
		return true
	}
	c.peer = addr
	if c.opts.Trusted == nil || !c.opts.Trusted.Trusts(addr) {
		c.counts = addr
		if !c.srv.perAddr.Add(addr, c.cfg.MaxConnsPerAddr) {
			c.srv.m.limitAddr.Inc()
			return false
		}
		c.counted = true
		return c.opts.TLS == nil || c.srv.MayShakeHands(addr, true)
	}
	return true
}

func (g greeter) tls() bool {
	c := g.c
	under := socket.Direct(c.sock)
	if n := c.br.Buffered(); n > 0 { // the hello came with the PROXY header
		b, _ := c.br.Peek(n)
		under = &hello.Early{Conn: under, Bytes: append([]byte(nil), b...)}
	}
	alone := !c.opts.ProxyProtocol && !c.trusted // no balancer holds the socket
	pace := &hello.Paced{Conn: under, Done: !alone}
	t := tls.Server(pace, c.opts.TLS)
	_ = t.SetDeadline(time.Now().Add(c.cfg.HeaderTimeout))
	if err := t.HandshakeContext(hello.Context(context.Background(), &c.ja4, false)); err != nil {
		c.srv.m.limitHandshake.Inc()
		var plainText tls.RecordHeaderError
		if errors.As(err, &plainText) && plainText.Conn != nil && wire.StartsToken(plainText.RecordHeader[0]) {
			_, _ = c.sock.Write(appendPlainAnswer(nil, 400, false)) // plain HTTP on a TLS port
		}
		return false
	}
	if alone {
		c.behind = pace.Behind(c.sock)
	}
	// The write deadline stays: reading also writes, when a client updates its keys, and a client that reads nothing
	// would block it.
	_ = t.SetReadDeadline(time.Time{})
	c.readBy, c.out.by = time.Time{}, time.Time{}
	state := t.ConnectionState()
	switch state.NegotiatedProtocol {
	case "", "http/1.1", "h2":
	default:
		return false // an ACME challenge: the handshake was all
	}
	c.client = ClientName(&state)
	c.nc = t
	c.br.Reset(t)
	return true
}
