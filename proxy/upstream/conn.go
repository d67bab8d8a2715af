package upstream

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"antirobot/proxy/socket"
)

const (
	lent uint8 = iota
	idle
	closed
)

// Conn is a connection checked out of a Group. The caller owns it until exactly one Release or Discard. One goroutine
// may read while another writes; other methods belong to one, except Close, which wakes a blocked Read or Write and
// leaves Discard due.
type Conn struct {
	net.Conn // TCP, unix or TLS

	R *bufio.Reader // nil unless checked out

	a         *address
	sock      *sock // can be checked without waiting
	overTLS   bool
	reused    bool
	state     uint8
	readBy    time.Time   // the read deadline that is set, kept after Release
	writeBy   atomic.Bool // a write deadline is set
	woken     atomic.Bool // by Wake
	born      int64       // on the Group's clock
	idleSince int64
}

// Reused reports whether the connection served a request before. The server may have been closing it.
func (c *Conn) Reused() bool { return c.reused }

// Ask gives the connection a request, which the next Read writes before it waits, to save a check for an early answer.
// p is borrowed until then. With TLS, or bytes in R, it is written at once.
func (c *Conn) Ask(p []byte) error {
	if c.overTLS || len(p) == 0 || c.R.Buffered() > 0 {
		_, err := c.Conn.Write(p)
		return err
	}
	c.sock.ask, c.sock.askErr = p, nil
	return nil
}

// Unasked returns the error of writing Ask's request.
func (c *Conn) Unasked() error { return c.sock.askErr }

func (c *Conn) Read(p []byte) (int, error) {
	if c.sock.ask == nil {
		return c.Conn.Read(p)
	}
	return c.sock.askAndRead(p)
}

// SetReadDeadline implements net.Conn. The deadline outlives Release: setting one is expensive, and the next caller
// often wants the same (ReadBy).
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeBy.Store(true)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.readBy = t
	c.writeBy.Store(true)
	return c.Conn.SetDeadline(t)
}

// ReadBy returns the read deadline that is set, except Wake's.
func (c *Conn) ReadBy() time.Time { return c.readBy }

