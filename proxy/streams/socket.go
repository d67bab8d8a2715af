package streams

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// socket is a WebSocket's stream as a net.Conn for the tunnel. Deadlines work as for sockets; a stream's own would end
// it. One goroutine may read and one write.
type socket struct {
	s      *stream
	pieces chan []byte   // closed at the end
	done   chan struct{} // closed by Close
	err    error         // valid once pieces is closed
	rest   []byte        // of the last piece
	timer  *time.Timer
	moved  chan struct{} // wakes Read for a new deadline

	readBy, writeBy atomic.Int64 // unix nanoseconds; 0: none
}

const socketPiece = 4 << 10

func newSocket(s *stream) *socket {
	c := &socket{s: s, pieces: make(chan []byte), done: make(chan struct{}), moved: make(chan struct{}, 1)}
	c.timer = time.NewTimer(time.Hour)
	go c.pump(s.r.Body)
	return c
}

// pump reads ahead by one piece. Of two buffers one is Read's.
func (c *socket) pump(body io.Reader) {
	defer close(c.pieces)
	var bufs [2][socketPiece]byte
	for i := 0; ; i ^= 1 {
		n, err := body.Read(bufs[i][:])
		if n > 0 {
			select {
			case c.pieces <- bufs[i][:n]:
			case <-c.done:
				return
			}
		}
		if err != nil {
			c.err = c.s.explain(err)
			return
		}
	}
}

func (c *socket) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		left := time.Hour
		if by := c.readBy.Load(); by != 0 {
			if left = time.Until(time.Unix(0, by)); left <= 0 {
				return 0, os.ErrDeadlineExceeded
			}
		}
		c.timer.Reset(left)
		select {
		case piece, ok := <-c.pieces:
			if !ok {
				return 0, c.err
			}
			c.rest = piece
		case <-c.moved:
		case <-c.timer.C:
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *socket) Write(p []byte) (int, error) {
	left := time.Hour
	if by := c.writeBy.Load(); by != 0 {
		if left = time.Until(time.Unix(0, by)); left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
	}
	s := c.s
	s.limit.begin(s.w, left)
	defer s.limit.end()
	n, err := s.w.Write(p)
	if err == nil {
		err = s.w.FlushError()
	}
	return n, s.wrote(err)
}

// Close implements net.Conn, and waits for pump.
func (c *socket) Close() error {
	close(c.done)
	c.s.StopBody()
	for range c.pieces { // discarded
	}
	c.timer.Stop()
	return nil
}

func (c *socket) SetReadDeadline(t time.Time) error {
	c.readBy.Store(nanoseconds(t))
	select {
	case c.moved <- struct{}{}:
	default: // it looks anyway
	}
	return nil
}

// SetWriteDeadline implements net.Conn. A passed deadline ends a write, and the stream.
func (c *socket) SetWriteDeadline(t time.Time) error {
	c.writeBy.Store(nanoseconds(t))
	if !t.IsZero() && !time.Now().Before(t) {
		c.s.limit.cut()
	}
	return nil
}

func (c *socket) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *socket) LocalAddr() net.Addr { return streamAddr{} }

func (c *socket) RemoteAddr() net.Addr { return streamAddr{} }

type streamAddr struct{}

func (streamAddr) Network() string { return "stream" }

func (streamAddr) String() string { return "stream" }

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
