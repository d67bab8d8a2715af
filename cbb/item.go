package cbb

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"antirobot/identity"
	"antirobot/request"
)

// item is what one entry names: a range of addresses or a subject.
type item struct {
	lo, hi  netip.Addr
	prefix  netip.Prefix // valid unless the range was written with a dash
	subject identity.Subject
}

// parseItem reads an address, a CIDR, a range a-b or a subject kind:id.
func parseItem(s string) (item, error) {
	if s == "" {
		return item{}, fmt.Errorf("empty entry")
	}
	if i := strings.IndexByte(s, '/'); i > 0 {
		if p, err := request.ParseNetwork(s); err == nil {
			return item{lo: p.Addr(), hi: lastOf(p), prefix: p}, nil
		} else if !strings.Contains(s[:i], ":") || looksNumeric(s[:i]) {
			return item{}, reason(err)
		}
	}
	a, aerr := request.ParseAddr(s)
	if aerr == nil {
		return item{lo: a, hi: a, prefix: netip.PrefixFrom(a, a.BitLen())}, nil
	}
	if from, to, ok := strings.Cut(s, "-"); ok {
		lo, err1 := request.ParseAddr(strings.TrimSpace(from))
		hi, err2 := request.ParseAddr(strings.TrimSpace(to))
		switch {
		case err1 == nil && err2 == nil && lo.BitLen() != hi.BitLen():
			return item{}, fmt.Errorf("a range from IPv4 to IPv6")
		case err1 == nil && err2 == nil && hi.Less(lo):
			return item{}, fmt.Errorf("a range that ends before it begins")
		case err1 == nil && err2 == nil:
			return item{lo: lo, hi: hi}, nil
		case err1 == nil:
			return item{}, fmt.Errorf("no end of a range: %w", reason(err2))
		}
	}
	if strings.Contains(s, ":") && !looksNumeric(s) {
		sub, err := identity.ParseSubject(s)
		if err != nil {
			return item{}, err
		}
		return item{subject: sub}, nil
	}
	return item{}, reason(aerr)
}

// reason says what is wrong with an entry that was meant as an address or a network, without the entry itself, which
// the caller adds.
func reason(err error) error {
	for _, known := range []error{request.ErrZone, request.ErrMapped} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New("no address, network, range or subject")
}

// looksNumeric reports whether s can only be meant as an IPv6 address: hex digits, colons, dots, with a hex digit or a
// colon first, and a second colon.
func looksNumeric(s string) bool {
	return strings.Count(s, ":") > 1 && strings.Trim(s, "0123456789abcdefABCDEF:.") == ""
}

// prefixes calls f for the networks that make up the item, in order; at most 254.
func (it *item) prefixes(f func(netip.Prefix)) {
	if it.prefix.IsValid() {
		f(it.prefix)
		return
	}
	if !it.lo.IsValid() {
		return
	}
	for lo := it.lo; ; {
		p := netip.PrefixFrom(lo, lo.BitLen())
		for p.Bits() > 0 {
			q := netip.PrefixFrom(lo, p.Bits()-1)
			if q.Masked().Addr() != lo || it.hi.Less(lastOf(q)) {
				break
			}
			p = q
		}
		f(p)
		last := lastOf(p)
		if last == it.hi {
			return
		}
		lo = last.Next()
	}
}

// wide reports whether the item contains a network too wide for any list of robots.
func (it *item) wide() bool {
	w := false
	it.prefixes(func(p netip.Prefix) { w = w || tooWide(p) })
	return w
}

func tooWide(p netip.Prefix) bool {
	return p.Bits() < 8 || p.Addr().Is6() && p.Bits() < 16
}

// lastOf returns the highest address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	if p.Addr().Is4() {
		a := p.Addr().As4()
		setHostBits(a[:], p.Bits())
		return netip.AddrFrom4(a)
	}
	a := p.Addr().As16()
	setHostBits(a[:], p.Bits())
	return netip.AddrFrom16(a)
}

func setHostBits(a []byte, bits int) {
	for i := range a {
		switch {
		case bits >= 8:
			bits -= 8
		default:
			a[i] |= 0xFF >> bits
			bits = 0
		}
	}
}
