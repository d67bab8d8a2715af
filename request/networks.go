package request

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// What addresses and networks of a configuration may not be.
var (
	ErrZone       = errors.New("an address with a zone means something on one machine only")
	errTranslated = errors.New("a network of NAT64 (64:ff9b::/96), whose visitors are seen by their IPv4 addresses; name those")
	ErrMapped     = errors.New("a network around the IPv4-mapped addresses (::ffff:0:0/96); write IPv4 and IPv6 networks apart")
)

// ParseAddr reads an address. One of IPv4 mapped into IPv6 (::ffff:10.1.2.3) is the IPv4 address, as which clients are
// seen; one with a zone is refused.
func ParseAddr(s string) (netip.Addr, error) {
	s = strings.TrimSpace(s)
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%.60q is not an address", s)
	}
	if a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%.60q: %w", s, ErrZone)
	}
	return Unwrap(a), nil
}

// ParseNetwork reads a network such as 10.0.0.0/8, or an address, which is the network of itself alone. Bits of the
// host are cut off. What is mapped into IPv6 (::ffff:10.0.0.0/104) is the IPv4 network; a wider one around the mapped
// addresses would mean both families and is refused, as is a zone.
func ParseNetwork(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "/") {
		a, err := ParseAddr(s)
		switch {
		case errors.Is(err, ErrZone):
			return netip.Prefix{}, err
		case err != nil:
			return netip.Prefix{}, noNetwork(s)
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if strings.Contains(s, "%") {
			return netip.Prefix{}, fmt.Errorf("%.60q: %w", s, ErrZone)
		}
		return netip.Prefix{}, noNetwork(s)
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("%.60q: %w", s, ErrMapped)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p.Addr().Is6() {
		var ok bool
		if p, ok = unwrapNetwork(p); !ok {
			return netip.Prefix{}, fmt.Errorf("%.60q: %w", s, errTranslated)
		}
	}
	return p.Masked(), nil
}

func noNetwork(s string) error {
	return fmt.Errorf("%.60q is neither a network such as 10.0.0.0/8 nor an address", s)
}
