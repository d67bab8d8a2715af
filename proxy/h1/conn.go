package h1

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// The states of a connection that Shutdown tells apart.
const (
	idle int32 = iota // waits for the first byte of a request: may be closed at any time
	active
	closed
)

const (
	readerSize = 4 << 10  // of a client's reader: also what an idle connection costs
	outSize    = 16 << 10 // up to here an answer's pieces are joined by copying, beyond by writev
	keptHead   = 16 << 10 // a larger buffer for heads is not kept with the connection
)

// outBuffers are lent to connections while they answer, so that idle ones cost little.
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

	readBy  time.Time // the read deadline that is set
	writeBy time.Time // the write deadline that is set
	headBy  time.Time // zero unless a head is awaited
	inBody  bool      // fill and read work with the rolling deadline of bodies

	outp    *[]byte // lent; nil while idle
	out     []byte
	iov     [3][]byte
	bufs    net.Buffers
	written int64
	werr    error

	keep    bool // the connection may carry another request
	linger  bool // the client may still be sending: let it read the answer before the socket is closed
	abort   bool // the answer was cut short: close without a clean end
	reset   bool // and in a way that the client can't take for the end
	watched watch

	h head
	x Exchange
}

func newConn(s *Server) *conn {
	c := &conn{srv: s, br: bufio.NewReaderSize(nil, readerSize)}
	c.watched.bind()
	c.x.c = c
	c.x.leg.x = &c.x
	c.x.upload.x = &c.x
	c.x.upload.done = make(chan struct{}, 1)
	c.x.body.c = c
	return c
}

// begin takes over an accepted socket.
func (c *conn) begin(nc net.Conn, peer netip.Addr, trusted, counted bool, o *ListenerOptions) {
	c.opts, c.sock, c.nc = o, nc, nc
	c.id = c.srv.lastID.Add(1)
	c.requests, c.written, c.werr = 0, 0, nil
	c.peer, c.trusted, c.counted, c.counts = peer, trusted, counted, peer
	c.readBy, c.writeBy, c.headBy = time.Time{}, time.Time{}, time.Time{}
	c.keep, c.linger, c.abort, c.reset, c.inBody = true, false, false, false, false
	c.br.Reset(nc)
	c.watched.reset(nc)
	c.state.Store(idle)
}

// end forgets the socket.
func (c *conn) end() {
	c.br.Reset(nil)
	c.sock, c.nc, c.opts = nil, nil, nil
	c.watched.reset(nil)
	c.h.raw = c.h.raw[:0]
}

// closeIfIdle is for Shutdown.
func (c *conn) closeIfIdle() {
	if c.state.CompareAndSwap(idle, closed) {
		_ = c.sock.Close()
	}
}

// cut is for the end of Shutdown's patience.
func (c *conn) cut() {
	c.state.Store(closed)
	_ = c.sock.Close()
}

// serve is the life of a connection.
func (c *conn) serve() {
	c.cfg = c.srv.cfg.Load()
	if !c.greet() {
		_ = c.sock.Close()
		return
	}
	for c.keep {
		c.cfg = c.srv.cfg.Load()
		if !c.await() {
			_ = c.nc.Close() // nothing is due, or the client has left
			return
		}
		c.borrowOut()
		if err := c.readRequest(); err != nil {
			c.refuse(err)
		} else {
			c.exchange()
		}
		c.returnOut()
	}
	c.shut()
}

// greet reads what comes before HTTP: the PROXY header and the TLS handshake.
func (c *conn) greet() bool {
	if !c.opts.ProxyProtocol && c.opts.TLS == nil {
		return true
	}
	if !c.state.CompareAndSwap(idle, active) {
		return false
	}
	c.setReadDeadline(time.Now().Add(c.cfg.HeaderTimeout))
	if c.opts.ProxyProtocol && !c.greetProxy() {
		return false
	}
	return c.opts.TLS == nil || c.greetTLS()
}

func (c *conn) greetProxy() bool {
	addr, err := readProxyHeader(c.br)
	if err != nil {
		c.srv.m.badProxyHeader.Inc()
		c.srv.log.Debug().Err(err).Stringer("peer", c.peer).Msg("no PROXY header")
		return false
	}
	if !addr.IsValid() {
		return true
	}
	c.peer = addr
	if c.opts.Trusted == nil || !c.opts.Trusted(addr) {
		c.counts = addr
		if !c.srv.perAddr.add(addr, c.cfg.MaxConnsPerAddr) {
			c.srv.m.limitAddr.Inc()
			return false
		}
		c.counted = true
	}
	return true
}

