package h1

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/request"
)

// errStopped ends the reading of a body that nobody wants any more.
var errStopped = errors.New("upload stopped")

// keptBody is up to where the buffer of ReadBody stays with the connection.
const keptBody = 64 << 10

// Exchange is one request and its answer. It belongs to the handler until ServeExchange returns, is used by one
// goroutine, and is reused afterwards: nothing of it may be kept.
type Exchange struct {
	View request.View // all bytes are borrowed until ServeExchange returns

	c        *conn
	hostName []byte
	body     body
	pre      []byte // what ReadBody has read
	leg      leg
	upload   upload
	reqHead  []byte // the head for the service

	answered  bool   // the final answer has begun
	gone      bool   // the client has left
	continued bool   // 100 has been sent to the client
	fallback  int    // the status if the handler returns without an answer
	method    []byte // of the request that the service gets
}

// start prepares x for the request that has been parsed.
func (x *Exchange) start() {
	c := x.c
	h := &c.h
	x.hostName = x.hostName[:0]
	if h.host != nil {
		x.hostName, _ = request.AppendHostName(x.hostName, h.host)
	}
	x.View = request.View{
		At: time.Now(), Method: h.method, Host: x.hostName, HostPort: h.host, Target: h.target, Path: h.target,
		Fields: h.fields, Peer: c.peer, TLS: c.opts.TLS != nil, HTTP10: h.minor == 0,
	}
	if i := bytes.IndexByte(h.target, '?'); i >= 0 {
		x.View.Path, x.View.Query = h.target[:i], h.target[i+1:]
	}
	x.method = h.method
	x.answered, x.gone, x.continued = false, false, false
	x.fallback = 500
	x.pre = x.pre[:0]
	x.body.start(h)
	x.upload.reset()
	c.inBody = true
	c.keep = h.keepsAlive() && (c.cfg.MaxRequestsPerConn == 0 || c.requests < uint64(c.cfg.MaxRequestsPerConn))
}

// ConnID numbers the connection within this process, from 1.
func (x *Exchange) ConnID() uint64 { return x.c.id }

// RequestNum numbers the request on its connection, from 1.
func (x *Exchange) RequestNum() uint64 { return x.c.requests }

// ServerName is the host that a TLS client asked for in its handshake; empty without.
func (x *Exchange) ServerName() string {
	if t, ok := x.c.nc.(*tls.Conn); ok {
		return t.ConnectionState().ServerName
	}
	return ""
}

// ContentLength is the length of the request's body in bytes: -1 if it is not known beforehand, 0 if there is none.
func (x *Exchange) ContentLength() int64 {
	if x.c.h.chunked {
		return -1
	}
	return max(x.c.h.length, 0)
}

// IsUpgrade reports whether the client asks for a WebSocket as RFC 6455 wants it.
func (x *Exchange) IsUpgrade() bool { return x.c.h.websocket() }

// Answered reports whether an answer has begun, so that Reply and Forward would fail.
func (x *Exchange) Answered() bool { return x.answered }

// ReadBody reads the whole body into memory and returns it, valid until ServeExchange returns. It tells a client that
// waits for it to go on. Beyond limit bytes it fails with ErrBodyTooLarge. A body that was read, whole or in part, is
// still forwarded untouched by Forward. Other errors: ErrBadBody, ErrBodyTimeout, ErrClientGone.
func (x *Exchange) ReadBody(limit int64) ([]byte, error) { return x.ReadBodyBy(limit, time.Time{}) }

// ReadBodyBy is ReadBody that gives up at a moment with ErrBodyLate; the body can be read on and forwarded then.
func (x *Exchange) ReadBodyBy(limit int64, by time.Time) ([]byte, error) {
	if x.body.err != nil {
		return nil, x.body.err
	}
	if x.body.left > limit-int64(len(x.pre)) && !x.body.chunked || int64(len(x.pre)) > limit {
		return nil, ErrBodyTooLarge
	}
	if !x.body.done {
		if err := x.sendContinue(); err != nil {
			return nil, err
		}
	}
	for !x.body.done {
		if len(x.pre) == cap(x.pre) {
			x.pre = slices.Grow(x.pre, int(max(512, min(x.body.left, limit))))
		}
		if !by.IsZero() && !x.body.await(by) {
			return nil, ErrBodyLate
		}
		room := x.pre[len(x.pre):cap(x.pre)]
		n, err := x.body.read(room)
		x.pre = x.pre[:len(x.pre)+n]
		if err == io.EOF { //nolint:errorlint // body.read returns it bare
			break
		}
		if err != nil {
			return nil, err
		}
		if int64(len(x.pre)) > limit {
			return nil, ErrBodyTooLarge
		}
	}
	return x.pre, nil
}