// Wake makes a Read time out.
func (c *Conn) Wake() {
	c.woken.Store(true)
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// Addr is the host:port or socket path.
func (c *Conn) Addr() string { return c.a.name }

// Release returns the connection after a complete request and a complete answer that does not close. Leftover bytes
// drop it.
func (c *Conn) Release() {
	if c.state != lent {
		panic("BUG: upstream connection released twice")
	}
	a, g := c.a, c.a.g
	if a.fails.Load() != 0 {
		a.succeeded()
	}
	dirty := c.R != nil && c.R.Buffered() > 0
	if dirty {
		a.m.dirty.Inc()
		g.log.Warn().Str("service", g.cfg.Service).Str("upstream", a.name).
			Msg("upstream sent more than its answer; connection dropped")
	}
	now := g.now()
	tooOld := g.cfg.MaxAge > 0 && now-c.born > int64(g.cfg.MaxAge)
	if dirty || tooOld || c.R == nil || c.rest() != nil {
		c.drop()
		return
	}
	g.takeBuffer(c)
	c.sock.ask, c.sock.askErr = nil, nil
	c.state, c.reused, c.idleSince = idle, true, now
	a.active.Add(-1)
	if g.closed.Load() || !a.putIdle(c) {
		c.shut()
		a.open.Add(-1)
	} else if g.closed.Load() {
		a.closeIdle() // Close may have run in between
	}
	g.givenBack()
}

// rest clears deadlines that would hurt the next request. A passed read deadline does not: see ReadBy.
func (c *Conn) rest() error {
	if !c.writeBy.Load() && !c.woken.Load() {
		return nil
	}
	err := c.SetDeadline(time.Time{})
	c.writeBy.Store(false)
	c.woken.Store(false)
	return err
}

// Discard closes the connection. A non-nil err blames the address. Further calls do nothing.
func (c *Conn) Discard(err error) {
	switch c.state {
	case closed:
		return
	case idle:
		panic("BUG: upstream connection discarded after its release")
	}
	if err != nil {
		c.a.failed(err)
	}
	c.drop()
}

func (c *Conn) drop() {
	g := c.a.g
	g.takeBuffer(c)
	c.a.active.Add(-1)
	c.a.open.Add(-1)
	c.shut()
	g.givenBack()
}

// shut closes the socket: crypto/tls would wait five seconds for a peer that does not read.
func (c *Conn) shut() {
	c.state = closed
	_ = c.sock.Conn.Close()
}

// Unbuffer returns R to its pool for a tunnel, and a copy of its bytes. Afterwards only Discard is possible.
func (c *Conn) Unbuffer() (early []byte) {
	if n := c.R.Buffered(); n > 0 {
		b, _ := c.R.Peek(n)
		early = append(early, b...)
	}
	c.a.g.takeBuffer(c)
	return early
}

// clean checks whether unrequested bytes arrived or the peer has left.
func (c *Conn) clean() (ok, unasked bool) {
	if !c.overTLS {
		n, err := c.sock.peek()
		return n < 0 && err == nil, n > 0
	}
	// TLS 1.3 sends tickets and key updates at any time. A Read without waiting processes them; what it returns is
	// application data.
	t := c.Conn.(*tls.Conn)
	c.sock.probing = true
	n, err := t.Read(c.sock.one[:])
	c.sock.probing = false
	// An incomplete record could be an answer.
	return n == 0 && errors.Is(err, errWouldWait) && c.sock.record.whole(), n > 0
}

// sock is a socket that can be checked without waiting; the transport of TLS.
type sock struct {
	net.Conn
	raw     syscall.RawConn
	look    func(fd uintptr) // bound once
	turn    func(fd uintptr) (done bool)
	probing bool // Read does not wait

	record records // in the TLS stream

	ask    []byte // written by the next read; see Conn.Ask
	askErr error  // of that write

	// Arguments and results of recv and exchange.
	buf   []byte
	flags int
	n     int
	errno unix.Errno // 0: none
	one   [1]byte
}

func newSock(c net.Conn) (*sock, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.New("connection without a socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &sock{Conn: c, raw: raw}
	s.look, s.turn = s.recv, s.exchange
	return s, nil
}

func (s *sock) recv(fd uintptr) {
	for {
		s.n, s.errno = socket.RecvNow(int(fd), s.buf, s.flags)
		if s.errno != unix.EINTR {
			return
		}
	}
}

// now receives without waiting: n < 0 for nothing, 0 at the end.
func (s *sock) now(p []byte, flags int) (int, error) {
	if len(p) == 0 {
		return -1, nil
	}
	s.buf, s.flags = p, flags
	// Control, since Read fails after a passed deadline.
	err := s.raw.Control(s.look)
	s.buf = nil
	switch {
	case err != nil:
		return 0, err
	case s.errno == unix.EAGAIN:
		return -1, nil
	case s.errno != 0:
		return 0, s.errno
	}
	return s.n, nil
}

func (s *sock) peek() (int, error) { return s.now(s.one[:], unix.MSG_PEEK) }

// Read is the transport of TLS.
func (s *sock) Read(p []byte) (int, error) {
	if !s.probing {
		n, err := s.Conn.Read(p)
		s.record.pass(p[:n])
		return n, err
	}
	n, err := s.now(p, 0)
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, errWouldWait
	case n == 0:
		return 0, io.EOF
	}
	s.record.pass(p[:n])
	return n, nil
}

// askAndRead arms the poller, writes the pending request and waits for bytes: one system call less than a write and a
// read.
func (s *sock) askAndRead(p []byte) (int, error) {
	s.buf, s.flags = p, 0
	err := s.raw.Read(s.turn)
	rest := s.ask
	s.buf, s.ask = nil, nil
	if s.askErr != nil {
		return 0, s.askErr
	}
	if len(rest) > 0 { // the buffer took only a part, or the deadline had passed
		if _, s.askErr = s.Conn.Write(rest); s.askErr != nil {
			return 0, s.askErr
		}
		if err == nil {
			return s.Conn.Read(p)
		}
	}
	switch {
	case err != nil:
		return 0, err
	case s.errno != 0:
		return 0, os.NewSyscallError("read", s.errno)
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// exchange is called with the poller armed: to write, then when bytes may have come.
func (s *sock) exchange(fd uintptr) (done bool) {
	if len(s.ask) > 0 {
		n, errno := socket.SendNow(int(fd), s.ask)
		if errno == unix.EAGAIN || errno == unix.EINTR {
			return true
		}
		if errno != 0 {
			s.askErr = os.NewSyscallError("write", errno)
			return true
		}
		s.ask = s.ask[n:]
		return len(s.ask) > 0
	}
	s.recv(fd)
	return s.errno != unix.EAGAIN
}

// records tracks TLS record boundaries (RFC 8446, section 5.1).
type records struct {
	header [5]byte
	have   int // of the header
	body   int // left of the record
}

// pass notes bytes of the stream.
func (r *records) pass(p []byte) {
	for len(p) > 0 {
		if r.body > 0 {
			n := min(r.body, len(p))
			r.body -= n
			p = p[n:]
			continue
		}
		n := copy(r.header[r.have:], p)
		r.have += n
		p = p[n:]
		if r.have == len(r.header) {
			r.body, r.have = int(r.header[3])<<8|int(r.header[4]), 0
		}
	}
}

func (r *records) whole() bool { return r.have == 0 && r.body == 0 }
