// Package h1 speaks HTTP/1.x on both sides of the gateway. It hands each request to a Handler, and writes the handler's
// own answer or relays the service's. It knows no verdicts. Package wire parses messages, package hello what precedes
// the first.
//
// Invariants:
// 1. A request that could be read in two ways is refused and its connection closed.
// 2. What is forwarded is written anew from what was parsed: framing is always ours; names and values keep bytes, case
// and order.
// 3. Memory per connection is bounded by Config, whatever the size of bodies. Only ReadBody buffers, up to its limit.
// 4. An answer that was cut short upstream is cut short for the client.
// 5. A pooled upstream connection is reused only after a complete request and answer, with nothing left over.
// 6. Bytes in an Exchange are borrowed until ServeExchange returns.
// 7. One goroutine writes to a client; a second one may read its body meanwhile (upload.go).
package h1

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"antirobot/bounded"
	"antirobot/proxy/connlimit"
	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// Handler serves one request by Reply or Forward, concurrently.
type Handler interface {
	ServeExchange(x *Exchange)
}

// ListenerOptions are shared by all connections of a listener.
type ListenerOptions struct {
	TLS           *tls.Config // nil: plain
	HTTP2         HTTP2       // for clients that negotiate it; nil: not offered
	H2C           bool        // HTTP2 with prior knowledge
	ProxyProtocol bool        // required, from trusted peers only
	Trusted       Balancers   // nil: none
	Handler       Handler     // for HTTP/1; nil: the server's
	AltSvc        []byte      // see Origin
}

// Balancers are trusted with PROXY headers, and exempt from limits per address.
type Balancers interface {
	Trusts(peer netip.Addr) bool
}

// ErrServerClosed is returned by Serve after Shutdown.
var ErrServerClosed = errors.New("server closed")

// Server accepts connections and serves their requests. Safe for concurrent use; made by NewServer.
type Server struct {
	cfg        atomic.Pointer[Config]
	handler    Handler
	refuser    Refuser // nil: answers are their status
	log        zerolog.Logger
	m          *serverMetrics
	lastID     atomic.Uint64
	draining   atomic.Bool
	conns      sync.Pool
	perAddr    connlimit.Counts
	inFlight   connlimit.Counts // over HTTP/2 and HTTP/3
	streamed   atomic.Int64     // in sum
	handshakes handshakes

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	open      map[*conn]struct{}
	http2     []HTTP2
	running   sync.WaitGroup
}

// Refuser answers invalid requests. Safe for concurrent use.
type Refuser interface {
	// Refuse returns fields and body of an answer; no body: the status alone. v has the method and complete fields,
	// until Refuse returns.
	Refuse(status int, v *request.View) (fields []request.Field, body []byte)
}

// Deps is what a Server works with. Handler and Metrics are required.
type Deps struct {
	Handler Handler
	Refuser Refuser // nil: answers are their status
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// NewServer makes a Server.
func NewServer(cfg Config, d Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		handler:   d.Handler,
		refuser:   d.Refuser,
		log:       d.Log,
		m:         newServerMetrics(d.Metrics),
		listeners: make(map[net.Listener]struct{}),
		open:      make(map[*conn]struct{}),
	}
	s.cfg.Store(&cfg)
	return s, nil
}

// Prepare returns the function that puts other limits into use for future requests and connections.
func (s *Server) Prepare(cfg Config) (commit func(), err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return func() { s.cfg.Store(&cfg) }, nil
}

// Serve accepts connections on ln until Shutdown, and closes ln. It may run for several listeners.
func (s *Server) Serve(ln net.Listener, o ListenerOptions) error {
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		_ = ln.Close()
		return ErrServerClosed
	}
	s.listeners[ln] = struct{}{}
	if o.HTTP2 != nil && !slices.Contains(s.http2, o.HTTP2) {
		s.http2 = append(s.http2, o.HTTP2)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, ln)
		s.mu.Unlock()
		_ = ln.Close()
	}()
	pause := time.Duration(0)
	for {
		nc, err := ln.Accept()
		if err == nil {
			pause = 0
			s.admit(nc, &o)
			continue
		}
		if s.draining.Load() {
			return ErrServerClosed
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept: %w", err)
		}
		// Out of descriptors, or the client left: retry.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.log.Warn().Err(err).Dur("pause", pause).Msg("cannot accept connections")
		time.Sleep(pause)
	}
}

