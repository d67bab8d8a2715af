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

// pump serves a plain connection from within a single read of its socket: wait, read a head, answer, wait again. The poller
// stays armed from one request to the next. An ordinary loop of reads re-arms it for each request, and so must check every
// time whether something arrived in between; almost always nothing has, and the check costs a system call.
//
// Only requests without a body whose head arrived in one piece are served here, as they need no further read; for anything
// else the pump is left, and re-entered afterwards. While it runs, nothing else may read from the socket or close it from
// within (both would wait for the pump).
type pump struct {
	c    *conn
	rc   syscall.RawConn              // nil: the socket can't be taken over
	turn func(fd uintptr) (done bool) // p.serve, bound once

	fd      int
	within  bool // the source of the connection's reader is the socket itself
	drained bool // by the last read: anything that comes later wakes the poller
	lazy    bool // the next wait starts without a look
	headIn  bool // a request has been parsed that must be served outside
	ended   bool // the connection has ended
}

// lookAgain is how long after an answer a connection is checked whose wait started without a look: a client that closed its
// side together with its request woke the poller only once.
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

// Read is the source of the connection's reader.
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

// Write sends to the client: what the socket accepts at once directly, and the rest in the ordinary way.
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
	m, err := p.c.nc.Write(b[n:]) // any error of the socket shows up here
	return n + m, err
}

// run serves requests until one must be served outside, the connection ends (then ok is false) or must be closed.
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
			p.lazy = false // now with a look, and with all the time that an idle connection has
		default:
			if isTimeout(err) {
				c.srv.m.limitIdle.Inc()
			}
			return false
		}
	}
}

// serve is called when bytes may have come.
func (p *pump) serve(fd uintptr) (done bool) {
	c := p.c
	p.fd = int(fd) //nolint:gosec // a descriptor is small
	for {
		if _, err := c.br.Peek(1); err != nil {
			p.ended = err != errWouldWait //nolint:errorlint // Read returns it bare
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
		// The first wait includes a look: a client that sends a single request and closes its side must not wait for us.
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

// wholeHead reports whether the reader holds a complete head. One that starts with an empty line is left to await.
func (p *pump) wholeHead() bool {
	b, _ := p.c.br.Peek(p.c.br.Buffered())
	return b[0] != '\r' && bytes.Contains(b, headEnd)
}

var headEnd = []byte("\r\n\r\n")
