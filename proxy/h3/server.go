// Package h3 is the front for HTTP/3. quic-go handles connections and frames; package streams makes an h1.Exchange of
// each request.
//
// Invariants, in addition to those of package streams:
// 1. A connection counts against its address once the handshake has validated it. With many handshakes, addresses are
// validated first (Retry).
// 2. Each request has the address at which it began, also after a migration.
// 3. Requests in 0-RTT data, which others could replay, are never accepted.
// 4. Config bounds what a client can make the gateway keep, and how often it may reset requests.
// 5. Few heads of a connection are read at a time, each with a deadline.
package h3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/VictoriaMetrics/metrics"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"antirobot/proxy/h1"
	"antirobot/proxy/h1/hello"
	"antirobot/proxy/streams"
)

// Server serves HTTP/3 with the handler and limits of an h1.Server. Safe for concurrent use; made by New.
type Server struct {
	cfg     Config
	streams *streams.Server
	deps    Deps
	m       *serverMetrics

	mu       sync.Mutex
	draining bool
	sockets  map[*quic.Listener]struct{}
	open     map[*conn]struct{}
	running  sync.WaitGroup
}

// Deps is what a Server works with. Front and Metrics are required.
type Deps struct {
	Front   *h1.Server
	Metrics *metrics.Set

	// ResetKey and TokenKey outlive the process: for stateless resets, and for address validation tokens.
	ResetKey, TokenKey [32]byte
}

// New makes a Server.
func New(cfg Config, d Deps) (*Server, error) {
	if err := hush(); err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	return &Server{
		cfg: cfg, streams: streams.New(d.Front, isReset), deps: d, m: newServerMetrics(d.Metrics),
		sockets: make(map[*quic.Listener]struct{}), open: make(map[*conn]struct{}),
	}, nil
}

// Options are shared by all connections of a socket.
type Options struct {
	TLS     *tls.Config  // NextProtos is set here
	Trusted h1.Balancers // nil: none
	AltSvc  []byte       // see h1.Origin
}

// TLS derives the configuration for QUIC.
func TLS(cfg *tls.Config) *tls.Config {
	q := cfg.Clone()
	q.MinVersion, q.NextProtos = tls.VersionTLS13, []string{http3.NextProtoH3}
	return q
}

// AltSvc is the field's value for a port. Browsers remember for a day that the site speaks HTTP/3.
func AltSvc(port int) []byte { return fmt.Appendf(nil, `h3=":%d"; ma=86400`, port) }

// Serve serves a UDP socket until Shutdown, and closes it. It may run for several sockets.
func (s *Server) Serve(pc net.PacketConn, o Options) error {
	defer pc.Close()
	tr := &quic.Transport{
		Conn: pc, StatelessResetKey: (*quic.StatelessResetKey)(&s.deps.ResetKey),
		TokenGeneratorKey:   (*quic.TokenGeneratorKey)(&s.deps.TokenKey),
		VerifySourceAddress: func(peer net.Addr) bool { return s.doubts(h1.AddrOf(peer), &o) },
	}
	tr.ConnContext = func(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
		return s.greet(ctx, info, &o)
	}
	defer tr.Close()
	usual, few := s.quicConfig(s.cfg.MaxStreams), s.quicConfig(min(s.cfg.MaxStreams, h1.OwnRequests))
	usual.GetConfigForClient = func(info *quic.ClientInfo) (*quic.Config, error) {
		if addr := h1.AddrOf(info.RemoteAddr); s.deps.Front.Crowded(addr, o.trusts(addr)) {
			return few, nil
		}
		return usual, nil
	}
	ln, err := tr.Listen(o.TLS, usual)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if !s.track(ln) {
		_ = ln.Close()
		return h1.ErrServerClosed
	}
	for {
		qc, err := ln.Accept(context.Background())
		if err == nil {
			s.admit(qc, &o)
			continue
		}
		if errors.Is(err, quic.ErrServerClosed) {
			s.running.Wait()
			return h1.ErrServerClosed
		}
		return fmt.Errorf("accept: %w", err)
	}
}

// quicConfig allows so many requests per connection.
func (s *Server) quicConfig(most int) *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout:           s.deps.Front.Config().HeaderTimeout / 2, // the handshake may take twice that
		MaxIdleTimeout:                 s.cfg.PingAfter + s.cfg.PingTimeout,
		KeepAlivePeriod:                s.cfg.PingAfter,
		InitialStreamReceiveWindow:     uint64(s.cfg.StreamWindow),
		MaxStreamReceiveWindow:         uint64(s.cfg.StreamWindow),
		InitialConnectionReceiveWindow: uint64(min(s.cfg.ConnWindow, firstWindow)),
		MaxConnectionReceiveWindow:     uint64(s.cfg.ConnWindow),
		MaxIncomingStreams:             int64(most),
		MaxIncomingUniStreams:          uniStreams,
		Tracer:                         tracer,
	}
}

