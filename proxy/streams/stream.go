// Package streams makes an h1.Exchange of a net/http request: the common part of the fronts for HTTP/2 and HTTP/3.
//
// Invariants:
// 1. What goes to the service is written from what h1 has checked; anything that HTTP/1.1 could read differently is
// refused.
// 2. Each request has its own goroutine; none blocks another.
// 3. An answer that was cut short upstream ends with a reset.
// 4. The libraries lose the order of fields: View.HTTP2 says so, and they are sorted.
package streams

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1"
	"antirobot/request"
)

var past = time.Unix(1, 0)

// writer is implemented by http2.Server's and http3.Server's.
type writer interface {
	http.ResponseWriter
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	FlushError() error
}

// stream is one request: the h1.Client of its exchange. It is reused.
type stream struct {
	front *h1.Server
	reset func(error) bool // of New
	x     *h1.Streamed
	w     writer
	r     *http.Request

	header http.Header // of the answer
	head   h1.Head
	settle func() (status int) // settleLength, bound once
	names  []string
	text   []byte // that head points into
	fields []request.Field

	readBy    time.Time   // the deadline that is set
	stopped   atomic.Bool // by StopBody
	limit     writeLimit
	ahead     ahead
	socket    *socket // of a WebSocket
	unflushed bool
	written   int64
	werr      error
	cut       bool        // the answer can't be ended
	left      atomic.Bool // reset, or the client left
	first     [1]byte     // of a body, read to detect it
}

func newStream(front *h1.Server, reset func(error) bool) *stream {
	s := &stream{front: front, reset: reset}
	s.x, s.settle = front.Streamed(s), s.settleLength
	s.ahead.got = make(chan struct{}, 1)
	return s
}

func (s *stream) begin(w http.ResponseWriter, r *http.Request) {
	s.r = r
	s.w = w.(writer) //nolint:forcetypeassert // it is the library's, and a test would see another
	s.header = w.Header()
	s.readBy = time.Time{}
	s.unflushed, s.written, s.werr, s.cut = false, 0, nil, false
	s.left.Store(false)
	s.stopped.Store(false)
	s.read()
}

// serve hands the request over; a status other than 0: it did not.
func (s *stream) serve(from h1.Origin) (status int) {
	s.head.Settle = nil
	if s.http3() {
		s.head.Settle = s.settle
	}
	return s.x.Serve(&s.head, from)
}

// http3 reports whether http3.Server read the request: it does less for handlers.
func (s *stream) http3() bool { return s.r.ProtoMajor == 3 }

// settleLength detects an unusual body, which http3.Server does not announce. It returns a status if the body is late
// or missing.
func (s *stream) settleLength() (status int) {
	h := &s.head
	switch s.r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodConnect:
		return 0
	}
	if h.Length == 0 {
		return 0
	}
	_ = s.w.SetReadDeadline(time.Now().Add(s.front.Config().HeaderTimeout))
	a := &s.ahead
	a.n, a.err = readSome(s.r.Body, s.first[:])
	a.begun, a.buf = true, s.first[:a.n]
	switch {
	case errors.Is(a.err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case a.n > 0:
	case a.err != io.EOF: //nolint:errorlint // http3.Server returns it bare
		_ = s.explain(a.err) // may note a reset
		return http.StatusBadRequest
	case h.Length < 0 && len(s.r.Trailer) == 0:
		h.Length, a.begun = 0, false
	}
	return 0
}

func (s *stream) end() {
	s.ahead.stop(s)
	if s.socket != nil {
		_ = s.socket.Close()
		s.socket = nil
	}
	if s.unflushed { // the library sends it after the handler
		_ = s.w.SetWriteDeadline(time.Now().Add(s.front.Config().WriteTimeout))
	}
	clear(s.names)
	clear(s.fields)
	clear(s.head.Fields)
	s.w, s.r, s.header = nil, nil, nil
	if cap(s.text) > keptText {
		s.text = nil
	}
}

const keptText = 16 << 10

func (s *stream) read() {
	r := s.r
	s.names = s.names[:0]
	size := len(r.Method) + len(http.MethodGet) + len(r.RequestURI) + len("host") + len(r.Host)
	for name, values := range r.Header {
		s.names = append(s.names, name)
		for _, v := range values {
			size += len(name) + len(v)
		}
	}
	for name := range r.Trailer {
		size += len(name) + len("trailer")
	}
	slices.Sort(s.names)
	s.text = slices.Grow(s.text[:0], size) // slices of it must stay valid
	h := &s.head
	h.Fields = h.Fields[:0]
	h.Method, h.Target, h.Length, h.WebSocket = s.keep(r.Method), s.keep(r.RequestURI), r.ContentLength, false
	if r.Method == http.MethodConnect && (r.Header.Get(protocolField) == "websocket" || r.Proto == "websocket") {
		h.Method, h.Length, h.WebSocket = s.keep(http.MethodGet), 0, true
	}
	if r.Host != "" {
		h.Fields = append(h.Fields, request.Field{Name: s.keep("host"), Value: s.keep(r.Host)})
	}
	for _, name := range s.names {
		if h.WebSocket && name == protocolField || s.http3() && name == "Host" {
			continue // http3.Server compared Host with :authority
		}
		for _, v := range r.Header[name] {
			h.Fields = append(h.Fields, request.Field{Name: s.keepLower(name), Value: s.keep(v)})
		}
	}
	for name := range r.Trailer {
		h.Fields = append(h.Fields, request.Field{Name: s.keep("trailer"), Value: s.keepLower(name)})
	}
}

