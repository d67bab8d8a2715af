package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/proxy/socket"
)

// The protocols of a service.
const (
	protocolHTTP1 = "http1"
	protocolHTTP2 = "h2"
)

// After so long without a frame, a service is asked whether it is there, and has so long to say so.
const (
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// dialsAtOnce bounds the connections to one address that are being opened. The transport begins one for every request that finds
// no room, and keeps them all: a burst of requests would be as many connections, where one may carry a hundred.
const dialsAtOnce = 2

// errMade says that a connection was made while this one waited for its turn. Who asked for it has got that one, or tries again.
var errMade = errors.New("another connection was made")

// errNoHTTP2 means that an address has chosen another protocol in the handshake.
var errNoHTTP2 = errors.New("it does not speak HTTP/2")

// HTTP2 reports whether the service is spoken to in HTTP/2: requests then go through RoundTrip, and not through Get.
func (g *Group) HTTP2() bool { return g.cfg.Protocol == protocolHTTP2 }

// Answer is a service's answer over HTTP/2. Its Body has to be read to the end or closed, and then Release called once.
type Answer struct {
	*http.Response
	a *address
}

// Addr is the address as host:port or socket path.
func (r *Answer) Addr() string { return r.a.name }

// Release ends the request. A non-nil err says that the address is to blame.
func (r *Answer) Release(err error) { r.a.leave(err) }

// RoundTrip sends a request and returns the head of the answer. If an address can't be reached, the next one is tried, as
// nothing of the request has been sent then. Its body may still be read afterwards, until the context ends. target is sent
// as it is. r.URL is set here, and r.Host if it is empty. Errors: ErrUnreached with those of Get; that of the body, or of the
// context; otherwise the address has failed, and counts as such.
func (g *Group) RoundTrip(r *http.Request, target string) (*Answer, error) {
	if g.closed.Load() {
		return nil, fmt.Errorf("%w: %w: closed", ErrUnreached, errNoUpstream)
	}
	var tried uint64
	last := errors.New("no address")
	given := r.Host
	for {
		a, up := g.pick(tried)
		if a == nil {
			return nil, fmt.Errorf("%w: %w: %w", ErrUnreached, errNoUpstream, last)
		}
		tried |= 1 << a.index
		if r.Host = given; given == "" {
			r.Host = a.target.authority()
		}
		scheme := "http"
		if a.tls != nil {
			scheme = "https"
		}
		// With an opaque part of this form the path is sent byte for byte, two slashes at its beginning included.
		r.URL = &url.URL{Scheme: scheme, Host: a.target.authority(), Opaque: scheme + "://" + r.Host + target}
		a.active.Add(1)
		res, err := a.http2.RoundTrip(r) //nolint:bodyclose // it is in the Answer
		for errors.Is(err, errMade) {
			res, err = a.http2.RoundTrip(r) //nolint:bodyclose // as above
		}
		if err == nil {
			return &Answer{res, a}, nil
		}
		if !errors.Is(err, ErrUnreached) {
			if r.Context().Err() != nil {
				a.leave(nil)
			} else {
				a.leave(err)
			}
			return nil, fmt.Errorf("upstream %s: %w", a.name, err)
		}
		a.active.Add(-1) // what was wrong has been counted
		if last = err; !up || ended(r.Context()) != nil {
			return nil, fmt.Errorf("%w: %w", errNoUpstream, err)
		}
	}
}

// leave ends a request over HTTP/2; a non-nil err says that the address is to blame.
func (a *address) leave(err error) {
	a.active.Add(-1)
	switch {
	case err != nil:
		a.failed(err)
	case a.fails.Load() != 0:
		a.succeeded()
	}
	if a.g.closed.Load() {
		a.http2.CloseIdleConnections()
		a.g.publish()
	}
}

// authority is what stands for an address in a URL.
func (t target) authority() string {
	if t.network == "unix" {
		return "localhost"
	}
	return t.String()
}

// protocolOf is a protocol's name in a handshake.
func protocolOf(protocol string) string {
	if protocol == protocolHTTP2 {
		return "h2"
	}
	return "http/1.1"
}

// newHTTP2 makes what keeps the connections to an address. They are made as those of HTTP/1 are.
func (a *address) newHTTP2() *http.Transport {
	cfg := &a.g.cfg
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dialHTTP2(ctx) }
	t := &http.Transport{
		DialContext: dial, DialTLSContext: dial, Protocols: new(http.Protocols), DisableCompression: true,
		IdleConnTimeout: cfg.IdleTimeout, MaxResponseHeaderBytes: cfg.ReadBufferSize,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: cfg.StreamIdleTimeout},
	}
	t.Protocols.SetHTTP2(a.tls != nil)
	t.Protocols.SetUnencryptedHTTP2(a.tls == nil)
	return t
}

// takeTurn waits until fewer than dialsAtOnce connections are being opened. What became of those decides about all that waited: if
// one was made, no other is; if one failed, so have they.
func (a *address) takeTurn(ctx context.Context) error {
	made, unmade := a.made.Load(), a.unmade.Load()
	select {
	case a.dials <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case a.made.Load() != made:
		<-a.dials
		return errMade
	case a.unmade.Load() != unmade:
		<-a.dials
		return fmt.Errorf("%w: %w %s: another try has just failed", ErrUnreached, errDial, a.name)
	}
	return nil
}

// dialHTTP2 opens a connection, which counts until it is closed.
func (a *address) dialHTTP2(ctx context.Context) (net.Conn, error) {
	if err := a.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer func() { <-a.dials }()
	if !a.reserve() {
		return nil, fmt.Errorf("%w: %w: %s has max_conns connections", ErrUnreached, ErrBusy, a.name)
	}
	a.m.dials.Inc()
	ctx, cancel := context.WithTimeout(ctx, a.g.cfg.DialTimeout)
	defer cancel()
	nc, err := a.connectHTTP2(ctx)
	if err != nil {
		a.open.Add(-1)
		a.unmade.Add(1)
		a.m.dialErrors.Inc()
		a.failed(err)
		return nil, fmt.Errorf("%w: %w %s: %w", ErrUnreached, errDial, a.name, err)
	}
	a.made.Add(1)
	a.reached()
	return nc, nil
}

func (a *address) connectHTTP2(ctx context.Context) (net.Conn, error) {
	nc, err := a.connectSocket(ctx)
	if err != nil {
		return nil, err
	}
	c := &counted{Conn: socket.Direct(nc), open: &a.open}
	if a.tls == nil {
		return c, nil
	}
	t := tls.Client(c, a.tls)
	err = t.HandshakeContext(ctx)
	if err == nil && t.ConnectionState().NegotiatedProtocol != "h2" {
		err = errNoHTTP2
	}
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return t, nil
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
