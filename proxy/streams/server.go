package streams

import (
	"errors"
	"net/http"
	"sync"

	"antirobot/proxy/h1"
)

// Server serves requests with the handler and the limits of an h1.Server. Safe for concurrent use; made by New.
type Server struct {
	front *h1.Server
	pool  sync.Pool // *stream
}

// New makes a Server. reset recognises the library's error for a stream that its client has reset; nil: the request's context has
// ended then.
func New(front *h1.Server, reset func(error) bool) *Server {
	s := &Server{front: front}
	s.pool.New = func() any { return newStream(front, reset) }
	return s
}

// errCut is an answer that can't be ended properly, although its client is there.
var errCut = errors.New("the answer was cut short")

// Serve answers a request. last tells http2.Server that no other may follow on its connection. An error means that the
// stream is to be reset, by a panic with http.ErrAbortHandler; it is h1.ErrClientGone if the client has taken the request
// back, or left.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, from h1.Origin, last bool) error {
	t := s.pool.Get().(*stream)
	t.begin(w, r)
	if last {
		t.header.Set("Connection", "close") // for http2.Server this means GOAWAY
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