// admit counts a new connection against the limits and serves it.
func (s *Server) admit(nc net.Conn, o *ListenerOptions) {
	s.m.accepted.Inc()
	peer := AddrOf(nc.RemoteAddr())
	trusted := o.Trusted != nil && o.Trusted.Trusts(peer)
	if o.ProxyProtocol && !trusted {
		s.m.badProxyHeader.Inc()
		_ = nc.Close()
		return
	}
	counted, ok := s.within(peer, trusted)
	if ok && counted && o.TLS != nil && !s.MayShakeHands(peer, true) {
		s.perAddr.Remove(peer)
		ok = false
	}
	if !ok {
		_ = nc.Close()
		return
	}
	c, _ := s.conns.Get().(*conn)
	if c == nil {
		c = newConn(s)
	}
	c.begin(nc, peer, trusted, counted, o)
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		s.forget(c)
		_ = nc.Close()
		return
	}
	s.open[c] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	s.m.openConns.Add(1)
	go func() {
		defer s.running.Done()
		c.serve()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
		s.m.openConns.Add(-1)
		s.forget(c)
		c.end()
		s.conns.Put(c)
	}()
}

// within counts a new connection; counted: perAddr has it.
func (s *Server) within(peer netip.Addr, trusted bool) (counted, ok bool) {
	cfg := s.cfg.Load()
	if cfg.MaxConns > 0 && s.m.openConns.Load() >= int64(cfg.MaxConns) {
		s.m.limitConns.Inc()
		return false, false
	}
	counted = !trusted && peer.IsValid()
	if counted && !s.perAddr.Add(peer, cfg.MaxConnsPerAddr) {
		s.m.limitAddr.Inc()
		return false, false
	}
	return counted, true
}

// Admit counts a connection of another front; leave is called when it has ended.
func (s *Server) Admit(peer netip.Addr, trusted bool) (leave func(), ok bool) {
	s.m.accepted.Inc()
	counted, ok := s.within(peer, trusted)
	if !ok {
		return nil, false
	}
	s.m.openConns.Add(1)
	return func() {
		s.m.openConns.Add(-1)
		if counted {
			s.perAddr.Remove(peer)
		}
	}, true
}

func (s *Server) forget(c *conn) {
	if c.counted {
		s.perAddr.Remove(c.counts)
		c.counted = false
	}
}

// handle runs the handler and ensures an answer. A panic costs the connection.
func (s *Server) handle(x *Exchange) {
	s.m.requests.Inc()
	s.guard(x)
	if !x.answered && !x.gone {
		fields, body := s.Refuse(x.fallback, &x.View)
		_ = x.Reply(x.fallback, fields, body)
	}
	if x.gone {
		s.m.clientGone.Inc()
	}
}

func (s *Server) guard(x *Exchange) {
	defer func() {
		if r := recover(); r != nil {
			s.m.panics.Inc()
			s.log.Error().Interface("panic", r).Bytes("stack", debug.Stack()).Stringer("peer", x.View.Peer).
				Msg("handler panicked")
			x.afterPanic()
		}
	}()
	h := s.handler
	if x.c != nil && x.c.opts.Handler != nil {
		h = x.c.opts.Handler
	}
	h.ServeExchange(x)
}

// Shutdown stops accepting and lets work end: answers carry Connection: close, idle connections are closed. At the end
// of ctx the rest is cut. It returns nil, or ctx's error if anything had to be cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.mu.Lock()
	for ln := range s.listeners {
		_ = ln.Close()
	}
	for c := range s.open {
		c.closeIfIdle()
	}
	for _, h := range s.http2 {
		h.Drain()
	}
	s.mu.Unlock()
	return AwaitEnd(ctx, &s.running, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.open {
			sock := c.cut()
			s.running.Go(func() { _ = sock.Close() }) // waits for a handler to notice
		}
	})
}

// Close is Shutdown without a grace period.
func (s *Server) Close() error { return AtOnce(s.Shutdown) }

// AwaitEnd waits for running. If ctx ends first, it calls cut, waits, and returns ctx's error.
func AwaitEnd(ctx context.Context, running *sync.WaitGroup, cut func()) error {
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	cut()
	<-done
	return fmt.Errorf("shut down: %w", ctx.Err())
}

