package cmd

import (
	"net/netip"
	"testing"
)

// TestDemoBorrowsNobodysAddress: what the demo's visitors have for addresses belongs to nobody, and neighbours stay neighbours.
func TestDemoBorrowsNobodysAddress(t *testing.T) {
	reserved := []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("2001:db8::/32")}
	seen := map[netip.Addr]string{}
	for i := range byte(2) {
		c := &crowd{which: i, nets: map[netip.Prefix]uint16{}}
		for _, s := range []string{"185.199.108.17", "185.199.108.24", "24.30.1.9", "2a02:1:2:3::4", "2a02:1:2:9::4", "2a02:1:9:3::4"} {
			a := c.from(netip.MustParseAddr(s))
			if !reserved[0].Contains(a) && !reserved[1].Contains(a) {
				t.Errorf("%s is played by %s, which may be somebody's", s, a)
			}
			if other, taken := seen[a]; taken || c.from(netip.MustParseAddr(s)) != a {
				t.Errorf("%s is played by %s, like %s, or not always", s, a, other)
			}
			seen[a] = s
		}
		first, second, third := c.from(netip.MustParseAddr("185.199.108.17")), c.from(netip.MustParseAddr("185.199.108.24")), c.from(netip.MustParseAddr("24.30.1.9"))
		if p, _ := first.Prefix(24); !p.Contains(second) || p.Contains(third) {
			t.Errorf("neighbours are played by %s and %s, a stranger by %s", first, second, third)
		}
	}
}
