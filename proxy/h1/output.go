package h1

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"antirobot/proxy/socket"
)

// output buffers what is sent to a client. Its buffer is lent while a request is answered.
type output struct {
	c       *conn
	lent    *[]byte
	buf     []byte
	iov     [3][]byte
	bufs    net.Buffers
	written int64
	by      time.Time // that is set
	err     error
}

func (o *output) borrow() {
	if o.lent == nil {
		o.lent = outBuffers.Get().(*[]byte)
		o.buf = (*o.lent)[:0]
	}
}

func (o *output) giveBack() {
	if o.lent == nil {
		return
	}
	if cap(o.buf) <= 4*outSize {
		*o.lent = o.buf[:0]
		outBuffers.Put(o.lent)
	}
	o.lent, o.buf = nil, nil
	if cap(o.c.h.Raw) > keptHead {
		o.c.h.Raw = nil
	}
}

// write sends or buffers p, which may be reused afterwards.
func (o *output) write(p []byte) error {
	if len(o.buf)+len(p) <= outSize {
		o.buf = append(o.buf, p...)
		return nil
	}
	return o.send(p, nil)
}

func (o *output) flush() error {
	if len(o.buf) == 0 {
		return o.err
	}
	return o.send(nil, nil)
}

// send writes the buffer, then p and tail, in one system call.
func (o *output) send(p, tail []byte) error {
	if o.err != nil {
		o.buf = o.buf[:0]
		return o.err
	}
	var n int64
	var err error
	if len(p) == 0 || o.c.nc != o.c.sock { // TLS would make a record of each
		o.buf = append(append(o.buf, p...), tail...)
		var m int
		m, err = o.c.pump.Write(o.buf)
		n = int64(m)
	} else {
		o.arm()
		o.iov = [3][]byte{o.buf, p, tail}
		o.bufs = o.iov[:]
		n, err = o.bufs.WriteTo(o.c.nc)
		o.iov = [3][]byte{}
	}
	o.buf = o.buf[:0]
	o.written += n
	if err != nil {
		if isTimeout(err) {
			o.c.srv.m.limitWrite.Inc()
		}
		o.err = ErrClientGone
		o.c.keep, o.c.abort = false, true
	}
	return o.err
}

func (o *output) arm() {
	timeout := o.c.cfg.WriteTimeout
	now := clock()
	if left := o.by.Sub(now); left > timeout || left < timeout-timeout/8 {
		o.by = now.Add(timeout)
		_ = o.c.nc.SetWriteDeadline(o.by)
	}
}

// close closes the connection as its last answer requires.
func (o *output) close() {
	if o.c.abort || o.err != nil { // without close_notify
		// A reset, so that an answer without a length does not look complete.
		if t, ok := o.c.sock.(*net.TCPConn); ok && (o.c.reset || o.err != nil) {
			_ = t.SetLinger(0)
		}
		_ = o.c.sock.Close()
		return
	}
	if o.c.linger || o.c.br.Buffered() > 0 || o.c.watched.readable() {
		o.linger()
	}
	_ = o.c.nc.Close()
}

// linger closes our side and discards input. Otherwise the kernel answers unread bytes with a reset, which may overtake
// the answer. A balancer may send everything: it could take a broken connection for a gateway that is down.
func (o *output) linger() {
	if w, ok := o.c.nc.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
	if o.c.nc != o.c.sock {
		if w, ok := o.c.sock.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite()
		}
	}
	now := time.Now()
	left, by := o.c.cfg.LingerBytes-int64(o.c.br.Buffered()), now.Add(o.c.cfg.LingerTimeout)
	if o.c.trusted {
		left, by = math.MaxInt64, now.Add(max(o.c.cfg.LingerTimeout, o.c.cfg.WriteTimeout))
	}
	o.c.setReadDeadline(by)
	if o.c.state.Load() == closed {
		return
	}
	buf := streamBuffers.Get().(*streamBuffer)
	defer streamBuffers.Put(buf)
	for left > 0 {
		n, err := o.c.sock.Read(buf[:])
		if err != nil {
			return
		}
		left -= int64(n)
	}
}

// pump serves a plain connection from within a single read of its socket, so that the poller stays armed between
// requests. Re-arming it costs a system call per request, to check what arrived in between.
//
// Only requests without a body whose head arrived in one piece are served here; for others the pump is left and
// re-entered. While it runs,
// nothing else may read from the socket or close it from within.
type pump struct {
	c    *conn
	rc   syscall.RawConn // nil: no raw access
	turn func(fd uintptr) (done bool)

	fd      int
	within  bool // reads go to the socket directly
	drained bool // later bytes wake the poller
	lazy    bool // the next wait starts without a look
	headIn  bool // a parsed request must be served outside
	ended   bool
}

// lookAgain is when a connection is checked whose wait began without a look: the end of a client that closed with its
// request woke the poller only once.
const lookAgain = 300 * time.Millisecond

var errWouldWait = errors.New("would wait")

func (p *pump) begin(nc net.Conn) {
	*p = pump{c: p.c, turn: p.turn}
	if sc, ok := nc.(syscall.Conn); ok {
		if rc, err := sc.SyscallConn(); err == nil {
			p.rc = rc
		}
	}
}

