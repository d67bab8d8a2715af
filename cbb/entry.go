package cbb

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// Flag is what a list says about its entries.
type Flag uint8

// The flags.
const (
	Block    Flag = iota // 403
	Ban                  // captcha
	White                // never challenged
	ForRules             // nothing: rules look it up
)

func (f Flag) String() string {
	switch f {
	case Block:
		return "block"
	case Ban:
		return "ban"
	case White:
		return "white"
	case ForRules:
		return "rules"
	default:
		return fmt.Sprintf("flag(%d)", uint8(f))
	}
}

// ParseFlag reads a flag by its name.
func ParseFlag(s string) (Flag, error) {
	for _, f := range []Flag{Block, Ban, White} {
		if s == f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown flag %q: block, ban or white", s)
}

func flagOf(name string) (Flag, bool) {
	for _, f := range [...]Flag{Block, Ban, White} {
		if name == f.String() {
			return f, true
		}
	}
	return 0, false
}

// Entry is one line of a list, or the common part of several lines. It is immutable and may be kept.
type Entry struct {
	List   string // name of the list; "api", "inline", "patterns" and "crawlers" are the gateway's
	Text   string // the entry as written; empty for networks and subjects of fetched lists, see Lists.Describe
	Reason string
	Flag   Flag
	// Service is the one service that the entry is for, empty for all.
	Service string
	// Until is when the entry ends; zero for never.
	Until time.Time
	// Own marks entries written by the operator: in the configuration, in a local file declared own, or over the API.
	Own bool
	// Provisional marks a White that applies only while a crawler's address is being looked up.
	Provisional bool
}

func (e *Entry) live(at time.Time) bool { return e.Until.IsZero() || at.Before(e.Until) }

// Match holds one entry for each flag, nil if there is none. A run-time entry is preferred to one of a list, a
// service's own to one for all services, a longer prefix to a shorter one.
type Match struct {
	OwnBlock *Entry // a block that the operator wrote
	White    *Entry
	Block    *Entry // a block of a fetched list
	Ban      *Entry
	Liar     bool // declares a crawler that it is known not to be
}

// The fields of a Match, as indices.
const (
	slotOwnBlock = iota
	slotWhite
	slotBlock
	slotBan
	slots
)

func (e *Entry) slot() int {
	switch e.Flag {
	case White:
		return slotWhite
	case Ban:
		return slotBan
	default:
		if e.Own {
			return slotOwnBlock
		}
		return slotBlock
	}
}

func (m *Match) at(slot int) **Entry {
	switch slot {
	case slotOwnBlock:
		return &m.OwnBlock
	case slotWhite:
		return &m.White
	case slotBlock:
		return &m.Block
	default:
		return &m.Ban
	}
}

// fill puts e into its field unless that is taken.
func (m *Match) fill(e *Entry) {
	if p := m.at(e.slot()); *p == nil {
		*p = e
	}
}

type set struct {
	all [slots]*Entry // entries for all services
	own []serviceSet  // entries of single services; almost always empty
}

type serviceSet struct {
	service string
	e       [slots]*Entry
}

func (s *set) fill(m *Match, service string) {
	for i := range s.own {
		if s.own[i].service == service {
			m.fillFrom(&s.own[i].e)
			break
		}
	}
	m.fillFrom(&s.all)
}

func (m *Match) fillFrom(e *[slots]*Entry) {
	if m.OwnBlock == nil {
		m.OwnBlock = e[slotOwnBlock]
	}
	if m.White == nil {
		m.White = e[slotWhite]
	}
	if m.Block == nil {
		m.Block = e[slotBlock]
	}
	if m.Ban == nil {
		m.Ban = e[slotBan]
	}
}

func (s *set) with(e *Entry) set {
	t := *s
	if e.Service == "" {
		t.all[e.slot()] = e
		return t
	}
	t.own = append([]serviceSet(nil), s.own...)
	for i := range t.own {
		if t.own[i].service == e.Service {
			t.own[i].e[e.slot()] = e
			return t
		}
	}
	ss := serviceSet{service: e.Service}
	ss.e[e.slot()] = e
	t.own = append(t.own, ss)
	return t
}

// item is the address range or the subject of an entry.
type item struct {
	lo, hi  netip.Addr
	prefix  netip.Prefix // valid unless the range was written with a dash
	subject identity.Subject
}

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

func reason(err error) error {
	for _, known := range []error{request.ErrZone, request.ErrMapped} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New("no address, network, range or subject")
}

// looksNumeric reports whether s can only be meant as an IPv6 address: hex digits, colons and dots, with a second
// colon.
func looksNumeric(s string) bool {
	return strings.Count(s, ":") > 1 && strings.Trim(s, "0123456789abcdefABCDEF:.") == ""
}

// prefixes calls f for the networks of the item, in order; at most 254.
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

func (it *item) wide() bool {
	w := false
	it.prefixes(func(p netip.Prefix) { w = w || tooWide(p) })
	return w
}

func tooWide(p netip.Prefix) bool {
	return p.Bits() < 8 || p.Addr().Is6() && p.Bits() < 16
}

func (it *item) String() string {
	switch {
	case it.subject.Kind != identity.KindNone:
		return it.subject.String()
	case it.prefix.IsValid() && it.prefix.IsSingleIP():
		return it.lo.String()
	case it.prefix.IsValid():
		return it.prefix.String()
	default:
		return it.lo.String() + "-" + it.hi.String()
	}
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

func textOf(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
