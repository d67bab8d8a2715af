package request

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ParseNode reads an address as proxies and balancers write it into fields: bare, with a port, in brackets, in
// quotes, or all of these. The zone of an IPv6 address, which is the proxy's, is dropped. Names, obfuscated and
// unknown nodes and surrounding white space are rejected. An address that stands for an IPv4 address is returned as
// that; see Unwrap.
func ParseNode(b []byte) (netip.Addr, bool) {
	if n := len(b); n > 2 && b[0] == '"' && b[n-1] == '"' {
		b = b[1 : n-1]
	}
	if len(b) < 2 || len(b) > 64 {
		return netip.Addr{}, false
	}
	host, port := b, []byte(nil)
	if b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 || bytes.IndexByte(b[:end], ':') < 0 {
			return netip.Addr{}, false // brackets hold IPv6 alone
		}
		host, port = b[1:end], b[end+1:]
	} else if i := bytes.IndexByte(b, ':'); i >= 0 && bytes.IndexByte(b[i+1:], ':') < 0 {
		host, port = b[:i], b[i:]
	}
	if !validNodePort(port) {
		return netip.Addr{}, false
	}
	if i := bytes.IndexByte(host, '%'); i >= 0 && bytes.IndexByte(host[:i], ':') >= 0 {
		host = host[:i]
	}
	a, err := netip.ParseAddr(Borrow(host))
	if err != nil {
		return netip.Addr{}, false
	}
	return Unwrap(a), true
}

// IsHidden reports whether a proxy wrote b in place of an address: "unknown", the obfuscated "_name" of RFC 7239, and
// the "unix:" of nginx for a local socket.
func IsHidden(b []byte) bool {
	if n := len(b); n > 2 && b[0] == '"' && b[n-1] == '"' {
		b = b[1 : n-1]
	}
	host, port, _ := bytes.Cut(b, []byte{':'})
	switch {
	case len(host) == 0 || len(port) > 0 && !validNodePort(b[len(host):]):
		return false
	case host[0] == '_':
		return len(host) > 1 && len(host) <= 64
	case len(host) == len("unix"):
		return EqualFold(b, "unix:")
	}
	return len(host) == len("unknown") && EqualFold(host, "unknown")
}

// validNodePort accepts nothing, ":0" to ":65535", and RFC 7239's hidden ports (":_name").
func validNodePort(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if b[0] != ':' || len(b) < 2 || len(b) > 32 {
		return false
	}
	if b[1] == '_' {
		return len(b) > 2
	}
	n := 0
	for _, c := range b[1:] {
		if c < '0' || c > '9' {
			return false
		}
		if n = n*10 + int(c-'0'); n > 65535 {
			return false
		}
	}
	return true
}

// What addresses and networks of a configuration may not be.
var (
	ErrZone       = errors.New("an address with a zone means something on one machine only")
	errTranslated = errors.New(
		"a network of NAT64 (64:ff9b::/96), whose visitors are seen by their IPv4 addresses; name those",
	)
	ErrMapped = errors.New(
		"a network around the IPv4-mapped addresses (::ffff:0:0/96); write IPv4 and IPv6 networks apart",
	)
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

// Unwrap returns the visitor's own address: IPv4 for an address mapped into IPv6 (::ffff:0:0/96) or translated by
// NAT64 (64:ff9b::/96, RFC 6052), any other unchanged but for its zone. Behind NAT64 all IPv4 visitors would share a
// /96.
//
// Only globally reachable addresses are translated (RFC 6052, 3.1), not those that configurations trust, such as
// 10.0.0.1. A client cannot choose the IPv4 address, since the translator sends the responses there. 6to4 (2002::/16)
// and Teredo (2001::/32) are unchanged although they contain an IPv4 address: anyone can run their relays.
func Unwrap(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch [12]byte(b[:12]) {
	case [12]byte{10: 0xff, 11: 0xff}:
		return a.Unmap()
	case nat64:
		if v4 := netip.AddrFrom4([4]byte(b[12:])); reachable(v4) {
			return v4
		}
	}
	return a.WithZone("")
}

// nat64 is 64:ff9b::/96.
var nat64 = [12]byte{0x00, 0x64, 0xff, 0x9b}

func reachable(a netip.Addr) bool {
	b := a.As4()
	shared := b[0] == 100 && b[1]&0xc0 == 64 // 100.64.0.0/10: between a provider and its customers
	return b[0] != 0 && b[0] < 224 && !shared && !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast()
}

// unwrapNetwork returns the network in which Unwrap finds the addresses of p, a network of IPv6. false: p was written
// for visitors from NAT64 and would not match them, since as many of them are in no network of IPv4 that anybody would
// write down.
func unwrapNetwork(p netip.Prefix) (netip.Prefix, bool) {
	const (
		before = 96 // bits before the IPv4 address
		widest = 8  // bits of a network of IPv4
		meant  = 32 // bits: a wider network was written for other addresses, too
	)
	a := Unwrap(p.Masked().Addr())
	if a.Is4() && p.Bits() >= before+widest {
		return netip.PrefixFrom(a, p.Bits()-before), true
	}
	return p, p.Bits() < meant ||
		!p.Overlaps(netip.PrefixFrom(netip.AddrFrom16([16]byte{0x00, 0x64, 0xff, 0x9b}), before)) ||
		p.Bits() >= before+widest
}
