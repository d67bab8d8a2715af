package identity

import (
	"encoding/binary"
	"net/netip"
)

// NetOf returns the network that is charged for an address: its /24 or /48; zero for the zero Addr.
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

// NetKey returns the hash of a network as it is sealed into a pass. It is the same in every process.
func NetKey(p netip.Prefix) uint64 {
	var b [17]byte
	a := p.Addr().As16()
	copy(b[:], a[:])
	b[16] = byte(p.Bits())
	// Two rounds of the 64-bit finaliser of MurmurHash3. A collision is harmless: it gains as much as another browser
	// family.
	return mix(mix(binary.BigEndian.Uint64(b[:8]))^binary.BigEndian.Uint64(b[8:16])) ^ uint64(b[16])
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Prefix is a network at the services of a group (verdict.Settings.Group).
type Prefix struct {
	ID    [16]byte // masked; IPv4 mapped
	Bits  uint8    // of 128: 128 is an IPv4 address, 120 its /24, 64 an IPv6 household
	Group uint32
}

// The lengths of the networks that contain an address, the smallest first.
var (
	prefixBits4 = [...]uint8{128, 120}
	prefixBits6 = [...]uint8{64, 56, 48, 32}
)

// Prefixes sets dst to the networks that contain an address (the ID of its Subject), and returns their number.
func Prefixes(dst *[4]Prefix, id [16]byte, group uint32) int {
	list := prefixBits6[:]
	if IsIPv4(id) {
		list = prefixBits4[:]
	}
	for i, b := range list {
		dst[i] = Prefix{ID: masked(id, b), Bits: b, Group: group}
	}
	return len(list)
}

// HouseholdOf returns the smallest of these networks.
func HouseholdOf(id [16]byte, group uint32) Prefix {
	bits := prefixBits6[0]
	if IsIPv4(id) {
		bits = prefixBits4[0]
	}
	return Prefix{ID: masked(id, bits), Bits: bits, Group: group}
}

// Household reports whether the network is one household's: an IPv4 address or an IPv6 /64.
func (p *Prefix) Household() bool {
	if IsIPv4(p.ID) {
		return p.Bits == 128
	}
	return p.Bits == 64
}

// NetworkOf masks the ID of an address to its /24 or /48.
func NetworkOf(id [16]byte) [16]byte {
	if IsIPv4(id) {
		return masked(id, 120)
	}
	return masked(id, 48)
}

// IsIPv4 reports whether an address, by the ID of its Subject, is one of IPv4.
func IsIPv4(id [16]byte) bool {
	return [12]byte(id[:12]) == [12]byte{10: 0xff, 11: 0xff}
}

func masked(id [16]byte, bits uint8) [16]byte {
	clear(id[bits/8:])
	return id
}
