package h1

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// Client is the exchange's client: an HTTP/1 connection or one stream. The exchange's goroutine calls its methods;
// during an upload a second one calls ReadBody. Borrowed bytes are valid until the call returns.
type Client interface {
	// ReadBody returns data, or io.EOF after the end. Its errors are ErrBadBody, errBodyTimeout, ErrClientGone, and any
	// error after StopBody.
	ReadBody(p []byte) (int, error)
	// AwaitBody waits for data until by, and reports whether it came. It consumes nothing.
	AwaitBody(by time.Time) bool
	// Trailers are the fields after a body that has been read.
	Trailers() []request.Field
	// StopBody makes ReadBody in another goroutine fail.
	StopBody()

	// Continue sends 100 Continue.
	Continue() error
	Reply(status int, fields []request.Field, body []byte) error
	// Answer begins the service's answer, or relays an interim one.
	Answer(a *Answer) error
	// Write buffers a piece of the answer, as a chunk of its own if chunk is set.
	Write(p []byte, chunk bool) error
	Flush() error
	LastChunk(t wire.Trailers)
	End() error
	// Cut ends a broken answer; reset: the client could otherwise take it for complete.
	Cut(reset bool)
	// Tunnel hands over the connection after a 101.
	Tunnel() (nc net.Conn, early []byte)

	// Gone reports whether the client has left. With uploading, the end of its stream may be the body's.
	Gone(now time.Time, uploading bool) bool
	Written() int64
}

// Answer is the head of a service's answer, valid during the call.
type Answer struct {
	x       *Exchange
	h       *wire.Head
	o       *ForwardOptions
	framing framing
}

// Status is the status; below 200 for an interim answer.
func (a *Answer) Status() int { return a.h.Status }

// AppendFields appends the client's fields, without connection-specific ones. length is -1 if none is sent.
func (a *Answer) AppendFields(dst []request.Field) (_ []request.Field, length int64) {
	h, length := a.h, int64(-1)
	for i := range h.Fields {
		f := &h.Fields[i]
		switch k := h.Kinds[i]; k {
		case wire.Connection, wire.Hop, wire.TE, wire.Upgrade, wire.Trailer, wire.Encoding:
			continue
		case wire.Length:
			if a.framing == byLength || a.framing == bare && h.Status >= 200 && h.Status != 204 {
				length = h.Length
			}
			continue
		default:
			if h.Nominated(f.Name, k) || a.x.withheld(a.o, f.Name) {
				continue
			}
		}
		dst = append(dst, *f)
	}
	if h.Status >= 200 {
		dst = append(dst, a.o.AddAnswer...)
		private, said := a.o.private(h)
		dst = append(append(dst, private...), said...)
		if a.x.altSvc != nil {
			dst = append(dst, request.Field{Name: altSvcName, Value: a.x.altSvc})
		}
	}
	return dst, length
}

var _ Client = (*conn)(nil)

