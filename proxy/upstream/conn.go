package upstream

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"
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

// Read implements net.Conn.
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
