package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"antirobot/proxy/h1/hello"
	"antirobot/proxy/h1/wire"
	"antirobot/proxy/socket"
)

// greeter reads what precedes the first request: the PROXY header and the TLS handshake.
type greeter struct{ c *conn }

func (g greeter) greet() bool {
	c := g.c
	if !c.opts.ProxyProtocol && c.opts.TLS == nil {
		return true
	}
	if !c.state.CompareAndSwap(idle, active) {
		return false
	}
	c.setReadDeadline(time.Now().Add(c.cfg.HeaderTimeout))
	if c.opts.ProxyProtocol && !g.proxy() {
		return false
	}
	return c.opts.TLS == nil || g.tls()
}

// http2Preface begins HTTP/2 with prior knowledge.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func (g greeter) isHTTP2() bool {
	c := g.c
	if c.opts.HTTP2 == nil {
		return false
	}
	if t, ok := c.nc.(*tls.Conn); ok {
		return t.ConnectionState().NegotiatedProtocol == "h2"
	}
	if !c.opts.H2C {
		return false
	}
	c.setReadDeadline(time.Now().Add(c.cfg.HeaderTimeout))
	for n := 1; n <= len(http2Preface); n++ {
		b, err := c.br.Peek(n)
		if err != nil || b[n-1] != http2Preface[n-1] {
			return false
		}
	}
	return true
}

// serveHTTP2 hands the connection to the HTTP/2 front, which Shutdown drains.
func (g greeter) serveHTTP2() {
	c := g.c
	c.state.CompareAndSwap(idle, active)
	_ = c.nc.SetDeadline(time.Time{})
	nc := c.nc
	if n := c.br.Buffered(); n > 0 {
		nc = &hello.Early{Conn: c.nc, Bytes: c.takeBody(nil, n)}
	}
	if c.state.Load() != closed {
		c.opts.HTTP2.ServeConn(nc, c.origin())
	}
	_ = c.sock.Close()
}

func (c *conn) origin() Origin {
	return Origin{
		Peer: c.peer, Trusted: c.trusted, Counted: c.counted, TLS: c.opts.TLS != nil, JA4: c.ja4, Client: c.client,
		Behind: c.behind, AltSvc: c.opts.AltSvc,
	}
}

func (g greeter) proxy() bool {
	c := g.c
	addr, err := hello.ReadProxyHeader(c.br)
	if err != nil {
		c.srv.m.badProxyHeader.Inc()
		c.srv.log.Debug().Err(err).Stringer("peer", c.peer).Msg("no PROXY header")
		return false
	}
	if !addr.IsValid() {
		return true
	}
	c.peer = addr
	if c.opts.Trusted == nil || !c.opts.Trusted.Trusts(addr) {
		c.counts = addr
		if !c.srv.perAddr.Add(addr, c.cfg.MaxConnsPerAddr) {
			c.srv.m.limitAddr.Inc()
			return false
		}
		c.counted = true
		return c.opts.TLS == nil || c.srv.MayShakeHands(addr, true)
	}
	return true
}

func (g greeter) tls() bool {
	c := g.c
	under := socket.Direct(c.sock)
	if n := c.br.Buffered(); n > 0 { // the hello came with the PROXY header
		b, _ := c.br.Peek(n)
		under = &hello.Early{Conn: under, Bytes: append([]byte(nil), b...)}
	}
	alone := !c.opts.ProxyProtocol && !c.trusted // no balancer holds the socket
	pace := &hello.Paced{Conn: under, Done: !alone}
	t := tls.Server(pace, c.opts.TLS)
	_ = t.SetDeadline(time.Now().Add(c.cfg.HeaderTimeout))
	if err := t.HandshakeContext(hello.Context(context.Background(), &c.ja4, false)); err != nil {
		c.srv.m.limitHandshake.Inc()
		var plainText tls.RecordHeaderError
		if errors.As(err, &plainText) && plainText.Conn != nil && wire.StartsToken(plainText.RecordHeader[0]) {
			_, _ = c.sock.Write(appendPlainAnswer(nil, 400, false)) // plain HTTP on a TLS port
		}
		return false
	}
	if alone {
		c.behind = pace.Behind(c.sock)
	}
	// The write deadline stays: reading also writes, when a client updates its keys, and a client that reads nothing
	// would block it.
	_ = t.SetReadDeadline(time.Time{})
	c.readBy, c.out.by = time.Time{}, time.Time{}
	state := t.ConnectionState()
	switch state.NegotiatedProtocol {
	case "", "http/1.1", "h2":
	default:
		return false // an ACME challenge: the handshake was all
	}
	c.client = ClientName(&state)
	c.nc = t
	c.br.Reset(t)
	return true
}