func (c *conn) ReadBody(p []byte) (int, error) {
	if !c.h.Chunked {
		return c.Read(p)
	}
	n, err := c.dec.Read(c.br, c, p)
	if err == io.EOF && !c.dec.Done { //nolint:errorlint // the connection ended within the body
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *conn) AwaitBody(by time.Time) bool {
	for !c.bodyReadable() {
		now := clock()
		if !now.Before(by) {
			return false
		}
		if by.Sub(now) >= c.cfg.ReadTimeout {
			return true
		}
		c.setReadDeadline(by)
		_, err := c.br.Peek(c.br.Buffered() + 1)
		c.readBy = time.Time{} // Read sets its own
		if isTimeout(err) {
			return false
		}
		if err != nil {
			return true
		}
	}
	return true
}

// bodyReadable reports whether ReadBody finds data without waiting within a chunk's framing.
func (c *conn) bodyReadable() bool {
	have := c.br.Buffered()
	if !c.h.Chunked || c.dec.Left > 0 || have == c.br.Size() {
		return have > 0
	}
	frame, _ := c.br.Peek(have)
	if c.dec.Inside {
		frame = frame[min(2, have):]
	}
	return bytes.IndexByte(frame, '\n') >= 0
}

// The methods below do nothing for a nil conn, which stands for a client that does not speak HTTP/1.

// bodyBuffered is how much of a body of known length has arrived.
func (c *conn) bodyBuffered() int {
	if c == nil {
		return 0
	}
	return c.br.Buffered()
}

func (c *conn) takeBody(dst []byte, n int) []byte {
	p, _ := c.br.Peek(n)
	dst = append(dst, p...)
	_, _ = c.br.Discard(len(p))
	return dst
}

func (c *conn) Trailers() []request.Field { return c.dec.Trailer.Fields }

func (c *conn) StopBody() { _ = c.nc.SetReadDeadline(past) }

// bodyLeft follows StopBody, once ReadBody has returned.
func (c *conn) bodyLeft() {
	if c != nil {
		c.readBy = time.Time{}
	}
}

// SettleBody discards a short body, and gives up the connection for a long or withheld one.
func (c *conn) settleBody() {
	if c == nil {
		return
	}
	b := &c.x.body
	waits := c.h.Expect && !c.x.continued
	if b.err != nil || waits || b.chunked || b.left > c.cfg.MaxDrainBytes {
		c.leaveBody()
	}
}

// leaveBody gives up the rest of a body.
func (c *conn) leaveBody() {
	if c != nil {
		c.keep, c.linger = false, true
	}
}

func (c *conn) Continue() error {
	c.out.buf = append(c.out.buf, "HTTP/1.1 100 Continue\r\n\r\n"...)
	return c.out.flush()
}

func (c *conn) Answer(a *Answer) error {
	h := a.h
	c.out.buf = a.x.appendAnswer(c.out.buf, h, a.o, a.framing)
	switch {
	case h.Status == 101:
		c.keep = false
		c.out.buf = append(c.out.buf, "Connection: Upgrade\r\n\r\n"...)
		return c.out.flush()
	case h.Status < 200:
		c.out.buf = append(c.out.buf, "\r\n"...)
		return c.out.flush()
	case a.framing == byClosing:
		c.keep = false
	}
	if h.Status == 426 && h.UpgradeNum > 0 {
		c.out.buf = append(c.out.buf, "Connection: Upgrade\r\n"...)
	}
	c.out.buf = append(persistence(c, c.out.buf), "\r\n"...)
	return nil
}

func (c *conn) Write(p []byte, chunk bool) error {
	if !chunk {
		return c.out.write(p)
	}
	c.out.buf = append(strconv.AppendInt(c.out.buf, int64(len(p)), 16), "\r\n"...)
	if len(c.out.buf)+len(p) <= outSize {
		c.out.buf = append(append(c.out.buf, p...), "\r\n"...)
		return nil
	}
	return c.out.send(p, crlf)
}

var crlf = []byte("\r\n")

func (c *conn) Flush() error { return c.out.flush() }

func (c *conn) LastChunk(t wire.Trailers) { c.out.buf = wire.AppendLastChunk(c.out.buf, t) }

func (c *conn) End() error { return c.out.flush() }

func (c *conn) Cut(reset bool) {
	c.keep, c.abort = false, true
	c.reset = c.reset || reset
}

func (c *conn) Tunnel() (nc net.Conn, early []byte) {
	_ = c.nc.SetDeadline(time.Time{})
	c.readBy, c.out.by = time.Time{}, time.Time{}
	if n := c.br.Buffered(); n > 0 {
		early = c.takeBody(nil, n)
	}
	return c.nc, early
}

func (c *conn) keeps() bool { return c == nil || c.keep }

func (c *conn) unkeep() {
	if c != nil {
		c.keep = false
	}
}

func (c *conn) Gone(now time.Time, uploading bool) bool {
	return c.state.Load() == closed || c.watched.gone(now, c.out.written, uploading, c.cfg.HalfCloseGrace)
}

func (c *conn) Written() int64 { return c.out.written }

func (c *conn) Reply(status int, fields []request.Field, body []byte) error {
	out := appendStatusText(c.out.buf, status)
	date := false
	for i := range fields {
		f := &fields[i]
		switch wire.KindOf(f.Name) {
		case wire.Connection, wire.Length, wire.Encoding, wire.Trailer, wire.Hop:
			continue
		case wire.Date:
			date = true
		}
		out = wire.AppendField(out, f.Name, f.Value)
	}
	if !date {
		out = append(out, "Date: "...)
		out = fasthttp.AppendHTTPDate(out, c.x.View.At)
		out = append(out, "\r\n"...)
	}
	if status != 204 && status != 304 {
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, int64(len(body)), 10)
		out = append(out, "\r\n"...)
	}
	c.out.buf = append(persistence(c, out), "\r\n"...)
	if status == 204 || status == 304 || string(c.h.Method) == "HEAD" {
		body = nil
	}
	if err := c.out.write(body); err != nil {
		return err
	}
	return c.out.flush()
}

func appendStatusText(dst []byte, status int) []byte {
	dst = wire.AppendStatusLine(dst, status, nil)
	dst = dst[:len(dst)-2]
	dst = append(dst, fasthttp.StatusMessage(status)...)
	return append(dst, "\r\n"...)
}

func persistence(c *conn, dst []byte) []byte {
	if c.srv.draining.Load() {
		c.keep = false
	}
	switch {
	case !c.keep:
		dst = append(dst, "Connection: close\r\n"...)
	case c.h.Minor == 0:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return dst
}

func appendPlainAnswer(dst []byte, status int, headOnly bool) []byte {
	text := fasthttp.StatusMessage(status)
	dst = wire.AppendStatusLine(dst, status, []byte(text))
	dst = append(dst, "Date: "...)
	dst = fasthttp.AppendHTTPDate(dst, time.Now())
	dst = append(dst, "\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n"...)
	if status == 405 {
		dst = append(dst, "Allow: "+allowed+"\r\n"...)
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(text)+1), 10)
	dst = append(dst, "\r\nConnection: close\r\n\r\n"...)
	if headOnly {
		return dst
	}
	dst = append(dst, text...)
	return append(dst, '\n')
}

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