// protocolField carries the protocol of an extended CONNECT in http2.Server (RFC 8441 section 4); http3.Server has
// Request.Proto (RFC 9220).
const protocolField = ":protocol"

func (s *stream) keep(text string) []byte {
	begin := len(s.text)
	s.text = append(s.text, text...)
	return s.text[begin:len(s.text):len(s.text)]
}

func (s *stream) keepLower(name string) []byte {
	b := s.keep(name)
	for i, c := range b {
		b[i] = request.Lower(c)
	}
	return b
}

func (s *stream) ReadBody(p []byte) (int, error) {
	if n, ok, err := s.ahead.take(p); ok {
		return n, s.explain(err)
	}
	s.armRead()
	n, err := readSome(s.r.Body, p)
	switch {
	case n > 0 && errors.Is(err, io.EOF):
		return n, nil // it comes again
	case err != nil:
		return 0, s.explain(err) // an overlong body must not look whole
	}
	return n, nil
}

// readSome reads at least a byte or returns an error. http3.Server returns neither for an empty DATA frame, which would
// become the last chunk: request smuggling.
func readSome(body io.Reader, p []byte) (n int, err error) {
	for n == 0 && err == nil && len(p) > 0 {
		n, err = body.Read(p)
	}
	return n, err
}

func (s *stream) armRead() {
	timeout := s.front.Config().ReadTimeout
	now := time.Now()
	if left := s.readBy.Sub(now); left < timeout-timeout/8 {
		s.readBy = now.Add(timeout)
		_ = s.w.SetReadDeadline(s.readBy)
	}
	if s.stopped.Load() { // after the deadline: StopBody sets the flag first
		_ = s.w.SetReadDeadline(past)
	}
}

func (s *stream) explain(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case s.r.Context().Err() == nil && (s.reset == nil || !s.reset(err)):
		return h1.ErrBadBody // of another length than announced
	}
	s.left.Store(true)
	return h1.ErrClientGone
}

func (s *stream) Trailers() []request.Field {
	var fields []request.Field
	for name, values := range s.r.Trailer {
		for _, v := range values {
			fields = append(fields, request.Field{Name: []byte(name), Value: []byte(v)})
		}
	}
	return fields
}

func (s *stream) StopBody() {
	s.stopped.Store(true)
	_ = s.w.SetReadDeadline(past)
}

// Continue implements h1.Client. http2.Server sends 100 by itself.
func (s *stream) Continue() error {
	if s.http3() {
		s.sendInterim(http.StatusContinue)
	}
	return s.werr
}

func (s *stream) Gone(time.Time, bool) bool {
	gone := s.r.Context().Err() != nil
	if gone {
		s.left.Store(true)
	}
	return gone
}

func (s *stream) Written() int64 { return s.written }

func (s *stream) Cut(bool) { s.cut = true }

func (s *stream) Tunnel() (net.Conn, []byte) {
	s.socket = newSocket(s)
	return s.socket, nil
}

// Server serves requests with the handler and limits of an h1.Server. Safe for concurrent use; made by New.
type Server struct {
	front *h1.Server
	pool  sync.Pool
}

// New makes a Server. reset recognises the library's error for a stream reset by its client; nil: by the request's
// context.
func New(front *h1.Server, reset func(error) bool) *Server {
	s := &Server{front: front}
	s.pool.New = func() any { return newStream(front, reset) }
	return s
}

// errCut is an answer that can't be ended, while its client is there.
var errCut = errors.New("the answer was cut short")

// Serve answers a request. last makes http2.Server send GOAWAY. After an error reset the stream by a panic with
// http.ErrAbortHandler; h1.ErrClientGone: the client reset it, or left.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, from h1.Origin, last bool) error {
	t := s.pool.Get().(*stream)
	t.begin(w, r)
	if last {
		t.header.Set("Connection", "close") // GOAWAY to http2.Server
	}
	if status := t.serve(from); status != 0 {
		t.refuse(status)
	}
	cut, left := t.cut, t.left.Load()
	t.end()
	s.pool.Put(t)
	switch {
	case left:
		return h1.ErrClientGone
	case cut:
		return errCut
	}
	return nil
}

// HeaderRoom is the limit of a head for the libraries, which count 32 bytes more for each field. It exceeds c's, so
// that a head slightly too large gets the gateway's answer, which says why.
func HeaderRoom(c *h1.Config) int {
	return int(c.MaxHeaderBytes+c.MaxHeaderBytes/4) + 32*c.MaxHeaderFields
}
