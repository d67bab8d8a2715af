package second

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

const maxHosts = 5

type listedNet = netip.Prefix

func (a *asker) openDNS() {
	for _, n := range a.cfg.Listed {
		if p, err := netip.ParsePrefix(n); err == nil {
			a.listed = append(a.listed, p)
		}
	}
	a.resolver = net.DefaultResolver
	if server := a.cfg.Server; server != "" {
		a.resolver = &net.Resolver{
			PreferGo: true,
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, server)
			},
		}
	}
}

// askDNS asks about each linked host. A list never says good.
func (a *asker) askDNS(ctx context.Context, q *Question) Opinion {
	var names []string
	for _, h := range q.Hosts {
		if name := listName(h); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	out := Opinion{Why: "it links to nothing that can be listed"}
	for i, name := range names {
		if i == maxHosts {
			break
		}
		o, err := a.once(ctx, sha256.Sum256([]byte(name)),
			func(ctx context.Context) (Opinion, error) { return a.lookUp(ctx, name) })
		if out = o; err != nil || o.Says == Bad {
			break
		}
	}
	return out
}

// listName returns the registered domain, or the reversed address.
func listName(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return reversed(addr.Unmap())
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil || len(domain) > 200 {
		return ""
	}
	return domain
}

// reversed follows RFC 5782: the octets of IPv4, the nibbles of IPv6, the last first.
func reversed(addr netip.Addr) string {
	var parts []string
	for _, b := range addr.AsSlice() {
		if addr.Is4() {
			parts = append(parts, strconv.Itoa(int(b)))
		} else {
			parts = append(parts, strconv.FormatUint(uint64(b>>4), 16), strconv.FormatUint(uint64(b&15), 16))
		}
	}
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

// lookUp asks for one name. An answer outside of listed is a failure: lists use it for errors, and some networks
// invent answers.
func (a *asker) lookUp(ctx context.Context, name string) (Opinion, error) {
	found, err := a.resolver.LookupNetIP(ctx, "ip4", name+"."+strings.TrimSuffix(a.cfg.Zone, ".")+".")
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return Opinion{Why: name + " is not listed"}, nil
	}
	if err != nil {
		return Opinion{}, fmt.Errorf("look up: %w", err)
	}
	for _, addr := range found {
		for _, n := range a.listed {
			if n.Contains(addr.Unmap()) {
				return Opinion{Says: Bad, Why: fmt.Sprintf("%s is listed as %v", name, addr)}, nil
			}
		}
	}
	return Opinion{}, fmt.Errorf("the list answers %v, which says nothing of %s", found, name)
}
