package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"antirobot/config"
	"antirobot/proxy"
	"antirobot/proxy/h1"
	"antirobot/proxy/upstream"
	"antirobot/settings"
)

func (a *Server) openLog() {
	a.logs = newLogWriter(os.Stdout)
	level, err := zerolog.ParseLevel(a.Cfg.Log.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.SetGlobalLevel(level)
	a.log = zerolog.New(a.logs).With().Timestamp().Logger()
}

// Run serves until ctx ends or a listener fails, and reloads whenever hup delivers. ready, if there is one, is called
// when all listeners are open.
func (a *Server) Run(ctx context.Context, hup <-chan os.Signal, ready func()) error {
	defer a.Close()
	if err := a.listen(); err != nil {
		return err
	}
	if ready != nil {
		ready()
	}
	for {
		select {
		case <-hup:
			if _, err := a.reload("SIGHUP"); err != nil {
				a.log.Error().Strs("problems", settings.Problems(err)).Msg("reload refused: nothing has changed")
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

// listen opens every listener before it serves any.
func (a *Server) listen() error {
	type opened struct {
		net.Listener
		options h1.ListenerOptions
	}
	var all []opened
	fail := func(err error) error {
		for _, l := range all {
			l.Close()
		}
		return err
	}
	for i, l := range a.Cfg.Listen {
		o := h1.ListenerOptions{ProxyProtocol: l.ProxyProtocol, Trusted: a.resolver.Trusts}
		if l.TLSCert != "" {
			certs, err := h1.LoadCertificates([]h1.CertificateFiles{{CertFile: l.TLSCert, KeyFile: l.TLSKey}})
			if err != nil {
				return fail(fmt.Errorf("listen[%d]: %w", i, err))
			}
			a.certs[i] = certs
			o.TLS = certs.Config()
		}
		if a.http2 != nil {
			o.HTTP2, o.H2C = a.http2, l.H2C
			if o.TLS != nil {
				o.TLS.NextProtos = []string{"h2", "http/1.1"}
			}
		}
		ln, err := net.Listen("tcp", l.Address)
		if err != nil {
			return fail(fmt.Errorf("listen[%d].address: %w", i, err))
		}
		all = append(all, opened{ln, o})
	}
	balancers, err := a.listenCheck()
	if err != nil {
		return fail(err)
	}
	if err := a.listenAdmin(); err != nil {
		for _, l := range balancers {
			l.Close()
		}
		return fail(fmt.Errorf("admin.listen: %w", err))
	}
	for _, l := range all {
		a.serving.Go(func() {
			if err := a.server.Serve(l.Listener, l.options); err != nil && !a.draining.Load() {
				a.failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
		})
		a.visitorAddrs = append(a.visitorAddrs, l.Addr().String())
		a.log.Info().Str("for", "visitors").Stringer("address", l.Addr()).Bool("tls", l.options.TLS != nil).Msg("listening")
	}
	a.serveCheck(balancers)
	a.logs.Flush()
	return nil
}

func (a *Server) listenAdmin() error {
	if a.Cfg.Admin.Listen == "" {
		return nil
	}
	ln, err := net.Listen("tcp", a.Cfg.Admin.Listen)
	if err != nil {
		return err
	}
	a.serving.Go(func() {
		if err := a.admin.Serve(ln); err != nil && !a.draining.Load() {
			a.failed <- fmt.Errorf("serve %s: %w", ln.Addr(), err)
		}
	})
	a.log.Info().Str("for", "admin").Stringer("address", ln.Addr()).Msg("listening")
	a.AdminAddr = ln.Addr().String()
	return nil
}

// drain stops taking requests and waits for those under way.
func (a *Server) drain() {
	a.draining.Store(true)
	a.log.Info().Dur("delay_ms", a.Cfg.Delay).Dur("at_most_ms", a.Cfg.Drain).Msg("draining")
	a.logs.Flush()
	time.Sleep(a.Cfg.Delay) // balancers ask /readyz, and go elsewhere
	ctx, cancel := context.WithTimeout(context.Background(), a.Cfg.Drain)
	defer cancel()
	var balancers sync.WaitGroup
	if a.checkServer != nil {
		balancers.Go(func() {
			if err := a.checkServer.Shutdown(ctx); err != nil {
				a.log.Warn().Err(err).Msg("some connections of balancers were cut")
			}
		})
	}
	if err := a.server.Shutdown(ctx); err != nil {
		a.log.Warn().Err(err).Msg("some connections were cut")
	}
	balancers.Wait()
}

// Close ends everything that was opened, in the reverse order, and writes out what waits. It may be called on an app
// that was opened in part.
func (a *Server) Close() {
	closers := []struct {
		what string
		is   bool
		do   func() error
	}{
		{"private listener", a.admin != nil, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return a.admin.Shutdown(ctx)
		}},
		{"upstreams", true, a.closeGroups},
		{"processor", a.proc != nil, func() error { return a.proc.Close() }},
		{"identity", a.resolver != nil, func() error { return a.resolver.Close() }},
		{"verdict", a.cacher != nil, func() error { return a.cacher.Close() }},
		{"keys", a.sharedRing != nil, func() error { return a.sharedRing.Close() }},
		{"lists", a.lists != nil, func() error { return a.lists.Close() }},
		{"messages", a.messages != nil, func() error { return a.messages.close() }},
		{"counters", a.counters != nil, func() error { return a.counters.Close() }},
		{"store", a.store != nil, func() error { return a.store.Close() }},
	}
	for _, c := range closers {
		if !c.is {
			continue
		}
		if err := c.do(); err != nil {
			a.log.Error().Err(err).Str("part", c.what).Msg("close")
		}
	}
	a.serving.Wait()
	a.log.Info().Msg("stopped")
	_ = a.logs.Close()
}

func (a *Server) closeGroups() error {
	var errs []error
	for _, g := range a.groups {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// reload reads the configuration, the keys and the certificates again. Everything is built and checked before anything
// is swapped: on an error nothing has changed. restart names the keys whose new values wait for a restart.
func (a *Server) reload(why string) (restart []string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next, err := a.reread()
	if err != nil {
		return nil, err
	}
	restart = a.Cfg.NeedRestart(next)
	if err := a.apply(next); err != nil {
		return nil, err
	}
	a.log.Info().Str("by", why).Int("services", len(next.Resolved)).Strs("need_restart", restart).Msg("reloaded")
	a.logs.Flush()
	return restart, nil
}

func (a *Server) apply(next *config.Config) error {
	a.Cfg.CarryOver(next)
	ring, err := a.loadRing(next, false)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if ring.IsExample() && next.Enforces() {
		return config.ErrExampleKey(next)
	}
	if err := next.CheckFiles(); err != nil {
		return err
	}
	pages, captcha := a.pages, a.captcha
	if !reflect.DeepEqual(next.Captcha, a.Cfg.Captcha) || next.Captcha.Templates != "" {
		if pages, captcha, err = a.newCaptcha(next); err != nil {
			return settings.At("captcha", err)
		}
	}
	rules, err := proxy.NewCheckRules(next.Check)
	if err != nil {
		return settings.At("check", err)
	}
	snap, groups, services, err := a.snapshot(next, pages, captcha)
	if err != nil {
		return err
	}
	models, err := config.LoadModels(next.Formula)
	if err != nil {
		return err
	}
	useModels, err := a.formula.Prepare(models)
	if err != nil {
		return err
	}
	useServices, err := a.proc.Prepare(services)
	if err != nil {
		return err
	}
	names, err := next.RuleNames()
	if err != nil {
		return settings.At("formula", err)
	}
	if err := a.reloadCertificates(next); err != nil {
		return err
	}
	useLists, err := a.lists.Prepare(next.Lists)
	if err != nil {
		return settings.At("lists", err)
	}
	useIdentity, err := a.resolver.Prepare(next.Identity)
	if err != nil {
		return settings.At("identity", err)
	}
	useKeys, err := a.keys.Prepare(ring)
	if err != nil {
		return err
	}
	useLists()
	useIdentity()
	useKeys()
	useServices()
	useModels()
	a.reloadFormulas(names)
	a.gateway.Swap(snap)
	a.server.SetConfig(next.HTTP)
	if a.check != nil {
		a.check.Swap(rules)
		a.checkServer.SetConfig(next.HTTP)
	}
	a.retire(groups)
	a.Cfg, a.pages, a.captcha = next, pages, captcha
	if level, err := zerolog.ParseLevel(next.Log.Level); err == nil {
		zerolog.SetGlobalLevel(level)
	}
	for _, w := range next.Warnings() {
		a.log.Warn().Msg(w)
	}
	return nil
}

// reloadCertificates reads the certificate files of the listeners again.
func (a *Server) reloadCertificates(next *config.Config) error {
	for i, certs := range a.certs {
		l := a.Cfg.Listen[i]
		if i < len(next.Listen) && next.Listen[i].Address == l.Address && next.Listen[i].TLSCert != "" {
			l = next.Listen[i]
		}
		if err := certs.Reload([]h1.CertificateFiles{{CertFile: l.TLSCert, KeyFile: l.TLSKey}}); err != nil {
			return fmt.Errorf("listen[%d]: %w", i, err)
		}
	}
	return nil
}

// retireAfter is how long requests that began with the old configuration keep its connection pools.
const retireAfter = time.Minute

// retire puts the new pools into use and closes those that are no longer part of the configuration, once requests under
// way can be expected to be over.
func (a *Server) retire(groups map[string]*upstream.Group) {
	for name, old := range a.groups {
		if groups[name] != old {
			time.AfterFunc(retireAfter, func() { _ = old.Close() })
		}
	}
	a.groups = groups
}

// VisitorAddr returns where visitors are served: the first listener's address. The listeners are open.
func (a *Server) VisitorAddr() string { return a.visitorAddrs[0] }
