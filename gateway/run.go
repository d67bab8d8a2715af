package gateway

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"antirobot/config"
	"antirobot/problem"
	"antirobot/proxy/h1"
	"antirobot/proxy/h3"
)

// Run serves until ctx ends or a listener fails. It reloads whenever hup delivers SIGHUP; SIGUSR1 says that the site is under
// attack, and SIGUSR2 that it is not. ready, if there is one, is called
// when all listeners are open.
func (a *Server) Run(ctx context.Context, hup <-chan os.Signal, ready func()) error {
	defer a.Close()
	if err := a.listen(); err != nil {
		return err
	}
	ticking, stop := context.WithCancel(context.Background())
	defer stop()
	if len(a.tickets) > 0 {
		a.serving.Go(func() { a.turnTickets(ticking) })
	}
	if ready != nil {
		ready()
	}
	settled := time.NewTimer(settlesAfter)
	defer settled.Stop()
	for {
		select {
		case <-settled.C:
			settleMemory()
		case s := <-hup:
			if s == syscall.SIGUSR1 || s == syscall.SIGUSR2 {
				a.attack(s == syscall.SIGUSR1)
				continue
			}
			if _, err := a.reload("SIGHUP"); err != nil {
				a.log.Error().Strs("problems", problem.Lines(err)).Msg("reload refused: nothing has changed")
			}
		case err := <-a.failed:
			a.drain()
			return err
		case <-ctx.Done():
			a.drain()
			return nil
		}
	}
}

// garbagePercent is how much garbage may gather before it is collected, in percent of what is in use. Half of that are tables
// without pointers, made once: collecting earlier than Go would by itself costs little, and keeps 90 MB less (docs/performance.md).
const garbagePercent = 40

// settlesAfter is how long after the start memory is settled: looking through all of it takes a tenth of a second, and whoever waited for the
// start comes first.
const settlesAfter = time.Minute

// settleMemory sets garbagePercent, unless GOGC in the environment says otherwise, and gives back what only the start needed.
func settleMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	debug.FreeOSMemory()
}

// attack turns the switch "under attack" for as long as the configuration says, or off.
func (a *Server) attack(on bool) {
	var until time.Time
	if !on {
		until = a.began
	}
	over, err := a.cacher.Attack(context.Background(), until)
	if err != nil {
		a.log.Error().Err(err).Msg("the switch is in force on this node only")
	}
	a.log.Warn().Bool("on", on).Time("until", over).Msg("under attack, by signal")
	a.logs.Flush()
}

