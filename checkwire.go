package main

import (
	"fmt"
	"net"

	"antirobot/proxy"
	"antirobot/proxy/h1"
)

// openCheck builds check mode over the gateway, with a server of its own: balancers are no visitors.
func (a *app) openCheck() error {
	if len(a.cfg.Check.Listen) == 0 {
		return nil
	}
	rules, err := proxy.NewCheckRules(a.cfg.Check)
	if err != nil {
		return err
	}
	a.check = proxy.NewCheck(a.gateway, rules)
	a.checkServer = h1.NewServer(a.cfg.HTTP, a.check, a.part("check"), a.set)
	return nil
}

// listenCheck opens the addresses for balancers; serveCheck serves them.
func (a *app) listenCheck() ([]net.Listener, error) {
	var all []net.Listener
	for i, address := range a.cfg.Check.Listen {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			for _, l := range all {
				l.Close()
			}
			return nil, fmt.Errorf("check.listen[%d]: %w", i, err)
		}
		all = append(all, ln)
	}
	return all, nil
}

func (a *app) serveCheck(all []net.Listener) {
	for _, ln := range all {
		a.serving.Go(func() {
			if err := a.checkServer.Serve(ln, h1.ListenerOptions{Trusted: a.check.Trusts}); err != nil && !a.draining.Load() {
				a.failed <- fmt.Errorf("serve %s: %w", ln.Addr(), err)
			}
		})
		a.log.Info().Str("for", "balancers").Stringer("address", ln.Addr()).Str("style", a.cfg.Check.Style).Msg("listening")
	}
}
