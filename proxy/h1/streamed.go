package h1

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// HTTP2 serves the connections of clients that speak it; package h2 implements it. Safe for concurrent use.
type HTTP2 interface {
	// ServeConn serves a connection whose handshake is done, until it and all its streams have ended.
	ServeConn(nc net.Conn, from Origin)
	// Drain asks the clients of all connections to leave: streams in progress go on, new ones are refused.
	Drain()
}

// Origin is where a connection comes from.
type Origin struct {
	Peer    netip.Addr    // the client; PROXY protocol has been applied
	Trusted bool          // a balancer holds the socket
	Counted bool          // the limits of an address apply to the peer
	Own     *atomic.Int64 // requests under way on its connection; nil: each counts as one of many
	TLS     bool
	JA4     []byte        // fingerprint of its TLS handshake; nil: not known
	Client  []byte        // verified name of its certificate; nil: it has none
	HTTP2   []byte        // and of its first frames; nil: not known
	HTTP3   bool          // it speaks HTTP/3
	AltSvc  []byte        // where else the site is, told with each answer in place of what its service says; nil: nothing is
	Behind  time.Duration // by how much later it answers than its connection's end; 0: not known
}

// Head is a request that came as separate fields instead of text. All bytes stay unchanged until Serve returns.
type Head struct {
	Method, Target []byte
	Fields         []request.Field // names in lower case; the first is host
	Length         int64           // of the body: 0 if there is none, -1 if it is not known
	WebSocket      bool            // a WebSocket is asked for, which has no key (RFC 8441); the method is GET

	// Settle waits until it is known whether there is a body, and sets Length; nil: it is known. A status other than 0 is what to
	// tell the client.
	Settle func() (status int)
}

// Streamed is the exchange of a client that does not speak HTTP/1. It serves one request after another; made by
// Server.Streamed.
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

// Serve hands a request to the handler and returns when it is answered. A request that can't be expressed unambiguously in
// HTTP/1.1 is not handed over: status is then what to tell the client.
func (x *Streamed) Serve(r *Head, from Origin) (status int) {
	cfg := x.srv.cfg.Load()
	if err := fromFields(&x.head, r, cfg); err != nil {
		return x.refuse(err, &from)
	}
	if !x.srv.enter(cfg, &from) {
		return statusBusy
	}
	defer x.srv.leave(&from)
	if r.Settle != nil { // only now: who makes it wait holds a request
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

// refuse counts a request that is not handed over.
func (x *Streamed) refuse(err error, from *Origin) (status int) {
	why, _ := err.(wire.Refusal) //nolint:errorlint // it is never wrapped
	x.srv.m.refused[why].Inc()
	x.srv.log.Debug().Str("reason", why.Name()).Stringer("peer", from.Peer).Msg("request refused")
	return why.Status()
}

// statusBusy is the answer to a request beyond the limits of requests under way.
const statusBusy = 503

// enter counts a request that is no connection of its own, and reports whether it is within the limits: a client of HTTP/2 has a hundred of
// them on each of its connections, and every one holds a goroutine, buffers and a connection to the service.
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
	if s.underWay.Add(from.Peer, most) {
		return true
	}
	if from.Own != nil {
		from.Own.Add(-1)
	}
	s.streamed.Add(-1)
	s.m.limitOfAddr.Inc()
	return false
}

// OwnRequests is how many requests a connection may have under way although its address has as many as it may: those who share an
// address with a client that takes all of them go on, as over HTTP/1.1.
const OwnRequests = 8

// Crowded reports whether an address has half of the requests under way that it may have. A connection that begins then is better
// told to ask for OwnRequests at a time than answered 503 for the others.
func (s *Server) Crowded(peer netip.Addr, trusted bool) bool {
	most := s.cfg.Load().MaxRequestsPerAddr
	return most > 0 && !trusted && s.underWay.Of(peer) >= (most+1)/2
}

func (s *Server) leave(from *Origin) {
	s.streamed.Add(-1)
	if !from.Counted {
		return
	}
	s.underWay.Remove(from.Peer)
	if from.Own != nil {
		from.Own.Add(-1)
	}
}

// Config returns the configuration that currently applies to requests.
func (s *Server) Config() *Config { return s.cfg.Load() }

// fromFields and frame are parseRequest for a request that is not text: the second needs the length of its body.
func fromFields(h *wire.Head, r *Head, cfg *Config) error {
	h.Reset()
	h.Minor = 1
	switch {
	case !wire.IsName(r.Method):
		return wire.BadMethod
	case string(r.Method) == "CONNECT":
		return wire.ConnectRefused
	case int64(len(r.Target)) > cfg.MaxTargetBytes:
		return wire.TargetTooLong
	case !wire.ValidTarget(r.Method, r.Target):
		return wire.BadTarget
	case len(r.Fields) > cfg.MaxHeaderFields:
		return wire.TooManyFields
	}
	h.Method, h.Target = r.Method, r.Target
	if err := h.TreatHigh(cfg.HighBytes, cfg.MaxTargetBytes); err != nil {
		return err
	}
	size := int64(len(r.Method) + len(r.Target))
	for i := range r.Fields {
		f := &r.Fields[i]
		if r.WebSocket && request.EqualFold(f.Name, socketKeyName) {
			continue // it has no meaning here, and the service gets the gateway's
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
		return wire.BadLength // the announced length differs from the actual one
	}
	h.Chunked = r.Length < 0
	h.SaysEmpty = r.Length == 0 && h.Length < 0 && hasBody(r.Method)
	return h.ParseRequestFields()
}

// hasBody reports whether a method means something by its body: some services answer 411 to one without a length (RFC 9110
// section 8.6).
func hasBody(method []byte) bool {
	switch string(method) {
	case "POST", "PUT", "PATCH":
		return true
	}
	return false
}

// addField adds a field, if HTTP/2 may carry it.
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