// listener is an open socket and who answers there.
type listener struct {
	net.Listener
	whose string
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

// listen opens every listener before it serves any.
func (a *Server) listen() error {
	all, err := a.openListeners()
	if err != nil {
		for _, l := range all {
			l.Close()
		}
		return err
	}
	for _, l := range all {
		switch l.whose {
		case forVisitors:
			a.visitorAddrs = append(a.visitorAddrs, l.Addr().String())
		case forAdmin:
			a.AdminAddr = l.Addr().String()
		}
	}
	for _, l := range all {
		a.serve(l.Addr(), func() error { return l.serve(l.Listener) })
		if l.udp != nil {
			a.serve(l.udp.LocalAddr(), func() error { return l.packets(l.udp) })
		}
		a.log.Info().Str("for", l.whose).Stringer("address", l.Addr()).Bool("tls", l.tls).Bool("http3", l.udp != nil).Msg("listening")
	}
	if a.peers != nil {
		a.peers.Start()
	}
	a.log.Info().Strs("hosts", a.Config().Calls()).Msg("hosts that the gateway calls")
	a.logs.Flush()
	if a.acme != nil && a.Config().Role != config.RoleProcessor {
		a.acme.Start()
	}
	return nil
}

// serve serves an address until the gateway stops; if that ends earlier, the gateway does.
func (a *Server) serve(at net.Addr, serve func() error) {
	a.serving.Go(func() {
		if err := serve(); err != nil && !a.draining.Load() {
			a.failed <- fmt.Errorf("serve %s: %w", at, err)
		}
	})
}

// ListenError is an address that could not be opened.
type ListenError struct {
	Key     string // of the configuration, such as admin.listen
	Address string // as it stands there
	Err     error
}

func (e *ListenError) Error() string { return e.Key + ": " + e.Err.Error() }

// Unwrap returns what the system said.
func (e *ListenError) Unwrap() error { return e.Err }

// Whose listeners there are.
const (
	forVisitors  = "visitors"
	forBalancers = "balancers"
	forSPOE      = "SPOE"
	forExtAuthz  = "ext_authz"
	forAdmin     = "admin"
)

// openListeners opens all sockets; those that it had opened come with the error.
func (a *Server) openListeners() (all []listener, err error) {
	open := func(key, address string, l listener) error {
		if l.Listener, err = net.Listen("tcp", address); err != nil {
			return &ListenError{Key: key, Address: address, Err: err}
		}
		if l.packets != nil {
			if l.udp, err = net.ListenPacket("udp", l.Addr().String()); err != nil {
				l.Close()
				return &ListenError{Key: key, Address: address, Err: err}
			}
		}
		all = append(all, l)
		return nil
	}
	if a.Config().Role != config.RoleProcessor {
		if err := a.openPublic(open); err != nil {
			return all, err
		}
	}
	if a.Config().Admin.Listen == "" {
		return all, nil
	}
	return all, open("admin.listen", a.Config().Admin.Listen, listener{whose: forAdmin, tls: a.Config().Admin.TLSCert != "", serve: a.admin.Serve})
}

// openPublic opens the sockets for visitors and for balancers.
func (a *Server) openPublic(open func(key, address string, l listener) error) error {
	for i := range a.Config().Listen {
		if err := a.openVisitor(i, open); err != nil {
			return err
		}
	}
	for i, address := range a.Config().Check.Listen {
		o := h1.ListenerOptions{Trusted: a.check}
		err := open(fmt.Sprintf("check.listen[%d]", i), address, listener{
			whose: forBalancers, serve: func(ln net.Listener) error { return a.checkServer.Serve(ln, o) },
		})
		if err != nil {
			return err
		}
	}
	for i, address := range a.Config().Check.SPOE {
		if err := open(fmt.Sprintf("check.spoe[%d]", i), address, listener{whose: forSPOE, serve: a.spoe.Serve}); err != nil {
			return err
		}
	}
	for i, address := range a.Config().Check.GRPC {
		if err := open(fmt.Sprintf("check.grpc[%d]", i), address, listener{whose: forExtAuthz, serve: a.envoy.Serve}); err != nil {
			return err
		}
	}
	return nil
}

// openVisitor opens the sockets of a listener for visitors.
func (a *Server) openVisitor(i int, open func(key, address string, l listener) error) error {
	l := &a.Config().Listen[i]
	o := h1.ListenerOptions{ProxyProtocol: l.ProxyProtocol, Trusted: a.resolver, TLS: a.tlsOf(i), Handler: a.plainHandler(l)}
	if a.http2 != nil {
		o.HTTP2, o.H2C = a.http2, l.H2C
	}
	visitors := listener{whose: forVisitors, tls: o.TLS != nil, serve: func(ln net.Listener) error {
		if l.HTTP3 {
			o.AltSvc = a.altSvc(l, ln.Addr())
		}
		return a.server.Serve(ln, o)
	}}
	if l.HTTP3 {
		cfg := h3.TLS(o.TLS)
		a.sealTickets(cfg)
		visitors.packets = func(pc net.PacketConn) error {
			return a.http3.Serve(pc, h3.Options{TLS: cfg, Trusted: a.resolver, AltSvc: a.altSvc(l, pc.LocalAddr())})
		}
	}
	return open(fmt.Sprintf("listen[%d].address", i), l.Address, visitors)
}

// altSvc is how answers of a listener at an address say that HTTP/3 is spoken there.
func (a *Server) altSvc(l *config.Listener, at net.Addr) []byte {
	port := l.HTTP3Port
	if port == 0 {
		_, text, _ := net.SplitHostPort(at.String())
		port, _ = strconv.Atoi(text)
	}
	return a.Config().HTTP3.AltSvc(port)
}

// drain stops taking requests and waits for those under way.
func (a *Server) drain() {
	a.draining.Store(true)
	a.log.Info().Dur("delay_ms", a.Config().Delay).Dur("at_most_ms", a.Config().Drain).Msg("draining")
	a.logs.Flush()
	time.Sleep(a.Config().Delay) // balancers ask /readyz, and go elsewhere
	ctx, cancel := context.WithTimeout(context.Background(), a.Config().Drain)
	defer cancel()
	var others sync.WaitGroup
	if a.spoe != nil {
		others.Go(func() {
			if err := a.spoe.Shutdown(ctx); err != nil {
				a.log.Warn().Err(err).Msg("some connections of HAProxy were cut")
			}
		})
	}
	if a.envoy != nil {
		others.Go(func() {
			if err := a.envoy.Shutdown(ctx); err != nil {
				a.log.Warn().Err(err).Msg("some connections of Envoy were cut")
			}
		})
	}
	if a.checkServer != nil {
		others.Go(func() {
			if err := a.checkServer.Shutdown(ctx); err != nil {
				a.log.Warn().Err(err).Msg("some connections of balancers were cut")
			}
		})
	}
	if a.http3 != nil {
		others.Go(func() {
			if err := a.http3.Shutdown(ctx); err != nil {
				a.log.Warn().Err(err).Msg("some connections of HTTP/3 were cut")
			}
		})
	}
	if err := a.server.Shutdown(ctx); err != nil {
		a.log.Warn().Err(err).Msg("some connections were cut")
	}
	others.Wait()
}

// VisitorAddr returns where visitors are served: the first listener's address. The listeners are open.
func (a *Server) VisitorAddr() string { return a.visitorAddrs[0] }

// ConsoleLink returns the address of the console with a link that signs in once; empty without a private listener, which must
// be open.
func (a *Server) ConsoleLink() string {
	if a.AdminAddr == "" {
		return ""
	}
	scheme := "http://"
	if a.Config().Admin.TLSCert != "" {
		scheme = "https://"
	}
	return scheme + a.AdminAddr + a.console.Link()
}
