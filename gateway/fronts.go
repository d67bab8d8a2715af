package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"antirobot/config"
	"antirobot/identity"
	"antirobot/proxy"
	"antirobot/proxy/acme"
	"antirobot/proxy/extauthz"
	"antirobot/proxy/h1"
	"antirobot/proxy/h2"
	"antirobot/proxy/h3"
	"antirobot/proxy/spoe"
	"antirobot/spravka"
)

// fronts are the listeners: for visitors, for balancers that ask, and the private one.
type fronts struct {
	*base
	certs   *certs
	proxy   *proxy.Gateway
	trusted *identity.Resolver
	server  *h1.Server
	http2   *h2.Server // nil: off
	http3   *h3.Server // nil: no listener speaks it
	checks  checks

	visitors []string // addresses of the listeners for visitors
	admin    string   // address of the private listener; empty: none
	serving  sync.WaitGroup
	failed   chan error // a listener that ended by itself
	draining atomic.Bool
}

func (f *fronts) open(gateway *proxy.Gateway, trusted *identity.Resolver, keys *spravka.Keys) (err error) {
	f.proxy, f.trusted = gateway, trusted
	f.server, err = h1.NewServer(f.Config().HTTP, h1.Deps{
		Handler: gateway, Refuser: gateway, Log: f.Logger("http"),
		Metrics: f.set,
	})
	if err != nil {
		return err
	}
	if f.Config().HTTP2.Enabled {
		if f.http2, err = h2.New(f.Config().HTTP2, h2.Deps{Front: f.server, Metrics: f.set}); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(f.Config().Listen, func(l config.Listener) bool { return l.HTTP3 }) {
		d := h3.Deps{Front: f.server, Metrics: f.set}
		node, _ := os.Hostname() // without one it has no name
		d.ResetKey, d.TokenKey = keys.Ring().QUICKeys(node)
		f.http3, err = h3.New(h3.DefaultConfig(), d)
	}
	return err
}

func (f *fronts) openChecks() error { return f.checks.open(f.proxy) }

func (f *fronts) close() error {
	err := f.server.Close()
	if f.http3 != nil {
		err = errors.Join(err, f.http3.Close())
	}
	return err
}

func (f *fronts) prepare(next *config.Config) (commit func(), err error) {
	var commits []func()
	for _, s := range append(f.checks.servers(), f.server) {
		commit, err := at("http")(s.Prepare(next.HTTP))
		if err != nil {
			return nil, err
		}
		commits = append(commits, commit)
	}
	return commitAll(commits), nil
}

type listener struct {
	net.Listener
	whose string // in the log
	tls   bool
	serve func(net.Listener) error

	udp     net.PacketConn             // of the same port, for HTTP/3
	packets func(net.PacketConn) error // serves udp; nil: there is none
}

// Close closes the sockets.
func (l *listener) Close() {
	_ = l.Listener.Close()
	if l.udp != nil {
		_ = l.udp.Close()
	}
}

// ListenError is an address that could not be opened.
type ListenError struct {
	Key     string // of the configuration, such as admin.listen
	Address string // as configured
	Err     error
}

func (e *ListenError) Error() string { return e.Key + ": " + e.Err.Error() }

// Unwrap returns the system's error.
func (e *ListenError) Unwrap() error { return e.Err }

type listeners []listener

func (all *listeners) open(key, address string, l listener) (err error) {
	if l.Listener, err = net.Listen("tcp", address); err != nil {
		return &ListenError{Key: key, Address: address, Err: err}
	}
	if l.packets != nil {
		if l.udp, err = net.ListenPacket("udp", l.Addr().String()); err != nil {
			l.Close()
			return &ListenError{Key: key, Address: address, Err: err}
		}
	}
	*all = append(*all, l)
	return nil
}

// listen opens every listener before it serves any. serveAdmin serves the private one.
func (f *fronts) listen(serveAdmin func(net.Listener) error) error {
	var all listeners
	if err := f.openAll(&all, serveAdmin); err != nil {
		for _, l := range all {
			l.Close()
		}
		return err
	}
	for _, l := range all {
		switch l.whose {
		case "visitors":
			f.visitors = append(f.visitors, l.Addr().String())
		case "admin":
			f.admin = l.Addr().String()
		}
	}
	for _, l := range all {
		f.serve(l.Addr(), func() error { return l.serve(l.Listener) })
		if l.udp != nil {
			f.serve(l.udp.LocalAddr(), func() error { return l.packets(l.udp) })
		}
		f.log.Info().Str("for", l.whose).Stringer("address", l.Addr()).Bool("tls", l.tls).Bool("http3",
			l.udp != nil).Msg("listening")
	}
	return nil
}

// serve serves an address until the gateway stops; if that ends earlier, the gateway does.
func (f *fronts) serve(at net.Addr, serve func() error) {
	f.serving.Go(func() {
		if err := serve(); err != nil && !f.draining.Load() {
			f.failed <- fmt.Errorf("serve %s: %w", at, err)
		}
	})
}

func (f *fronts) openAll(all *listeners, serveAdmin func(net.Listener) error) error {
	cfg := f.Config()
	if cfg.Role != config.RoleProcessor {
		for i := range cfg.Listen {
			if err := f.openVisitor(all, i); err != nil {
				return err
			}
		}
		if err := f.checks.listen(all); err != nil {
			return err
		}
	}
	if cfg.Admin.Listen == "" {
		return nil
	}
	return all.open("admin.listen", cfg.Admin.Listen, listener{
		whose: "admin", tls: cfg.Admin.TLSCert != "",
		serve: serveAdmin,
	})
}

func (f *fronts) openVisitor(all *listeners, i int) error {
	l := &f.Config().Listen[i]
	o := h1.ListenerOptions{
		ProxyProtocol: l.ProxyProtocol, Trusted: f.trusted, TLS: f.certs.tlsOf(i),
		Handler: f.plainHandler(l),
	}
	if f.http2 != nil {
		o.HTTP2, o.H2C = f.http2, l.H2C
	}
	visitors := listener{whose: "visitors", tls: o.TLS != nil, serve: func(ln net.Listener) error {
		if l.HTTP3 {
			o.AltSvc = f.altSvc(l, ln.Addr())
		}
		return f.server.Serve(ln, o)
	}}
	if l.HTTP3 {
		cfg := h3.TLS(o.TLS)
		f.certs.sealTickets(cfg)
		visitors.packets = func(pc net.PacketConn) error {
			return f.http3.Serve(pc, h3.Options{TLS: cfg, Trusted: f.trusted, AltSvc: f.altSvc(l, pc.LocalAddr())})
		}
	}
	return all.open(fmt.Sprintf("listen[%d].address", i), l.Address, visitors)
}

// altSvc returns the field by which answers of a listener announce HTTP/3.
func (f *fronts) altSvc(l *config.Listener, at net.Addr) []byte {
	port := l.HTTP3Port
	if port == 0 {
		_, text, _ := net.SplitHostPort(at.String())
		port, _ = strconv.Atoi(text)
	}
	return h3.AltSvc(port)
}

// plainHandler serves a listener without TLS; nil: as all others.
func (f *fronts) plainHandler(l *config.Listener) h1.Handler {
	if l.Secure() {
		return nil
	}
	var h h1.Handler
	if l.RedirectHTTPS {
		h = f.redirect()
	}
	if f.certs.acme == nil {
		return h
	}
	if h == nil {
		h = f.proxy
	}
	return &acme.Challenges{Keeper: f.certs.acme, Next: h}
}

// redirect sends visitors to the first listener with TLS.
func (f *fronts) redirect() h1.Handler {
	for i := range f.Config().Listen {
		if f.Config().Listen[i].Secure() {
			_, port, _ := net.SplitHostPort(f.Config().Listen[i].Address)
			return proxy.Redirect{Port: port}
		}
	}
	return proxy.Redirect{Port: "443"} // something else ends TLS there
}

// shutdown stops accepting on all fronts and waits for the requests in progress until ctx ends.
func (f *fronts) shutdown(ctx context.Context) {
	ends := f.checks.ends()
	ends["visitors"] = f.server.Shutdown
	if f.http3 != nil {
		ends["HTTP/3"] = f.http3.Shutdown
	}
	var all sync.WaitGroup
	for of, end := range ends {
		all.Go(func() {
			if err := end(ctx); err != nil {
				f.log.Warn().Err(err).Str("of", of).Msg("some connections were cut")
			}
		})
	}
	all.Wait()
}

// checks is check mode: what balancers ask over HTTP, HAProxy over SPOE, and Envoy over gRPC. Each has servers of its own,
// because balancers are not visitors.
type checks struct {
	*base
	all   []check      // the first is HTTP's; none: check mode is off
	spoe  *spoe.Server // nil: off
	envoy *extauthz.Server
}

type check struct {
	*proxy.Check
	cfg    func(proxy.CheckConfig) proxy.CheckConfig // from the section
	server *h1.Server
}

func (c *checks) open(gateway *proxy.Gateway) error {
	cfg := &c.Config().Check
	if len(cfg.Listen) == 0 {
		return nil
	}
	add := func(of string, from func(proxy.CheckConfig) proxy.CheckConfig) (n check, err error) {
		n.cfg = from
		if n.Check, err = proxy.NewCheck(from(*cfg), gateway); err != nil {
			return n, err
		}
		d := h1.Deps{Handler: n.Check, Refuser: gateway, Log: c.Logger(of), Metrics: c.set}
		if n.server, err = h1.NewServer(c.Config().HTTP, d); err == nil {
			c.all = append(c.all, n)
		}
		return n, err
	}
	if _, err := add("check", func(all proxy.CheckConfig) proxy.CheckConfig { return all }); err != nil {
		return err
	}
	if len(cfg.SPOE) > 0 {
		n, err := add("spoe", proxy.CheckConfig.ForSPOE)
		if err != nil {
			return err
		}
		c.spoe = spoe.New(spoe.Deps{Front: n.server, Trusted: n.Check, Log: c.Logger("spoe"), Metrics: c.set})
	}
	if len(cfg.GRPC) == 0 {
		return nil
	}
	whole, err := add("ext_authz", func(all proxy.CheckConfig) proxy.CheckConfig {
		whole, _ := all.ForExtAuthz(extauthz.Human, extauthz.BarePath)
		return whole
	})
	if err != nil {
		return err
	}
	bare, err := add("ext_authz", func(all proxy.CheckConfig) proxy.CheckConfig {
		_, bare := all.ForExtAuthz(extauthz.Human, extauthz.BarePath)
		return bare
	})
	if err != nil {
		return err
	}
	c.envoy = extauthz.New(extauthz.Deps{
		Whole: whole.server, Bare: bare.server, Trusted: whole.Check, SecretField: proxy.SecretField, Log: c.Logger("ext_authz"), Metrics: c.set,
	})
	return nil
}

func (c *checks) close() error {
	var errs []error
	if c.spoe != nil {
		errs = append(errs, c.spoe.Close())
	}
	if c.envoy != nil {
		errs = append(errs, c.envoy.Close())
	}
	if len(c.all) > 0 {
		errs = append(errs, c.all[0].server.Close())
	}
	return errors.Join(errs...)
}

func (c *checks) servers() []*h1.Server {
	var servers []*h1.Server
	for _, n := range c.all {
		servers = append(servers, n.server)
	}
	return servers
}

func (c *checks) prepare(next *config.Config) (func(), error) {
	if len(c.all) == 0 {
		_, err := proxy.NewCheckRules(next.Check) // for the restart that would bring it
		return at("check")(func() {}, err)
	}
	var commits []func()
	for _, n := range c.all {
		commit, err := at("check")(n.Prepare(n.cfg(next.Check)))
		if err != nil {
			return nil, err
		}
		commits = append(commits, commit)
	}
	return commitAll(commits), nil
}

func (c *checks) listen(all *listeners) error {
	cfg := &c.Config().Check
	for _, x := range []struct {
		key, whose string
		addresses  []string
		serve      func(net.Listener) error
	}{
		{"listen", "balancers", cfg.Listen, func(ln net.Listener) error {
			return c.all[0].server.Serve(ln, h1.ListenerOptions{Trusted: c.all[0].Check})
		}},
		{"spoe", "SPOE", cfg.SPOE, func(ln net.Listener) error { return c.spoe.Serve(ln) }},
		{"grpc", "ext_authz", cfg.GRPC, func(ln net.Listener) error { return c.envoy.Serve(ln) }},
	} {
		for i, address := range x.addresses {
			if err := all.open(fmt.Sprintf("check.%s[%d]", x.key, i), address, listener{whose: x.whose, serve: x.serve}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends returns how the servers are shut down, by the kind of their clients.
func (c *checks) ends() map[string]func(context.Context) error {
	ends := map[string]func(context.Context) error{}
	if len(c.all) > 0 {
		ends["balancers"] = c.all[0].server.Shutdown
	}
	if c.spoe != nil {
		ends["HAProxy"] = c.spoe.Shutdown
	}
	if c.envoy != nil {
		ends["Envoy"] = c.envoy.Shutdown
	}
	return ends
}
