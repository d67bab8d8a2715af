package identity

import (
	"encoding/binary"
	"net/netip"
)

// AddrSubject returns the subject of an address: IPv4 as it is (including mapped ones), IPv6 by its /64. An address
// with a zone, and the zero Addr, have none: the zero Subject.
func AddrSubject(a netip.Addr) Subject {
	if !a.IsValid() || a.Zone() != "" {
		return Subject{}
	}
	s := Subject{Kind: KindIP, ID: a.As16()}
	if !a.Unmap().Is4() {
		clear(s.ID[8:])
	}
	return s
}

// NetOf returns the network that is charged for an address: its /24 or /48. It is the zero Prefix for the zero Addr.
func NetOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 48
	if a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // the zero Addr belongs to no network
	}
	return p
}

// NetKey returns the hash of a network as it is sealed into a pass (Pass.Net). It is the same in every process.
func NetKey(p netip.Prefix) uint64 {
	var b [17]byte
	a := p.Addr().As16()
	copy(b[:], a[:])
	b[16] = byte(p.Bits())
	// Two rounds of a 64-bit mix (the finaliser of MurmurHash3): collisions cost nothing here, since whoever finds one
	// gains only what a browser of another family gains.
	return mix(mix(binary.BigEndian.Uint64(b[:8]))^binary.BigEndian.Uint64(b[8:16])) ^ uint64(b[16])
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
