package gateway

import (
	"fmt"
	"net"

	"antirobot/proxy"
	"antirobot/proxy/h1"
)

// openCheck builds check mode over the gateway, with a server of its own: balancers are no visitors.
func (a *Server) openCheck() error {
	if len(a.Cfg.Check.Listen) == 0 {
		return nil
	}
	rules, err := proxy.NewCheckRules(a.Cfg.Check)
	if err != nil {
		return err
	}
	a.check = proxy.NewCheck(a.gateway, rules)
	a.checkServer = h1.NewServer(a.Cfg.HTTP, a.check, a.Logger("check"), a.set)
	return nil
}

// listenCheck opens the addresses for balancers; serveCheck serves them.
func (a *Server) listenCheck() ([]net.Listener, error) {
	var all []net.Listener
	for i, address := range a.Cfg.Check.Listen {
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

func (a *Server) serveCheck(all []net.Listener) {
	for _, ln := range all {
		a.serving.Go(func() {
			if err := a.checkServer.Serve(ln, h1.ListenerOptions{Trusted: a.check.Trusts}); err != nil && !a.draining.Load() {
				a.failed <- fmt.Errorf("serve %s: %w", ln.Addr(), err)
			}
		})
		a.log.Info().Str("for", "balancers").Stringer("address", ln.Addr()).Str("style", a.Cfg.Check.Style).Msg("listening")
	}
}
