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

const (
	protocolHTTP1 = "http1"
	protocolHTTP2 = "h2"
)

// Pings after silence.
const (
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// dialsAtOnce bounds dials of one address. The transport dials for every request without a stream, and a connection
// carries a hundred.
const dialsAtOnce = 2

var errMade = errors.New("another connection was made")

var errNoHTTP2 = errors.New("it does not speak HTTP/2")

// HTTP2 reports whether requests go through RoundTrip, and not Get.
func (g *Group) HTTP2() bool { return g.cfg.Protocol == protocolHTTP2 }

// Answer is an HTTP/2 answer. Read Body to the end or close it, then call Release once.
type Answer struct {
	*http.Response
	a *address
}

// Addr is the host:port or socket path.
func (r *Answer) Addr() string { return r.a.name }

// Release ends the request. A non-nil err blames the address.
func (r *Answer) Release(err error) { r.a.leave(err) }

// RoundTrip sends a request and returns the answer's head. It tries further addresses while nothing was sent. The body
// may be read until the context ends. target is sent as it is; r.URL is set, and r.Host if empty. Errors: ErrUnreached
// with those of Get, the body's, the context's; others blame the address.
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
		// An opaque URL keeps the path byte for byte.
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
		a.active.Add(-1) // the failure is counted
		if last = err; !up || ended(r.Context()) != nil {
			return nil, fmt.Errorf("%w: %w", errNoUpstream, err)
		}
	}
}

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

func (t target) authority() string {
	if t.network == "unix" {
		return "localhost"
	}
	return t.String()
}

func protocolOf(protocol string) string {
	if protocol == protocolHTTP2 {
		return "h2"
	}
	return "http/1.1"
}

func (a *address) newHTTP2() *http.Transport {
	cfg := &a.g.cfg
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dialHTTP2(ctx) }
	t := &http.Transport{
		DialContext: dial, DialTLSContext: dial, Protocols: new(http.Protocols), DisableCompression: true,
		IdleConnTimeout: cfg.IdleTimeout, MaxResponseHeaderBytes: cfg.ReadBufferSize,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
			WriteByteTimeout: cfg.StreamIdleTimeout,
		},
	}
	t.Protocols.SetHTTP2(a.tls != nil)
	t.Protocols.SetUnencryptedHTTP2(a.tls == nil)
	return t
}

// takeTurn waits for fewer than dialsAtOnce dials. Their outcome is that of all who waited.
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

// dialHTTP2 opens a connection, counted until closed.
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

type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
