package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"

	"antirobot/config"
	"antirobot/proxy"
	"antirobot/proxy/extauthz"
	"antirobot/proxy/h1"
	"antirobot/proxy/spoe"
)

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
