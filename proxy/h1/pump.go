package h1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"antirobot/proxy/socket"

	"golang.org/x/sys/unix"
)

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
