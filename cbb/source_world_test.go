package cbb

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// server is a publisher of a list whose behaviour can be changed.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	handler http.HandlerFunc
	seen    []*http.Request
}

func serve(t testing.TB, h http.HandlerFunc) *server {
	t.Helper()
	s := &server{handler: h}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Clone(context.Background()))
		h := s.handler
		s.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func serveText(t testing.TB, text string) *server {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

func (s *server) become(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
}

func (s *server) last() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[len(s.seen)-1]
}

// refresh requests a source's list once, now, as its goroutine would.
func refresh(t testing.TB, l *Lists, name string) error {
	t.Helper()
	for _, r := range l.sources {
		if r.s.name == name {
			fresh, _, err := r.s.update(t.Context())
			if fresh {
				l.build()
			}
			return err
		}
	}
	t.Fatalf("no source %s", name)
	return nil
}

func urlList(u string) Config {
	return config(func(c *Config) { c.Lists = []ListConfig{{Name: "f", Flag: "block", URL: u}} })
}

func reconfigure(l *Lists, cfg Config) error {
	commit, err := l.Prepare(cfg)
	if err == nil {
		commit()
	}
	return err
}
