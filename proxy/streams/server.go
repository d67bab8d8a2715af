package streams

import (
	"errors"
	"net/http"
	"sync"

	"antirobot/proxy/h1"
)

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