// sendContinue tells a client that asked to go on with its body, once.
func (x *Exchange) sendContinue() error {
	if !x.c.h.expect || x.continued {
		return nil
	}
	x.continued = true
	x.c.out = append(x.c.out, "HTTP/1.1 100 Continue\r\n\r\n"...)
	if err := x.c.flush(); err != nil {
		x.gone = true
		return err
	}
	return nil
}

// Reply sends an answer of the gateway's own: fields as given, and what the message needs (Date unless given,
// Content-Length, Connection). The body is left out for HEAD and for statuses without one. It may be called once, and
// not after Forward began an answer: ErrAnswered. A field that is no valid HTTP gives ErrBadField, and nothing is sent.
func (x *Exchange) Reply(status int, fields []request.Field, body []byte) error {
	if x.answered {
		return ErrAnswered
	}
	if x.gone {
		return ErrClientGone
	}
	if status < 200 || status > 599 || !validFields(fields) {
		return ErrBadField
	}
	c := x.c
	x.answered = true
	x.settleBody()
	out := appendStatusText(c.out, status)
	date := false
	for i := range fields {
		f := &fields[i]
		switch kindOf(f.Name) {
		case kConnection, kLength, kEncoding, kTrailer, kHop:
			continue // framing is ours
		case kDate:
			date = true
		}
		out = appendField(out, f.Name, f.Value)
	}
	if !date {
		out = append(out, "Date: "...)
		out = fasthttp.AppendHTTPDate(out, x.View.At)
		out = append(out, "\r\n"...)
	}
	if status != 204 && status != 304 {
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, int64(len(body)), 10)
		out = append(out, "\r\n"...)
	}
	c.out = append(x.appendPersistence(out), "\r\n"...)
	if status == 204 || status == 304 || string(c.h.method) == "HEAD" {
		body = nil
	}
	if err := c.write(body); err != nil {
		return err
	}
	return c.flush()
}

// appendStatusText begins an own answer.
func appendStatusText(dst []byte, status int) []byte {
	dst = appendStatusLine(dst, status, nil)
	dst = dst[:len(dst)-2]
	dst = append(dst, fasthttp.StatusMessage(status)...)
	return append(dst, "\r\n"...)
}