func (p *pump) Read(b []byte) (int, error) {
	if !p.within {
		return p.c.nc.Read(b)
	}
	for {
		n, errno := socket.RecvNow(p.fd, b, 0)
		switch {
		case errno == 0 && n > 0:
			p.drained = n < len(b)
			return n, nil
		case errno == 0:
			return 0, io.EOF
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return 0, errWouldWait
		default:
			return 0, os.NewSyscallError("read", errno)
		}
	}
}

// Write sends what the socket accepts at once directly, and the rest in the ordinary way.
func (p *pump) Write(b []byte) (n int, err error) {
	if p.within && len(b) > 0 {
		sent, errno := socket.SendNow(p.fd, b)
		if errno == 0 {
			n = sent
		}
		if n == len(b) {
			return n, nil
		}
	}
	p.c.out.arm()
	m, err := p.c.nc.Write(b[n:]) // errors show up here
	return n + m, err
}

// run serves requests until one must be served outside, or the connection ends (false).
func (p *pump) run() (ok bool) {
	c := p.c
	p.lazy, p.headIn, p.ended = false, false, false
	for {
		c.headBy, c.inBody = time.Time{}, false
		if !c.armIdle(false) {
			return false
		}
		p.within = true
		err := p.rc.Read(p.turn)
		p.within = false
		switch {
		case err == nil:
			return !p.ended
		case isTimeout(err) && p.lazy && c.state.Load() != closed:
			p.lazy = false
		default:
			if isTimeout(err) {
				c.srv.m.limitIdle.Inc()
			}
			return false
		}
	}
}

func (p *pump) serve(fd uintptr) (done bool) {
	c := p.c
	p.fd = int(fd)
	for {
		if _, err := c.br.Peek(1); err != nil {
			p.ended = err != errWouldWait //nolint:errorlint // bare
			return p.ended
		}
		if !c.state.CompareAndSwap(idle, active) {
			p.ended = true // closed by Shutdown
			return true
		}
		if !p.wholeHead() {
			return true
		}
		c.cfg = c.srv.cfg.Load()
		c.out.borrow()
		if err := c.readRequest(); err != nil {
			c.refuse(err)
		} else {
			if c.h.Upgrade || c.h.Chunked || c.h.Length > 0 {
				p.headIn = true
				return true
			}
			c.exchange()
		}
		c.out.giveBack()
		if !c.keep || c.br.Buffered() > 0 {
			return true
		}
		// The first wait includes a look, for clients that send a single request and close their side.
		p.lazy = p.drained && c.requests > 1
		c.headBy, c.inBody = time.Time{}, false
		if !c.armIdle(p.lazy) {
			p.ended = true
			return true
		}
		if p.lazy {
			return false
		}
	}
}

// wholeHead reports whether the reader holds a complete head without a leading empty line.
func (p *pump) wholeHead() bool {
	b, _ := p.c.br.Peek(p.c.br.Buffered())
	return b[0] != '\r' && bytes.Contains(b, headEnd)
}

var headEnd = []byte("\r\n\r\n")

// watch checks a client's socket without reading.
//
// A client that closed its side may have left, or wait half-closed. One that has left resets the connection after a
// write; so bytes written
// after its end without a reset prove that it is there. Until then it has a grace period.
type watch struct {
	rc      syscall.RawConn // nil: no socket
	look    func(fd uintptr)
	events  int16
	revents int16
	err     error

	endedAt      time.Time // end first seen
	endedWritten int64     // bytes written by then
	stays        bool      // accepted bytes after its end
}

// bind creates look once, so that looking does not allocate.
func (w *watch) bind() {
	w.look = func(fd uintptr) {
		w.revents, w.err = pollSocket(int(fd), w.events)
	}
}

func (w *watch) reset(nc net.Conn) {
	w.rc, w.endedAt, w.endedWritten, w.stays = nil, time.Time{}, 0, false
	if sc, ok := nc.(syscall.Conn); ok {
		if rc, err := sc.SyscallConn(); err == nil {
			w.rc = rc
		}
	}
}

func (w *watch) poll(events int16) (revents int16, ok bool) {
	if w.rc == nil {
		return 0, true
	}
	w.events, w.revents = events, 0
	if err := w.rc.Control(w.look); err != nil {
		return 0, false // closed under us
	}
	return w.revents, w.err == nil
}

// readable reports whether bytes or an end can be read.
func (w *watch) readable() bool {
	ev, ok := w.poll(unix.POLLIN)
	return ok && ev&unix.POLLIN != 0
}

// gone reports whether the client has left. written: bytes sent so far; sending: its end may be a body's.
func (w *watch) gone(now time.Time, written int64, sending bool, grace time.Duration) bool {
	ev, ok := w.poll(pollEnd)
	switch {
	case !ok || ev&(unix.POLLERR|unix.POLLHUP) != 0:
		return true
	case ev&pollEnd == 0 || sending || w.stays:
		return false
	case w.endedAt.IsZero():
		w.endedAt, w.endedWritten = now, written
		return false
	case written > w.endedWritten:
		w.stays = true
		return false
	}
	return now.Sub(w.endedAt) >= grace
}
