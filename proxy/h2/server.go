// Package h2 is the front for HTTP/2. golang.org/x/net/http2 handles frames; package streams makes an h1.Exchange of
// each stream.
//
// Invariants, in addition to those of package streams:
// 1. Config bounds what a client can make the gateway keep: streams, windows, frames without payload.
// 2. Every reset stream is counted, whoever resets it.
package h2

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/net/http2"

	"antirobot/proxy/h1"
	_ "antirobot/proxy/h2/xconnect" // offers extended CONNECT
	"antirobot/proxy/streams"
)

// Server serves HTTP/2 connections of an h1.Server, with its handler and limits. Safe for concurrent use; made by New.
type Server struct {
	cfg      Config
	front    *h1.Server
	usual    speaker
	few      speaker // for addresses with many requests in flight
	m        *serverMetrics
	draining atomic.Bool
	streams  *streams.Server
}

type speaker struct {
	frames *frames
	base   *http.Server
}

// Deps is what a Server works with. Both are required.
type Deps struct {
	Front   *h1.Server
	Metrics *metrics.Set
}

// New makes a Server.
func New(cfg Config, d Deps) (*Server, error) {
	s := &Server{cfg: cfg, front: d.Front, m: newServerMetrics(d.Metrics), streams: streams.New(d.Front, nil)}
	s.usual, s.few = s.speaker(cfg.MaxStreams), s.speaker(min(cfg.MaxStreams, h1.OwnRequests))
	return s, nil
}

func (s *Server) speaker(most int) speaker {
	cfg, limits := &s.cfg, s.front.Config()
	base := &http.Server{
		IdleTimeout: limits.IdleTimeout, MaxHeaderBytes: streams.HeaderRoom(limits),
		ReadHeaderTimeout: limits.HeaderTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // clients cause its errors
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          most,
			MaxDecoderHeaderTableSize:     max(int(cfg.HeaderTableBytes), firstTable),
			MaxEncoderHeaderTableSize:     int(cfg.HeaderTableBytes),
			MaxReadFrameSize:              int(cfg.MaxFrameBytes),
			MaxReceiveBufferPerConnection: int(cfg.ConnWindow),
			MaxReceiveBufferPerStream:     int(cfg.StreamWindow),
			SendPingTimeout:               cfg.PingAfter,
			PingTimeout:                   cfg.PingTimeout,
			WriteByteTimeout:              limits.WriteTimeout,
			CountError:                    s.m.countError,
		},
	}
	return speaker{newFrames(base), base}
}

// firstTable is the HPACK table size that clients assume before they read the settings (RFC 9113 section 6.5.2). A
// smaller one would break them.
const firstTable = 4 << 10

// ServeConn serves a connection until it ends.
func (s *Server) ServeConn(nc net.Conn, from h1.Origin) {
	if s.draining.Load() {
		_ = nc.Close()
		return
	}
	s.m.accepted.Inc()
	s.m.openConns.Add(1)
	defer s.m.openConns.Add(-1)
	g, guardedConn := guard(nc, &s.cfg, s.m, from.Trusted, s.front.Config())
	g.first = s.drainLate
	c := &conn{srv: s, from: from, guard: g}
	c.from.Own = &c.underWay
	speak := &s.usual
	if s.front.Crowded(from.Peer, !from.Counted) {
		speak = &s.few
	}
	speak.frames.serve(guardedConn, speak.base, c)
	c.awaitHandlers()
}

// Drain tells all clients to open no more streams.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.sayGoodbye()
}

// drainLate repeats Drain for a connection that http2.Server did not know yet.
func (s *Server) drainLate() {
	if s.draining.Load() {
		s.sayGoodbye()
	}
}

func (s *Server) sayGoodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, speak := range []*speaker{&s.usual, &s.few} {
		_ = speak.base.Shutdown(ctx) // makes http2.Server send GOAWAY
	}
}

type conn struct {
	srv      *Server
	from     h1.Origin
	guard    *guarded
	requests atomic.Int64
	underWay atomic.Int64

	mu       sync.Mutex
	handlers int
	idle     chan struct{} // closed when the connection and its handlers have ended
}

// enter counts a handler; false: the connection has ended.
func (c *conn) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		return false
	}
	c.handlers++
	c.srv.m.openStreams.Add(1)
	return true
}

func (c *conn) leave() {
	c.srv.m.openStreams.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handlers--; c.handlers == 0 && c.idle != nil {
		close(c.idle)
	}
}

func (c *conn) awaitHandlers() {
	c.mu.Lock()
	c.idle = make(chan struct{})
	if c.handlers == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	<-c.idle
}

// ServeHTTP serves the requests of one connection.
func (c *conn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.enter() {
		return
	}
	defer c.leave()
	growStack(c.requests.Load())
	most := c.srv.front.Config().MaxRequestsPerConn
	last := c.srv.draining.Load() || most > 0 && c.requests.Add(1) >= int64(most)
	from := c.from
	from.HTTP2 = c.guard.print.text
	if c.srv.streams.Serve(w, r, from, last) != nil {
		panic(http.ErrAbortHandler) // resets the stream
	}
}

// growStack grows a stream's stack at once. A stack that grows gradually is copied three times, with all its frames.
//
//go:noinline
func growStack(at int64) byte {
	var room [stackRoom]byte
	return room[uint64(at)%stackRoom]
}

const stackRoom = 6 << 10 // a stack of 8 KiB; 16 would save no time

// frames handles HTTP/2. net/http's server, which the deprecation notice recommends, would accept connections itself,
// without PROXY protocol and our limits.
type frames struct {
	server http2.Server //nolint:staticcheck // see above
}

func newFrames(base *http.Server) *frames {
	f := new(frames)
	if err := http2.ConfigureServer(base, &f.server); err != nil { //nolint:staticcheck // see above
		panic("BUG: " + err.Error()) // impossible: base sets no cipher suites
	}
	return f
}

// serve serves a connection until it ends; handlers may still run then.
func (f *frames) serve(nc net.Conn, base *http.Server, h http.Handler) {
	f.server.ServeConn(nc, &http2.ServeConnOpts{BaseConfig: base, Handler: h}) //nolint:staticcheck // see above
}
