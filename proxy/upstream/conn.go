package upstream

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// The states of a Conn.
const (
	lent uint8 = iota
	idle
	closed
)

// Conn is a connection lent by a Group. It belongs to the caller until Release or Discard; exactly one of them must be
// called, and the Conn must not be used afterwards. Reading and writing may happen in two goroutines; all other methods
// except Close belong to one. Close only closes the socket, which wakes a blocked Read or Write; any goroutine may call it
// while the Conn is lent, and Discard is still due.
type Conn struct {
	net.Conn // *net.TCPConn, *net.UnixConn or *tls.Conn

	R *bufio.Reader // of Config.ReadBufferSize; nil unless lent

	a         *address
	sock      *sock // the socket below, which can be checked without waiting
	overTLS   bool
	reused    bool
	state     uint8
	readBy    time.Time   // the deadline of reading that is set; of a connection that is lent again, too
	writeBy   atomic.Bool // one of writing is set; who uploads and who halts the upload set it at once
	woken     atomic.Bool // Wake has been called
	born      int64       // on the Group's clock, nanoseconds
	idleSince int64
}

// Reused reports whether the connection has served a request before. A request that fails on such a connection before any
// byte of an answer may have reached a server that was just closing it.
func (c *Conn) Reused() bool { return c.reused }

// Ask gives the connection a request, which the next Read writes before it waits for the answer: that saves a check of a
// socket that can't have an answer yet. p is borrowed until that Read returns. If the socket is wrapped in TLS, or R holds
// bytes, the request is written at once.
func (c *Conn) Ask(p []byte) error {
	if c.overTLS || len(p) == 0 || c.R.Buffered() > 0 {
		_, err := c.Conn.Write(p)
		return err
	}
	c.sock.ask, c.sock.askErr = p, nil
	return nil
}

// Unasked returns the error that kept Read from writing the request of Ask; nil if it was written.
func (c *Conn) Unasked() error { return c.sock.askErr }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if c.sock.ask == nil {
		return c.Conn.Read(p)
	}
	return c.sock.askAndRead(p)
}

// SetReadDeadline implements net.Conn, as do the two methods below. One that is set stays when the connection is lent again:
// setting it costs a look at all of the runtime's timers, and the next caller often wants about the same (ReadBy).
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

// ReadBy returns the deadline of reading that is set, Wake left out.
func (c *Conn) ReadBy() time.Time { return c.readBy }

// Wake ends a Read with a timeout, from another goroutine.
func (c *Conn) Wake() {
	c.woken.Store(true)
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// Addr is the address as host:port or socket path, the form used in the metrics.
func (c *Conn) Addr() string { return c.a.name }

// Release returns the connection for the next request. The request must have been written to its end, the answer read to
// its end, and the answer must not have asked to close. Leftover bytes in R drop the connection.
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
		a.closeIdle() // Close may have emptied the shelves in between
	}
	g.givenBack()
}

// rest takes deadlines away that would hurt the next request. One of reading that has passed is no harm: who reads looks at
// ReadBy first.
func (c *Conn) rest() error {
	if !c.writeBy.Load() && !c.woken.Load() {
		return nil
	}
	err := c.SetDeadline(time.Time{})
	c.writeBy.Store(false)
	c.woken.Store(false)
	return err
}

// Discard closes the connection. A non-nil err says that the address is to blame (no answer, a broken one, a timeout) and
// counts against its health; pass nil if the client left, a tunnel ended, the answer asked to close, or a reused connection
// turned out to be stale. Calling it again does nothing.
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

// drop ends a lent connection.
func (c *Conn) drop() {
	g := c.a.g
	g.takeBuffer(c)
	c.a.active.Add(-1)
	c.a.open.Add(-1)
	c.shut()
	g.givenBack()
}

// shut closes the socket itself: crypto/tls would wait up to five seconds for a peer that does not read.
func (c *Conn) shut() {
	c.state = closed
	_ = c.sock.Conn.Close()
}

// Unbuffer returns R to its pool when a tunnel begins, so that it costs no buffer for the hours it may last. It
// returns a copy of what R had read ahead. Afterwards the connection can only be discarded.
func (c *Conn) Unbuffer() (early []byte) {
	if n := c.R.Buffered(); n > 0 {
		b, _ := c.R.Peek(n)
		early = append(early, b...)
	}
	c.a.g.takeBuffer(c)
	return early
}

// clean checks, without waiting, whether unrequested bytes have arrived or the peer has left.
func (c *Conn) clean() (ok, unasked bool) {
	if !c.overTLS {
		n, err := c.sock.peek()
		return n < 0 && err == nil, n > 0
	}
	// TLS 1.3 sends session tickets and key updates at any time. crypto/tls processes them in a Read that takes what the
	// kernel holds and gives up instead of waiting: anything it still returns was sent by the application.
	t := c.Conn.(*tls.Conn)
	c.sock.probing = true
	n, err := t.Read(c.sock.one[:])
	c.sock.probing = false
	// An incomplete record could hold an answer as well as a ticket.
	return n == 0 && errors.Is(err, errWouldWait) && c.sock.record.whole(), n > 0
}
