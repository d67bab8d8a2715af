package h1

import (
	"math"
	"net"
	"time"
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