// appendPersistence says whether the connection goes on. From here on keep is decided.
func (x *Exchange) appendPersistence(dst []byte) []byte {
	c := x.c
	if c.srv.draining.Load() {
		c.keep = false
	}
	switch {
	case !c.keep:
		dst = append(dst, "Connection: close\r\n"...)
	case c.h.minor == 0:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return dst
}

// settleBody decides, before an own answer, what becomes of a body that nobody has read: a short one is thrown away,
// for a long one or one that the client holds back the connection is given up.
func (x *Exchange) settleBody() {
	if x.body.done {
		return
	}
	waits := x.c.h.expect && !x.continued
	if x.body.err != nil || waits || x.body.chunked || x.body.left > x.c.cfg.MaxDrainBytes {
		x.c.keep, x.c.linger = false, true
	}
}

// finish leaves the connection ready for the next request, or to be closed.
func (x *Exchange) finish() {
	c := x.c
	if x.gone {
		c.srv.m.clientGone.Inc()
		c.keep, c.abort, c.reset = false, true, true
	}
	if err := c.flush(); err != nil {
		c.keep = false
	}
	for c.keep && !x.body.done {
		buf := streamBuffers.Get().(*streamBuffer)
		_, err := x.body.read(buf[:])
		streamBuffers.Put(buf)
		if err != nil && err != io.EOF { //nolint:errorlint // body.read returns it bare
			c.keep, c.linger = false, true
		}
	}
	if !x.body.done {
		c.linger = true
	}
	if cap(x.pre) > keptBody {
		x.pre = nil
	}
	x.View = request.View{}
	x.method = nil
}

// afterPanic makes the best of a handler that did not come to its end.
func (x *Exchange) afterPanic() {
	if x.leg.up != nil {
		x.upload.halt()
		x.leg.drop(nil)
	}
	if x.answered {
		x.c.abort, x.c.reset = true, true
	}
	x.c.keep = false
	x.body.err = errStopped // whatever is left of the body is not looked at
}

func validFields(fields []request.Field) bool {
	for i := range fields {
		if f := &fields[i]; !isName(f.Name) || !all(f.Value, isValue) {
			return false
		}
	}
	return true
}

// body is the request's body as it comes from the client.
type body struct {
	c       *conn
	chunked bool
	done    bool
	left    int64 // of one with Content-Length
	n       int64 // bytes of data read
	max     int64 // 0: no limit
	since   time.Time
	err     error // sticky
	dec     chunks
}

func (b *body) start(h *head) {
	b.chunked, b.left, b.n, b.err, b.max = h.chunked, max(h.length, 0), 0, nil, 0
	b.since = time.Time{}
	b.done = !h.chunked && b.left == 0
	if h.chunked {
		b.dec.reset(false, int(b.c.cfg.MaxHeaderBytes), b.c.cfg.MaxHeaderFields)
	}
}

// read returns data, or io.EOF when the body is complete. Its errors are those of ReadBody, and errStopped.
func (b *body) read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.done {
		return 0, io.EOF
	}
	var n int
	var err error
	if b.chunked {
		n, err = b.dec.read(b.c.br, b.c, p)
		if err == io.EOF && b.dec.done { //nolint:errorlint // chunks returns it bare
			b.done = true
			return 0, io.EOF
		}
	} else {
		n, err = b.c.read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		b.done = b.left == 0
	}
	b.n += int64(n)
	switch {
	case err != nil:
		b.err = b.explain(err)
	case b.max > 0 && b.n > b.max:
		b.c.srv.m.limitBody.Inc()
		b.err = ErrBodyTooLarge
	case b.tooSlow():
		b.c.srv.m.limitRead.Inc()
		b.err = ErrBodyTimeout
	}
	return n, b.err
}

// await waits until a moment for what read can go on with, and reports false if it did not come. It reads nothing, so
// that whatever comes later finds the body as it was; other failures are left to read.
func (b *body) await(by time.Time) bool {
	c := b.c
	for !b.readable() {
		now := time.Now()
		if !now.Before(by) {
			return false
		}
		if by.Sub(now) >= c.cfg.ReadTimeout {
			return true
		}
		c.setReadDeadline(by)
		_, err := c.br.Peek(c.br.Buffered() + 1)
		c.readBy = time.Time{} // read sets its own
		if isTimeout(err) {
			return false
		}
		if err != nil {
			return true
		}
	}
	return true
}

// readable reports whether read finds a byte of data without waiting in the middle of a chunk's frame.
func (b *body) readable() bool {
	have := b.c.br.Buffered()
	if !b.chunked || b.dec.left > 0 || have == b.c.br.Size() {
		return have > 0
	}
	frame, _ := b.c.br.Peek(have)
	if b.dec.inside {
		frame = frame[min(2, have):]
	}
	return bytes.IndexByte(frame, '\n') >= 0
}

func (b *body) explain(err error) error {
	m := b.c.srv.m
	switch {
	case b.c.x.upload.stop.Load():
		return errStopped
	case err == errChunk: //nolint:errorlint // chunks returns it bare
		m.badBody.Inc()
		return ErrBadBody
	case isTimeout(err):
		m.limitRead.Inc()
		return ErrBodyTimeout
	}
	return ErrClientGone
}

// tooSlow enforces MinBodyRate.
func (b *body) tooSlow() bool {
	rate := b.c.cfg.MinBodyRate
	if rate == 0 || b.done {
		return false
	}
	now := time.Now()
	if b.since.IsZero() {
		b.since = now
	}
	took := now.Sub(b.since)
	return took > 10*time.Second && b.n < int64(took.Seconds()*float64(rate))
}
