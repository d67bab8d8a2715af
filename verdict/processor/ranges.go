package processor

import (
	"bufio"
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"antirobot/request"
)

type tristate uint8

const (
	unknown tristate = iota
	no
	yes
)

// maxRanges bounds what is read from the lists of hosting companies.
const maxRanges = 1_000_000

// ranges is an immutable set of networks: sorted, merged, searched by bisection.
type ranges struct {
	from, to [][16]byte
}

// readRanges reads networks and addresses, one per line; anything after a # or a space is ignored. Without a file it
// returns nil, which contains nothing.
func readRanges(files []string) (*ranges, error) {
	if len(files) == 0 {
		return nil, nil
	}
	var all []netip.Prefix
	for _, name := range files {
		var err error
		if all, err = readNetworks(all, name); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		return cmp.Or(slicesCompare(a.Addr().As16(), b.Addr().As16()), a.Bits()-b.Bits())
	})
	r := &ranges{}
	for _, n := range all {
		from, to := n.Addr().As16(), lastOf(n)
		if k := len(r.to); k > 0 && slicesCompare(r.to[k-1], from) >= 0 {
			continue // networks are either nested or disjoint
		}
		r.from, r.to = append(r.from, from), append(r.to, to)
	}
	return r, nil
}

func readNetworks(dst []netip.Prefix, name string) ([]netip.Prefix, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		network, err := request.ParseNetwork(words[0])
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		if len(dst) == maxRanges {
			return nil, fmt.Errorf("%s: more than %d networks", name, maxRanges)
		}
		dst = append(dst, network)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return dst, nil
}

func slicesCompare(a, b [16]byte) int { return slices.Compare(a[:], b[:]) }

// lastOf returns the last address of a network.
func lastOf(n netip.Prefix) [16]byte {
	last := n.Addr().As16()
	host := n.Addr().BitLen() - n.Bits()
	for i := 15; host > 0; i-- {
		last[i] |= byte(1<<min(host, 8) - 1)
		host -= 8
	}
	return last
}

func (r *ranges) has(addr [16]byte) tristate {
	if r == nil {
		return unknown
	}
	i, found := slices.BinarySearchFunc(r.from, addr, slicesCompare)
	if found || i > 0 && slicesCompare(r.to[i-1], addr) >= 0 {
		return yes
	}
	return no
}
