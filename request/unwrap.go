package request

import (
	"net/netip"
)

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
