package h1

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// HTTP2 serves HTTP/2 connections; package h2 implements it. Safe for concurrent use.
type HTTP2 interface {
	// ServeConn serves a connection after its handshake, until its streams have ended.
	ServeConn(nc net.Conn, from Origin)
	// Drain sends GOAWAY on all connections.
	Drain()
}

// Origin is where a connection comes from.
type Origin struct {
	Peer    netip.Addr    // the client, after PROXY protocol
	Trusted bool          // a balancer holds the socket
	Counted bool          // limits per address apply
	Own     *atomic.Int64 // requests in flight on the connection; nil: unknown
	TLS     bool
	JA4     []byte // nil: unknown
	Client  []byte // verified name of its certificate; nil: none
	HTTP2   []byte // fingerprint of its first frames; nil: unknown
	HTTP3   bool
	AltSvc  []byte        // replaces the service's; nil: none
	Behind  time.Duration // see View.Behind; 0: unknown
}

// Head is a request of separate fields. Its bytes stay unchanged until Serve returns.
type Head struct {
	Method, Target []byte
	Fields         []request.Field // lower case; the first is host
	Length         int64           // of the body: 0: none, -1: unknown
	WebSocket      bool            // without a key (RFC 8441); the method is GET

	// Settle waits until Length is known; nil: it is. A status other than 0 is the answer.
	Settle func() (status int)
}

// Streamed is the exchange of a client that does not speak HTTP/1. Made by Server.Streamed.
type Streamed struct {
	Exchange
	srv  *Server
	head wire.Head
	key  socketKey
}

// Streamed makes the exchange of a client.
func (s *Server) Streamed(client Client) *Streamed {
	x := &Streamed{srv: s}
	x.bind(s, client, &x.head)
	return x
}

// Serve hands a request to the handler until it is answered. A request that HTTP/1.1 can't express unambiguously gets
// status.
func (x *Streamed) Serve(r *Head, from Origin) (status int) {
	cfg := x.srv.cfg.Load()
	if err := fromFields(&x.head, r, cfg); err != nil {
		return x.refuse(err, &from)
	}
	if !x.srv.enter(cfg, &from) {
		return statusBusy
	}
	defer x.srv.leave(&from)
	if r.Settle != nil { // after enter, which counts it
		if status := r.Settle(); status != 0 {
			return status
		}
	}
	if err := frame(&x.head, r); err != nil {
		return x.refuse(err, &from)
	}
	if r.WebSocket {
		x.key.make(&x.head)
	}
	x.start(cfg, from)
	x.View.HTTP2, x.View.HTTP3 = true, from.HTTP3
	x.srv.handle(&x.Exchange)
	x.finish()
	return 0
}

func (x *Streamed) refuse(err error, from *Origin) (status int) {
	why, _ := err.(wire.Refusal) //nolint:errorlint // bare
	x.srv.m.refused[why].Inc()
	x.srv.log.Debug().Str("reason", why.Name()).Stringer("peer", from.Peer).Msg("request refused")
	return why.Status()
}

const statusBusy = 503

// enter counts a request in flight, and reports whether it is within the limits: each holds a goroutine, buffers and a
// connection to the service.
func (s *Server) enter(cfg *Config, from *Origin) bool {
	if n := s.streamed.Add(1); cfg.MaxRequests > 0 && n > int64(cfg.MaxRequests) {
		s.streamed.Add(-1)
		s.m.limitRequests.Inc()
		return false
	}
	if !from.Counted {
		return true
	}
	most := cfg.MaxRequestsPerAddr
	if from.Own != nil && from.Own.Add(1) <= OwnRequests {
		most = 0
	}
	if s.inFlight.Add(from.Peer, most) {
		return true
	}
	if from.Own != nil {
		from.Own.Add(-1)
	}
	s.streamed.Add(-1)
	s.m.limitOfAddr.Inc()
	return false
}

// OwnRequests is how many requests in flight a connection may have when its address has used up its limit: neighbours
// of a busy client continue.
const OwnRequests = 8

// Crowded reports whether an address uses half of its limit, so that a new connection is better limited to OwnRequests.
func (s *Server) Crowded(peer netip.Addr, trusted bool) bool {
	most := s.cfg.Load().MaxRequestsPerAddr
	return most > 0 && !trusted && s.inFlight.Of(peer) >= (most+1)/2
}

func (s *Server) leave(from *Origin) {
	s.streamed.Add(-1)
	if !from.Counted {
		return
	}
	s.inFlight.Remove(from.Peer)
	if from.Own != nil {
		from.Own.Add(-1)
	}
}

// Config returns the current limits.
func (s *Server) Config() *Config { return s.cfg.Load() }

// fromFields parses the fields of a request; frame its framing, once the length is known.
func fromFields(h *wire.Head, r *Head, cfg *Config) error {
	h.Reset()
	h.Minor = 1
	switch {
	case !wire.IsName(r.Method):
		return wire.BadMethod
	case string(r.Method) == "CONNECT":
		return wire.ConnectRefused
	case len(r.Target) > cfg.maxTarget():
		return wire.TargetTooLong
	case !wire.ValidTarget(r.Method, r.Target):
		return wire.BadTarget
	case len(r.Fields) > cfg.MaxHeaderFields:
		return wire.TooManyFields
	}
	h.Method, h.Target = r.Method, r.Target
	size := int64(len(r.Method) + len(r.Target))
	for i := range r.Fields {
		f := &r.Fields[i]
		if r.WebSocket && request.EqualFold(f.Name, socketKeyName) {
			continue // the service gets the gateway's
		}
		if err := addField(h, f); err != nil {
			return err
		}
		size += int64(len(f.Name) + len(f.Value) + len(": \r\n"))
	}
	if size > cfg.MaxHeaderBytes {
		return wire.HeadTooLong
	}
	return nil
}

func frame(h *wire.Head, r *Head) error {
	if err := h.ParseFraming(false); err != nil {
		return err
	}
	if h.Length >= 0 && h.Length != r.Length {
		return wire.BadLength // the announced length is wrong
	}
	h.Chunked = r.Length < 0
	h.SaysEmpty = r.Length == 0 && h.Length < 0 && hasBody(r.Method)
	return h.ParseRequestFields()
}

// hasBody reports whether a method usually has a body: some services answer 411 without a length (RFC 9110 section
// 8.6).
func hasBody(method []byte) bool {
	switch string(method) {
	case "POST", "PUT", "PATCH":
		return true
	}
	return false
}

func addField(h *wire.Head, f *request.Field) error {
	switch {
	case !wire.IsName(f.Name):
		return wire.BadName
	case !wire.IsText(f.Value) || len(wire.Trim(f.Value)) != len(f.Value):
		return wire.BadValue
	}
	for _, c := range f.Name {
		if request.Lower(c) != c {
			return wire.BadName
		}
	}
	k := wire.KindOf(f.Name)
	switch k {
	case wire.Connection, wire.Encoding, wire.Upgrade:
		return wire.ConnectionField
	case wire.Hop:
		if string(f.Name) == "keep-alive" || string(f.Name) == "proxy-connection" {
			return wire.ConnectionField
		}
	case wire.TE:
		if string(f.Value) != "trailers" {
			return wire.ConnectionField
		}
	}
	h.Fields = append(h.Fields, *f)
	h.Kinds = append(h.Kinds, k)
	return nil
}
