package h1

import (
	"math"
	"net"
	"time"
)

func (c *conn) borrowOut() {
	if c.outp == nil {
		c.outp = outBuffers.Get().(*[]byte)
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
	if cap(c.h.Raw) > keptHead {
		c.h.Raw = nil
	}
}

// write sends p, or adds it to what is waiting to be sent. p may be reused when it returns.
func (c *conn) write(p []byte) error {
	if len(c.out)+len(p) <= outSize {
		c.out = append(c.out, p...)
		return nil
	}
	return c.send(p, nil)
}

// flush sends what is waiting.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return c.werr
	}
	return c.send(nil, nil)
}

// send writes what is waiting, then p and tail, in one system call.
func (c *conn) send(p, tail []byte) error {
	if c.werr != nil {
		c.out = c.out[:0]
		return c.werr
	}
	var n int64
	var err error
	if len(p) == 0 || c.nc != c.sock { // TLS would make a record of each piece
		c.out = append(append(c.out, p...), tail...)
		var m int
		m, err = c.pump.Write(c.out)
		n = int64(m)
	} else {
		c.armWrite()
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

// armWrite sets the deadline of a write that may have to wait; one that is about as late stays.
func (c *conn) armWrite() {
	timeout := c.cfg.WriteTimeout
	now := clock()
	if left := c.writeBy.Sub(now); left > timeout || left < timeout-timeout/8 {
		c.writeBy = now.Add(timeout)
		_ = c.nc.SetWriteDeadline(c.writeBy)
	}
}

// shut closes the connection in the way that its last answer requires.
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

// lingerOn closes our side and discards what the client still sends. Otherwise the kernel answers unread bytes with a
// reset, which may overtake the answer. A balancer is let send all that it has: it takes a broken connection for a gateway that is
// down, and may let the visitor through.
func (c *conn) lingerOn() {
	if w, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
	if c.nc != c.sock {
		if w, ok := c.sock.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite()
		}
	}
	now := time.Now()
	left, by := c.cfg.LingerBytes-int64(c.br.Buffered()), now.Add(c.cfg.LingerTimeout)
	if c.trusted {
		left, by = math.MaxInt64, now.Add(max(c.cfg.LingerTimeout, c.cfg.WriteTimeout))
	}
	c.setReadDeadline(by)
	if c.state.Load() == closed {
		return
	}
	buf := streamBuffers.Get().(*streamBuffer)
	defer streamBuffers.Put(buf)
	for left > 0 {
		n, err := c.sock.Read(buf[:])
		if err != nil {
			return
		}
		left -= int64(n)
	}
}
