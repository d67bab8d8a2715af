package standing

import (
	"net/netip"
	"sync"

	"antirobot/identity"
)

// netCounts counts the established subjects of the networks around addresses: what an address is worth of trust, its
// neighbours share. Safe for concurrent use; requests don't read it, whoever prices a pass does.
type netCounts struct {
	mu sync.RWMutex
	m  map[identity.Prefix]int
}

// add changes the counts of the networks that contain an address.
func (n *netCounts) add(addr [16]byte, by int) {
	var of [4]identity.Prefix
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.m == nil {
		n.m = make(map[identity.Prefix]int)
	}
	for _, p := range of[1:identity.Prefixes(&of, addr, 0)] { // the address itself is counted elsewhere
		if n.m[p] += by; n.m[p] <= 0 {
			delete(n.m, p)
		}
	}
}

// EstablishedIn returns how many subjects a network has established: an address, a /24, or an IPv6 /64, /56, /48 or /32.
// Of any other it is 0.
func (t *Table) EstablishedIn(net netip.Prefix) int {
	if !net.IsValid() {
		return 0
	}
	bits := uint8(net.Bits()) //nolint:gosec // at most 128
	if net.Addr().Is4() {
		bits += 96
	}
	p := identity.Prefix{ID: net.Masked().Addr().As16(), Bits: bits}
	if p.Household() {
		return t.EstablishedAt(p.ID)
	}
	t.nets.mu.RLock()
	defer t.nets.mu.RUnlock()
	return t.nets.m[p]
}
