package cmd

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"

	"antirobot/config"
	"antirobot/gateway"
)

// welcome says in five lines, for people, what the gateway does now; observe says that it was started with --observe.
// The log is for programs, and goes elsewhere.
func welcome(w io.Writer, a *gateway.Server, observe bool) {
	fmt.Fprintf(w, "antirobot: protects %s\n", protected(a.Config()))
	fmt.Fprintf(w, "  %s; %s\n", arrivals(a), modes(a.Config()))
	if a.AdminAddr() == "" {
		fmt.Fprintln(w, "  there is no private listener (--admin ADDR): no API, no metrics")
	} else {
		fmt.Fprintf(w, "  the private listener is at http://%s, its token in %s\n", a.AdminAddr(),
			tokenFile(a.Config()))
	}
	fmt.Fprintln(w, "  "+advice(a.Config(), observe))
	fmt.Fprintln(w, "  SIGHUP reloads the configuration; Ctrl-C or SIGTERM lets what is under way finish, and stops")
}

// arrivals says where visitors come to: here, or to balancers that ask.
func arrivals(a *gateway.Server) string {
	if a.Config().Role == config.RoleProcessor {
		return "a processor: it judges what gateways see, and serves no visitors"
	}
	if len(a.Config().Listen) == 0 {
		return "balancers ask at " + strings.Join(a.Config().Check.Listen, ", ")
	}
	scheme := "http"
	if a.Config().Listen[0].Secure() {
		scheme = "https"
	}
	return "visitors come to " + scheme + "://" + named(a.Config(), a.VisitorAddr())
}

// named is address by the host whose certificate the first listener obtains, as browsers know it; or address itself.
// Where it is every address of this machine, one that can be opened is named.
func named(c *config.Config, address string) string {
	if !c.Listen[0].ACME || len(c.TLS.ACME.Hosts) == 0 {
		if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsUnspecified() {
			return net.JoinHostPort("localhost", fmt.Sprint(at.Port())) + " and to this machine's other addresses"
		}
		return address
	}
	if _, port, err := net.SplitHostPort(address); err == nil && port != "443" {
		return net.JoinHostPort(c.TLS.ACME.Hosts[0], port)
	}
	return c.TLS.ACME.Hosts[0]
}

// maxNamed is how many services are named.
const maxNamed = 3

func protected(c *config.Config) string {
	var names []string
	for i := range c.Resolved {
		s := &c.Resolved[i]
		if i == maxNamed {
			names = append(names, fmt.Sprintf("%d more", len(c.Resolved)-maxNamed))
			break
		}
		name := s.Name
		if len(s.Hosts) > 0 {
			name += " (" + strings.Join(s.Hosts[:1], "") + ")"
		}
		if len(s.Upstream.URLs) > 0 {
			name += " at " + s.Upstream.URLs[0]
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// advice says how to switch to observing, or from it to enforcing, and how to ask for reasons.
func advice(c *config.Config, observe bool) string {
	for i := range c.Resolved {
		if c.Resolved[i].Stops() {
			return "to look first without stopping anybody: --observe; why a request was stopped: antirobot why " +
				"REQUEST-NUMBER"
		}
	}
	how := "verdict.mode enforce"
	if observe {
		how = "start it without --observe"
	}
	return "to stop robots: " + how + "; why a request would be stopped: antirobot why REQUEST-NUMBER"
}

func modes(c *config.Config) string {
	words := map[string]string{
		"enforce": "robots are stopped (mode enforce)", "observe": "robots are only looked at, nobody is stopped " +
			"(mode observe)",
		"off": "nobody is looked at (mode off)",
	}
	var all []string
	for i := range c.Resolved {
		if m := words[c.Resolved[i].Verdict.Mode]; !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return "the mode depends on the service: " + strings.Join(all, "; ")
}