// AtOnce shuts down without a grace period.
func AtOnce(shutdown func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := shutdown(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// AddrOf returns the address of a TCP or UDP peer.
func AddrOf(a net.Addr) netip.Addr {
	if a, ok := a.(interface{ AddrPort() netip.AddrPort }); ok {
		return request.Unwrap(a.AddrPort().Addr().WithZone(""))
	}
	return netip.Addr{}
}

const (
	handshakeBurst  = 10    // seconds over which max_handshake_rate is an average
	handshakeOfMany = 10    // times, for the /48 of an IPv6 address
	handshakesKept  = 16384 // addresses, 16 bytes each
)

// handshakes limits the TLS handshakes of each address. Safe for concurrent use.
type handshakes struct {
	rates atomic.Pointer[handshakeRates]
}

type handshakeRates struct {
	perSecond int
	one, many *bounded.Rate
}

// of returns the rates for a limit, which a reload may change.
func (h *handshakes) of(perSecond int) *handshakeRates {
	if r := h.rates.Load(); r != nil && r.perSecond == perSecond {
		return r
	}
	rate := func(n int) *bounded.Rate {
		return bounded.NewRate(time.Second/time.Duration(n), handshakeBurst*n, handshakesKept)
	}
	r := &handshakeRates{perSecond: perSecond, one: rate(perSecond), many: rate(handshakeOfMany * perSecond)}
	h.rates.Store(r)
	return r
}

// take counts a handshake, and reports whether it is within the limit. Addresses that are not proven count apart: a
// forged one costs its owner nothing.
func (h *handshakes) take(addr netip.Addr, proven bool, perSecond int, at time.Time) bool {
	if perSecond == 0 || !addr.IsValid() {
		return true
	}
	r := h.of(perSecond)
	within := func(rate *bounded.Rate, addr netip.Addr) bool {
		if !proven && rate.Peek(rate.AddrKey(addr, 0), at) > 0 {
			return false
		}
		extra := uint64(1)
		if proven {
			extra = 0
		}
		return rate.Take(rate.AddrKey(addr, extra), at) == 0
	}
	if !within(r.one, addr) {
		return false
	}
	if addr.Is4() {
		return true
	}
	site, _ := addr.Prefix(48)
	return within(r.many, site.Addr())
}

// MayShakeHands counts a TLS handshake, and reports whether it is within http.max_handshake_rate. proven: the address
// is the client's.
func (s *Server) MayShakeHands(addr netip.Addr, proven bool) bool {
	if s.handshakes.take(addr, proven, s.cfg.Load().MaxHandshakeRate, time.Now()) {
		return true
	}
	if proven {
		s.m.limitHandshakeRate.Inc()
	}
	return false
}

// Refuse returns the answer to a request that could not be read.
func (s *Server) Refuse(status int, v *request.View) (fields []request.Field, body []byte) {
	if s.refuser != nil {
		fields, body = s.refuser.Refuse(status, v)
	}
	if body == nil {
		fields = []request.Field{{Name: nameContentType, Value: plainText}, {Name: nameCacheControl, Value: noStore}}
		body = append([]byte(fasthttp.StatusMessage(status)), '\n')
	}
	if status == 405 {
		fields = append(fields, request.Field{Name: []byte("Allow"), Value: []byte(allowed)})
	}
	return fields, body
}

const allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

var (
	nameContentType  = []byte("Content-Type")
	nameCacheControl = []byte("Cache-Control")
	plainText        = []byte("text/plain")
	noStore          = []byte("no-store")
)

// refuse answers bytes that are no valid request, and closes the connection.
func (c *conn) refuse(err error) {
	c.keep = false
	why, ok := err.(wire.Refusal) //nolint:errorlint // bare
	switch {
	case ok:
	case isTimeout(err):
		why = wire.HeadTimeout
		if line, _ := wire.CutLine(c.h.Raw); len(line) > c.cfg.maxTarget()+requestLineRest {
			why = wire.TargetTooLong
		}
	default:
		return // the client left
	}
	c.srv.m.refused[why].Inc()
	c.srv.log.Debug().Str("reason", why.Name()).Stringer("peer", c.peer).Uint64("conn", c.id).Msg("request refused")
	method := c.h.Method
	if method == nil { // the line is incomplete
		method, _, _ = bytes.Cut(c.h.Raw, []byte{' '})
	}
	c.x.View = request.View{
		At: time.Now(), Method: method, Peer: c.peer, TLS: c.opts.TLS != nil,
		Fields: readable(nil, c.h.Raw),
	}
	fields, body := c.srv.Refuse(why.Status(), &c.x.View)
	_ = c.Reply(why.Status(), fields, body)
	c.linger = true
}

const requestLineRest = 64

// readable appends the fields of a refused head's complete lines. They only choose the form and language of the answer.
func readable(dst []request.Field, raw []byte) []request.Field {
	_, rest := wire.CutLine(raw)
	for {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return dst
		}
		name, value, ok := bytes.Cut(rest[:end], []byte{':'})
		rest = rest[end+1:]
		value = wire.Trim(bytes.TrimSuffix(value, []byte{'\r'}))
		if ok && wire.IsName(name) && wire.IsText(value) {
			dst = append(dst, request.Field{Name: name, Value: value})
		}
	}
}
