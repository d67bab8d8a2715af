package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"antirobot/problem"
)

// claimed is an address on which the gateway listens itself.
type claimed struct {
	path, address string
	host          netip.Addr // invalid: a name
	port          string
}

// claim reads an address; ok is false if no port of its own is named.
func claim(path, address string) (c claimed, ok bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" || port == "0" { // 0: any free port
		return c, false
	}
	if n, err := net.LookupPort("tcp", port); err == nil {
		port = fmt.Sprint(n)
	}
	c = claimed{path: path, address: address, port: port, host: netip.IPv6Unspecified()}
	switch {
	case strings.EqualFold(host, "localhost"):
		c.host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case host != "":
		c.host, _ = netip.ParseAddr(host)
		c.host = c.host.Unmap()
	}
	return c, true
}

// meets reports whether two sockets can't be open at once: of one port, and of one address or one that includes the
// other.
func (c *claimed) meets(o *claimed) bool {
	if c.port != o.port {
		return false
	}
	return c.host == o.host || c.includes(o.host) || o.includes(c.host)
}

func (c *claimed) includes(addr netip.Addr) bool {
	return c.host == netip.IPv6Unspecified() || c.host == netip.IPv4Unspecified() && addr.Is4()
}

// claims are the addresses of all listeners that have a port of their own.
func (c *Config) claims() []claimed {
	var all []claimed
	add := func(path, address string) {
		if one, ok := claim(path, address); ok {
			all = append(all, one)
		}
	}
	for i := range c.Listen {
		add(fmt.Sprintf("listen[%d].address", i), c.Listen[i].Address)
	}
	add("admin.listen", c.Admin.Listen)
	for i, address := range c.Check.Listen {
		add(fmt.Sprintf("check.listen[%d]", i), address)
	}
	for i, address := range c.Check.SPOE {
		add(fmt.Sprintf("check.spoe[%d]", i), address)
	}
	for i, address := range c.Check.GRPC {
		add(fmt.Sprintf("check.grpc[%d]", i), address)
	}
	return all
}

// validateListeners checks each listener, and that no two want one port.
func (c *Config) validateListeners() []error {
	if len(c.Listen) == 0 && len(c.Check.Listen) == 0 {
		return []error{errors.New("listen: needs at least one address")}
	}
	var errs []error
	for i := range c.Listen {
		errs = append(errs, problem.At(fmt.Sprintf("listen[%d]", i), c.Listen[i].Validate()))
	}
	all := c.claims()
	for i := range all {
		for k := range i {
			if first := &all[k]; first.meets(&all[i]) {
				if first.address == all[i].address {
					errs = append(errs, fmt.Errorf("%s: %q is the address of %s already", all[i].path, all[i].address,
						first.path))
				} else {
					errs = append(errs, fmt.Errorf("%s: %q has the port of %s, %q, and one of them includes the other",
						all[i].path, all[i].address, first.path, first.address))
				}
				break
			}
		}
	}
	if offers := slices.ContainsFunc(c.Listen,
		func(l Listener) bool { return l.ACME }); offers != (len(c.TLS.ACME.Hosts) > 0) {
		errs = append(errs, errors.New("tls.acme.hosts: goes together with acme: true of a listener"))
	}
	return errs
}

// validateLoops refuses a service that is the gateway itself: each request would come back to it. Only what is surely
// this machine is recognised: an address of loopback, localhost, or the address that a listener names.
func (c *Config) validateLoops() []error {
	var errs []error
	all := c.claims()
	look := func(at string, urls []string) {
		for i, raw := range urls {
			for k := range all {
				if all[k].answers(raw) {
					errs = append(errs, fmt.Errorf("%s.upstream.urls[%d]: %s is the gateway itself (%s); name the "+
						"address of the service behind it", at, i, raw, all[k].path))
					break
				}
			}
		}
	}
	for i := range c.Resolved {
		s := &c.Resolved[i]
		look(s.Path, s.Upstream.URLs)
		for k := range s.Resolved {
			if p := &s.Resolved[k]; !slices.Equal(p.Upstream.URLs, s.Upstream.URLs) {
				look(p.Path, p.Upstream.URLs)
			}
		}
	}
	return errs
}

// answers reports whether a request to the URL of a service arrives at this socket.
func (c *claimed) answers(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host, err := netip.ParseAddr(u.Hostname())
	if strings.EqualFold(u.Hostname(), "localhost") {
		host, err = netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	if err != nil || port != c.port {
		return false
	}
	host = host.Unmap()
	if host.IsUnspecified() { // connects to this machine
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return host == c.host || host.IsLoopback() && c.includes(host)
}
