package identity

// Prefix is a network at the services of a group (verdict.Settings.Group).
type Prefix struct {
	ID    [16]byte // masked; IPv4 mapped
	Bits  uint8    // of 128: 128 is an IPv4 address, 120 its /24, 64 an IPv6 household
	Group uint32
}

// prefixBits are the lengths of the networks that contain an address, the smallest network first.
var (
	prefixBits4 = [...]uint8{128, 120}
	prefixBits6 = [...]uint8{64, 56, 48, 32}
)

// Prefixes sets dst to the networks that contain an address (the ID of its Subject), and returns how many there are.
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

// Household reports whether the network is what one household or one client has: an IPv4 address or an IPv6 /64.
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

// masked masks an ID; bits is a multiple of eight.
func masked(id [16]byte, bits uint8) [16]byte {
	clear(id[bits/8:])
	return id
}