func (c *conn) greetTLS() bool {
	under := c.sock
	if n := c.br.Buffered(); n > 0 { // the client's hello came together with the PROXY header
		b, _ := c.br.Peek(n)
		under = &bufferedConn{Conn: c.sock, early: append([]byte(nil), b...)}
	}
	t := tls.Server(under, c.opts.TLS)
	_ = t.SetDeadline(time.Now().Add(c.cfg.HeaderTimeout))
	if err := t.Handshake(); err != nil {
		c.srv.m.limitHandshake.Inc()
		var plainText tls.RecordHeaderError
		if errors.As(err, &plainText) && plainText.Conn != nil && classes[plainText.RecordHeader[0]]&isToken != 0 {
			_, _ = c.sock.Write(appendPlainAnswer(nil, 400, false)) // plain HTTP on a TLS port
		}
		return false
	}
	_ = t.SetDeadline(time.Time{})
	c.readBy, c.writeBy = time.Time{}, time.Time{}
	c.nc = t
	c.br.Reset(t)
	return true
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
			c.headBy = time.Now().Add(c.cfg.HeaderTimeout)
			c.setReadDeadline(c.headBy)
		}
		if two, err := c.br.Peek(2); err != nil || two[1] != '\n' {
			return err == nil
		}
		_, _ = c.br.Discard(2)
		c.headBy = time.Time{}
	}
}

func (c *conn) awaitByte() bool {
	timeout := c.cfg.IdleTimeout
	if c.requests == 0 {
		timeout = c.cfg.HeaderTimeout
	}
	now := time.Now()
	// A deadline that is an eighth short saves setting it anew for every request.
	if left := c.readBy.Sub(now); left > timeout || left < timeout-timeout/8 {
		c.setReadDeadline(now.Add(timeout))
	}
	c.state.CompareAndSwap(active, idle)
	if c.srv.draining.Load() {
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
	c.h.reset()
	first, _ := c.br.Peek(1)
	if classes[first[0]]&isToken == 0 {
		return badLine // not HTTP: say so without waiting for the end of a head
	}
	var err error
	c.h.raw, err = readHead(c.br, c, c.h.raw[:0], lineRules{
		max: int(c.cfg.MaxHeaderBytes), maxLine: int(c.cfg.MaxTargetBytes) + 64,
	})
	if err != nil {
		return err
	}
	return c.h.parseRequest(int(c.cfg.MaxTargetBytes), c.cfg.MaxHeaderFields)
}

// refuse answers what is no request that can be served, and closes the connection.
func (c *conn) refuse(err error) {
	c.keep = false
	why, ok := err.(refusal) //nolint:errorlint // it is never wrapped
	switch {
	case ok:
	case isTimeout(err):
		why = headTimeout
	default:
		return // the client left within its head
	}
	c.srv.m.refused[why].Inc()
	c.srv.log.Debug().Str("reason", refusals[why].name).Stringer("peer", c.peer).Uint64("conn", c.id).Msg("request refused")
	c.out = appendPlainAnswer(c.out, refusals[why].status, string(c.h.method) == "HEAD")
	_ = c.flush()
	c.linger = true
}

// appendPlainAnswer appends a whole answer that says no more than its status.
func appendPlainAnswer(dst []byte, status int, headOnly bool) []byte {
	text := fasthttp.StatusMessage(status)
	dst = appendStatusLine(dst, status, []byte(text))
	dst = append(dst, "Date: "...)
	dst = fasthttp.AppendHTTPDate(dst, time.Now())
	dst = append(dst, "\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n"...)
	if status == 405 {
		dst = append(dst, "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"...)
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(text)+1), 10)
	dst = append(dst, "\r\nConnection: close\r\n\r\n"...)
	if headOnly {
		return dst
	}
	dst = append(dst, text...)
	return append(dst, '\n')
}

// exchange serves one request that has been read.
func (c *conn) exchange() {
	c.requests++
	c.srv.m.requests.Inc()
	x := &c.x
	x.start()
	c.handle()
	if !x.answered && c.werr == nil && !x.gone {
		_ = x.Reply(x.fallback, nil, nil)
	}
	x.finish()
}

