package h1

import (
	"io"
	"net"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// Memory is a Client for servers of other protocols: the request's body is in memory, and answers are the gateway's
// own. Embed it and implement Reply.
type Memory struct {
	body []byte
}

// Give sets the body of the next request, borrowed until that is answered.
func (m *Memory) Give(body []byte) { m.body = body }

// ReadBody implements Client.
func (m *Memory) ReadBody(p []byte) (int, error) {
	if len(m.body) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.body)
	m.body = m.body[n:]
	return n, nil
}

// AwaitBody implements Client.
func (m *Memory) AwaitBody(time.Time) bool { return true }

// Trailers implements Client.
func (m *Memory) Trailers() []request.Field { return nil }

// StopBody implements Client.
func (m *Memory) StopBody() {}

// Continue implements Client.
func (m *Memory) Continue() error { return nil }

// Answer implements Client.
func (m *Memory) Answer(*Answer) error { return ErrClientGone }

// Write implements Client.
func (m *Memory) Write([]byte, bool) error { return ErrClientGone }

// Flush implements Client.
func (m *Memory) Flush() error { return nil }

// LastChunk implements Client.
func (m *Memory) LastChunk(wire.Trailers) {}

// End implements Client.
func (m *Memory) End() error { return nil }

// Cut implements Client.
func (m *Memory) Cut(bool) {}

// Tunnel implements Client.
func (m *Memory) Tunnel() (net.Conn, []byte) { return nil, nil }

// Gone implements Client.
func (m *Memory) Gone(time.Time, bool) bool { return false }

// Written implements Client.
func (m *Memory) Written() int64 { return 0 }
