package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"antirobot/proxy/socket"
)

// dial opens a connection to a reserved address. The end of ctx does not count against it. On an error the caller
// releases a remaining reservation.
func (a *address) dial(ctx context.Context) (*Conn, error) {
	a.m.dials.Inc()
	dctx, cancel := context.WithTimeout(ctx, a.g.cfg.DialTimeout)
	defer cancel()
	c, err := a.connect(dctx)
	if err == nil {
		a.reached()
		return c, nil
	}
	if err := ended(ctx); err != nil {
		return nil, fmt.Errorf("dial upstream %s: %w", a.name, err)
	}
	a.m.dialErrors.Inc()
	a.failed(err)
	return nil, fmt.Errorf("%w %s: %w", errDial, a.name, err)
}

// ended returns ctx's error. The socket's timer may fire before the context's.
func ended(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

func (a *address) connect(ctx context.Context) (*Conn, error) {
	nc, err := a.connectSocket(ctx)
	if err != nil {
		return nil, err
	}
	s, err := newSock(nc)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	c := &Conn{Conn: nc, a: a, sock: s, born: a.g.now()}
	if a.tls == nil {
		return c, nil
	}
	s.Conn = socket.Direct(nc)
	t := tls.Client(s, a.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	c.Conn, c.overTLS = t, true
	return c, nil
}

func (a *address) connectSocket(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	if a.target.network == "unix" {
		return d.DialContext(ctx, "unix", a.target.host)
	}
	ips, err := a.names.lookup(ctx, a.target.host, a.g.cfg.ResolveInterval)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, ip := range ips {
		// Each gets a share of the time, so that a black hole does not use it up.
		ictx, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok && i < len(ips)-1 {
			ictx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(ips)-i))
		}
		c, err := d.DialContext(ictx, "tcp", net.JoinHostPort(ip.String(), a.target.port))
		cancel()
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// resolver caches a name's addresses briefly, and longer while it can't be resolved.
type resolver struct {
	lookupIP func(ctx context.Context, network, host string) ([]netip.Addr, error)

	mu   sync.Mutex
	ips  []netip.Addr
	at   time.Time
	busy chan struct{} // closed after the lookup in progress
	turn int
}

// lookup returns the addresses to try: the preferred family in rotation, then the other.
func (r *resolver) lookup(ctx context.Context, host string, keep time.Duration) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	for {
		r.mu.Lock()
		if len(r.ips) > 0 && time.Since(r.at) <= keep {
			defer r.mu.Unlock()
			return r.order(), nil
		}
		if r.busy == nil {
			break
		}
		busy := r.busy
		r.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fmt.Errorf("resolve %s: %w", host, ctx.Err())
		}
		if keep == 0 {
			keep = time.Second // the awaited lookup is fresh
		}
	}
	done := make(chan struct{})
	r.busy = done
	r.mu.Unlock()

	ips, err := r.lookupIP(ctx, "ip", host)

	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(done)
	r.busy = nil
	if err == nil && len(ips) > 0 {
		r.ips, r.at = ips, time.Now()
	}
	if len(r.ips) == 0 {
		if err == nil {
			err = errors.New("no addresses")
		}
		return nil, fmt.Errorf("resolve %s: %w", host, err)
	}
	return r.order(), nil
}

// order requires mu, and ips.
func (r *resolver) order() []netip.Addr {
	same := 1
	for same < len(r.ips) && r.ips[same].Unmap().Is4() == r.ips[0].Unmap().Is4() {
		same++
	}
	out := make([]netip.Addr, 0, len(r.ips))
	for i := range same {
		out = append(out, r.ips[(r.turn+i)%same])
	}
	r.turn++
	return append(out, r.ips[same:]...)
}
