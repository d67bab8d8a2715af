// Package extauthz answers Envoy over gRPC (envoy.service.auth.v3.Authorization) with the answers of the HTTP check.
//
// Invariants:
// 1. Only Envoy's description of a request reaches the check, without pseudo fields and fields of the connection.
// 2. A request with its whole body is judged as inline; without it, as over HTTP.
// 3. A call that can't be judged fails, so that failure_mode_allow decides.
// 4. Connections, streams and messages are bounded.
package extauthz

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"

	"antirobot/proxy/h1"
	"antirobot/request"
)

// Server answers Envoy's calls. Safe for concurrent use; made by New.
type Server struct {
	deps  Deps
	http  *http.Server
	calls sync.Pool
	held  atomic.Int64 // bytes of all messages in progress
	said  atomic.Int64 // last logged refusal, unix seconds

	asked, broken, refused *metrics.Counter
}

// Deps is what a Server works with. All are required.
type Deps struct {
	// Whole serves a check of style full with location Human; Bare one of style verdict with the fields envoy and
	// BarePath.
	Whole, Bare *h1.Server
	Trusted     h1.Balancers // who may ask
	// SecretField carries the secret, which the check compares.
	SecretField string
	Log         zerolog.Logger
	Metrics     *metrics.Set
}

const (
	maxConns    = 4096
	maxStreams  = 1024
	maxMessage  = 4 << 20  // bytes, as grpc servers have it; Envoy's max_request_bytes is to be below
	maxHeld     = 64 << 20 // bytes of all messages together
	readTimeout = 10 * time.Second
	idleTimeout = 10 * time.Minute
)

// New makes a server.
func New(d Deps) *Server {
	s := &Server{
		deps:    d,
		asked:   d.Metrics.GetOrCreateCounter("antirobot_ext_authz_requests_total"),
		broken:  d.Metrics.GetOrCreateCounter("antirobot_ext_authz_broken_total"),
		refused: d.Metrics.GetOrCreateCounter("antirobot_ext_authz_refused_total"),
	}
	s.calls.New = func() any { return newCall(&s.deps) }
	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler: s, Protocols: only, IdleTimeout: idleTimeout, ReadHeaderTimeout: readTimeout,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: log.New(io.Discard, "", 0), // callers cause its errors
	}
	return s
}

// Serve answers on ln until Shutdown or Close, and then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(netutil.LimitListener(ln, maxConns)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting and waits for calls until ctx ends, when connections are cut.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	return err
}

// Close is Shutdown without a grace period.
func (s *Server) Close() error { return s.http.Close() }

// gRPC statuses.
const (
	invalidArgument = "3"
	exhausted       = "8"
	unimplemented   = "12"
	unavailable     = "14"
)

const method = "/envoy.service.auth.v3.Authorization/Check"

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer := peerOf(r)
	w.Header().Set("Content-Type", "application/grpc")
	secret := s.secretOf(r)
	switch {
	case r.Method != http.MethodPost || r.URL.Path != method ||
		!strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		s.fail(w, peer, s.broken, unimplemented, "only "+method+" is answered here")
		return
	case !s.deps.Trusted.Trusts(peer) && len(secret.Name) == 0:
		s.fail(w, peer, s.refused, strconv.Itoa(permissionDenied),
			"this address may not ask: it is not in check.allowed, and sent no secret")
		return
	}
	k := s.calls.Get().(*call)
	n, code, problem := s.read(k, w, r)
	defer s.held.Add(-n)
	defer s.release(k)
	if code != "" {
		s.fail(w, peer, s.broken, code, problem)
		return
	}
	s.asked.Inc()
	status := k.ask(peer, secret)
	if status == 0 || status >= 500 {
		s.fail(w, peer, s.broken, unavailable, "the request can't be judged")
		return
	}
	k.message = k.appendAnswer(append(k.message[:0], 0, 0, 0, 0, 0), status)
	binary.BigEndian.PutUint32(k.message[1:], uint32(len(k.message)-prefix))
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	_, _ = w.Write(k.message) // Envoy may have left
}

func (s *Server) release(k *call) {
	const kept = 256 << 10
	if cap(k.message)+cap(k.body) <= kept {
		s.calls.Put(k)
	}
}

const prefix = 5

// read reads the question. n bytes are held, also on failure, which has a gRPC code.
func (s *Server) read(k *call, w http.ResponseWriter, r *http.Request) (n int64, code, problem string) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	var head [prefix]byte
	if _, err := io.ReadFull(r.Body, head[:]); err != nil {
		return 0, invalidArgument, "the call has no message"
	}
	size := int64(binary.BigEndian.Uint32(head[1:]))
	switch {
	case head[0] != 0:
		return 0, unimplemented, "messages must not be compressed"
	case size > maxMessage:
		return 0, exhausted, "a message is longer than 4 MiB: lower max_request_bytes of with_request_body"
	}
	if s.held.Add(size) > maxHeld {
		return size, exhausted, "too many messages at once"
	}
	if int64(cap(k.message)) < size {
		k.message = make([]byte, size)
	}
	k.message = k.message[:size]
	if _, err := io.ReadFull(r.Body, k.message); err != nil {
		return size, invalidArgument, "the message is cut off"
	}
	if !k.q.read(k.message, s.deps.Whole.Config().MaxHeaderFields) {
		return size, invalidArgument, "the message is no CheckRequest"
	}
	return size, "", ""
}

// fail ends a call with a gRPC code, subject to failure_mode_allow.
func (s *Server) fail(w http.ResponseWriter, peer netip.Addr, count *metrics.Counter, code, problem string) {
	count.Inc()
	const every = 10
	if now, last := time.Now().Unix(), s.said.Load(); now-last >= every && s.said.CompareAndSwap(last, now) {
		s.deps.Log.Warn().Stringer("caller", peer).Str("problem", problem).
			Msg("a call of Envoy was not answered; see docs/balancers.md")
	}
	w.Header().Set("Grpc-Status", code)
	w.Header().Set("Grpc-Message", problem)
}

// secretOf is the caller's secret field; unnamed: none.
func (s *Server) secretOf(r *http.Request) request.Field {
	name := s.deps.SecretField
	if v := r.Header.Values(name); len(v) == 1 {
		return request.Field{Name: []byte(strings.ToLower(name)), Value: []byte(v[0])}
	}
	return request.Field{}
}

func peerOf(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return request.Unwrap(a.Addr())
}