// handle runs the handler. A panic costs the connection, not the process.
func (c *conn) handle() {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		c.srv.m.panics.Inc()
		c.srv.log.Error().Interface("panic", r).Bytes("stack", debug.Stack()).Uint64("conn", c.id).Msg("handler panicked")
		c.x.afterPanic()
	}()
	c.srv.handler.ServeExchange(&c.x)
}

// fill and read make conn the source of requests and their bodies.
func (c *conn) fill() error {
	if err := c.armRead(); err != nil {
		return err
	}
	_, err := c.br.Peek(1)
	return err
}

func (c *conn) read(p []byte) (int, error) {
	if c.br.Buffered() == 0 {
		if err := c.armRead(); err != nil {
			return 0, err
		}
	}
	return c.br.Read(p)
}

// armRead sets the deadline of a read that may block: of a head one for the whole, of a body one that rolls.
func (c *conn) armRead() error {
	if !c.inBody {
		if c.headBy.IsZero() {
			c.headBy = time.Now().Add(c.cfg.HeaderTimeout)
		}
		if !c.readBy.Equal(c.headBy) {
			c.setReadDeadline(c.headBy)
		}
		return nil
	}
	timeout := c.cfg.ReadTimeout
	now := time.Now()
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

func (c *conn) borrowOut() {
	if c.outp == nil {
		c.outp = outBuffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
		c.out = (*c.outp)[:0]
	}
}

func (c *conn) returnOut() {
	if c.outp == nil {
		return
	}
	if cap(c.out) <= 4*outSize {
		*c.outp = c.out[:0]
		outBuffers.Put(c.outp)
	}
	c.outp, c.out = nil, nil
	if cap(c.h.raw) > keptHead {
		c.h.raw = nil
	}
}

// write sends p, or joins it with what waits to be sent. p may be reused when it returns.
func (c *conn) write(p []byte) error {
	if len(c.out)+len(p) <= outSize {
		c.out = append(c.out, p...)
		return nil
	}
	return c.send(p, nil)
}

// flush sends what waits.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return c.werr
	}
	return c.send(nil, nil)
}

// send writes what waits, then p and tail, in one system call.
func (c *conn) send(p, tail []byte) error {
	if c.werr != nil {
		c.out = c.out[:0]
		return c.werr
	}
	timeout := c.cfg.WriteTimeout
	now := time.Now()
	if left := c.writeBy.Sub(now); left > timeout || left < timeout-timeout/8 {
		c.writeBy = now.Add(timeout)
		_ = c.nc.SetWriteDeadline(c.writeBy)
	}
	var n int64
	var err error
	if len(p) == 0 || c.nc != c.sock { // TLS would make a record of each piece
		c.out = append(append(c.out, p...), tail...)
		var m int
		m, err = c.nc.Write(c.out)
		n = int64(m)
	} else {
		c.iov = [3][]byte{c.out, p, tail}
		c.bufs = c.iov[:]
		n, err = c.bufs.WriteTo(c.nc)
		c.iov = [3][]byte{}
	}
	c.out = c.out[:0]
	c.written += n
	if err != nil {
		if isTimeout(err) {
			c.srv.m.limitWrite.Inc()
		}
		c.werr = ErrClientGone
		c.keep, c.abort = false, true
	}
	return c.werr
}

// shut closes the connection the way its last answer asks for.
func (c *conn) shut() {
	if c.abort || c.werr != nil { // without TLS's goodbye
		// A reset, so that an answer without a length does not look complete.
		if t, ok := c.sock.(*net.TCPConn); ok && (c.reset || c.werr != nil) {
			_ = t.SetLinger(0)
		}
		_ = c.sock.Close()
		return
	}
	if c.linger || c.br.Buffered() > 0 || c.watched.readable() {
		c.lingerOn()
	}
	_ = c.nc.Close()
}

// lingerOn ends our side and throws away what the client still sends. Without it the kernel answers unread bytes with a
// reset, which may overtake the answer.
func (c *conn) lingerOn() {
	if w, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
	if c.nc != c.sock {
		if w, ok := c.sock.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite()
		}
	}
	c.setReadDeadline(time.Now().Add(c.cfg.LingerTimeout))
	if c.state.Load() == closed {
		return
	}
	buf := streamBuffers.Get().(*streamBuffer) //nolint:forcetypeassert // the pool holds nothing else
	defer streamBuffers.Put(buf)
	for left := c.cfg.LingerBytes - int64(c.br.Buffered()); left > 0; {
		n, err := c.sock.Read(buf[:])
		if err != nil {
			return
		}
		left -= int64(n)
	}
}

func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