const firstWindow = 256 << 10

const uniStreams = 8

func (s *Server) track(ln *quic.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.sockets[ln] = struct{}{}
	return true
}

// doubts reports whether an address must be validated before any state is kept.
func (s *Server) doubts(peer netip.Addr, o *Options) bool {
	if s.m.handshakes.Load() < int64(s.cfg.MaxHandshakes) &&
		(o.trusts(peer) || s.deps.Front.MayShakeHands(peer, false)) {
		return false
	}
	s.m.retries.Inc()
	return true
}

type handshake struct {
	ja4     []byte
	counted bool // against its validated address
	done    sync.Once
	pieces  pieces
}

type handshakeKey struct{}

var errTooMany = errors.New("too many connections")

// greet is called with a connection's first packet. ctx ends with the connection.
func (s *Server) greet(ctx context.Context, info *quic.ClientInfo, o *Options) (context.Context, error) {
	h := &handshake{counted: info.AddrVerified}
	if h.counted && !s.count(ctx, info.RemoteAddr, o) {
		return nil, errTooMany
	}
	if !o.trusts(h1.AddrOf(info.RemoteAddr)) { // a balancer carries many clients
		h.pieces.most, h.pieces.control.Most = s.cfg.MaxPieces, s.cfg.MaxControlFrames
	}
	s.m.handshakes.Add(1)
	context.AfterFunc(ctx, func() { s.settled(h, false) })
	return hello.Context(context.WithValue(ctx, handshakeKey{}, h), &h.ja4, true), nil
}

// settled is called when a handshake has succeeded or its connection has ended.
func (s *Server) settled(h *handshake, ok bool) {
	h.done.Do(func() {
		s.m.handshakes.Add(-1)
		if !ok {
			s.m.failed.Inc()
		}
	})
}

// count counts a connection and its handshake until ctx ends; false: over a limit.
func (s *Server) count(ctx context.Context, peer net.Addr, o *Options) bool {
	addr := h1.AddrOf(peer)
	if !o.trusts(addr) && !s.deps.Front.MayShakeHands(addr, true) {
		return false
	}
	leave, ok := s.deps.Front.Admit(addr, o.trusts(addr))
	if ok {
		context.AfterFunc(ctx, leave)
	}
	return ok
}

func (o *Options) trusts(peer netip.Addr) bool { return o.Trusted != nil && o.Trusted.Trusts(peer) }

func (s *Server) admit(qc *quic.Conn, o *Options) {
	h, _ := qc.Context().Value(handshakeKey{}).(*handshake)
	s.settled(h, true)
	if !h.counted && !s.count(qc.Context(), qc.RemoteAddr(), o) {
		go qc.CloseWithError(excessiveLoad, errTooMany.Error())
		return
	}
	state := qc.ConnectionState().TLS
	s.m.accepted.Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		go qc.CloseWithError(noError, "")
		return
	}
	c := newConn(s, qc, h1.Origin{
		Trusted: o.trusts(h1.AddrOf(qc.RemoteAddr())), Counted: !o.trusts(h1.AddrOf(qc.RemoteAddr())), TLS: true,
		JA4: h.ja4, Client: h1.ClientName(&state), HTTP3: true, AltSvc: o.AltSvc,
	})
	h.pieces.conn.Store(c)
	s.open[c] = struct{}{}
	s.m.openConns.Add(1)
	s.running.Go(func() {
		c.serve()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
		s.m.openConns.Add(-1)
	})
}

// Shutdown stops accepting, sends GOAWAY, and waits for requests until ctx ends, when they are cut. It returns nil, or
// ctx's error if anything had to be cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	for c := range s.open {
		c.leave()
	}
	for ln := range s.sockets {
		go ln.Close()
	}
	s.mu.Unlock()
	return h1.AwaitEnd(ctx, &s.running, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.open {
			c.cut()
		}
	})
}

// Close is Shutdown without a grace period.
func (s *Server) Close() error { return h1.AtOnce(s.Shutdown) }

// WantedBuffer is the UDP buffer that quic-go wants, in bytes and each direction. With less, bursts lose packets.
const WantedBuffer = 7 << 20

// hush silences quic-go's warning about that, which `antirobot doctor` explains.
func hush() error { return os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") }
