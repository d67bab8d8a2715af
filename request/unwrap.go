package request

import "net/netip"

// Unwrap returns the address that a visitor has: IPv4 for what stands for an IPv4 address, which is one mapped into IPv6 (::ffff:0:0/96)
// or translated by NAT64 (64:ff9b::/96, RFC 6052), and any other unchanged but for its zone. A translator in front of a network that has
// IPv6 alone gives all visitors from IPv4 addresses of one /96: they would be one household.
//
// Only addresses that are reachable from everywhere are translated (RFC 6052, 3.1): what claims to stand for another one, such as
// 10.0.0.1 or 127.0.0.1, which configurations trust, is left as it is. Nobody can choose the IPv4 address: whoever opens a connection
// must receive the answers to it, which the translator sends there.
//
// 6to4 (2002::/16) and Teredo (2001::/32) are left as they are, although they contain an IPv4 address, too: there anybody can run the
// relay that vouches for it. A 6to4 host is a /48, all hosts of a Teredo server are a /64.
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

// reachable reports whether an IPv4 address is one that is reached from everywhere.
func reachable(a netip.Addr) bool {
	b := a.As4()
	shared := b[0] == 100 && b[1]&0xc0 == 64 // 100.64.0.0/10: between a provider and its customers
	return b[0] != 0 && b[0] < 224 && !shared && !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast()
}

// unwrapNetwork returns the network in which Unwrap finds the addresses of p, a network of IPv6. false: p was written for visitors from
// NAT64 and would not match them, since as many of them are in no network of IPv4 that anybody would write down.
func unwrapNetwork(p netip.Prefix) (netip.Prefix, bool) {
	const (
		before = 96 // bits before the IPv4 address
		widest = 8  // bits of a network of IPv4
		meant  = 32 // bits: what is wider was written for other addresses, too
	)
	a := Unwrap(p.Masked().Addr())
	if a.Is4() && p.Bits() >= before+widest {
		return netip.PrefixFrom(a, p.Bits()-before), true
	}
	return p, p.Bits() < meant || !p.Overlaps(netip.PrefixFrom(netip.AddrFrom16([16]byte{0x00, 0x64, 0xff, 0x9b}), before)) || p.Bits() >= before+widest
}
