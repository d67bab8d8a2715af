package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"antirobot/request"
)

// maxText bounds the text of an L, fuid or service identity.
const maxText = 1024

// String returns the name of the kind, which precedes the colon of a printed subject.
func (k Kind) String() string {
	switch k {
	case KindSpravka:
		return "spravka"
	case KindL:
		return "L"
	case KindAuth:
		return "auth"
	case KindFuid:
		return "fuid"
	case KindI:
		return "i"
	case KindService:
		return "service"
	case KindIP:
		return "ip"
	default:
		return "none"
	}
}

// parseKind reads what Kind.String printed.
func parseKind(s string) (Kind, error) {
	for k := KindSpravka; k <= KindIP; k++ {
		if s == k.String() {
			return k, nil
		}
	}
	return KindNone, fmt.Errorf("kind %q: must be one of spravka, L, auth, fuid, i, service, ip", cut(s))
}

// Vouched reports whether the service itself knows the client, be it a person or a program.
func (k Kind) Vouched() bool { return k == KindAuth || k.SignedIn() }

// SignedIn reports whether the service itself says which person the visitor is.
func (k Kind) SignedIn() bool { return k == KindL || k == KindService }

// hashed reports whether the ID is a hash of a text, which is printed as one.
func (k Kind) hashed() bool { return k == KindL || k == KindAuth || k == KindFuid || k == KindService }

// TextSubject is the subject identified by a text of a hashed kind (L, fuid, service).
func TextSubject(k Kind, text []byte) Subject {
	sum := sha256.Sum256(text)
	return Subject{Kind: k, ID: [16]byte(sum[:16])}
}

// ParseSubject reads a printed subject:
//
//	ip:203.0.113.7   ip:2001:db8:1:2::/64   ip:2001:db8:1:2::7 (means its /64)
//	i:<32 hex digits>   spravka:<32 hex digits>
//	L:alice   fuid:5f1e2d3c4b5a6978   service:NAME=VALUE   or, by its hash, L:#<32 hex digits>
//	auth:#<32 hex digits> (only by its hash: the gateway never shows a credential, and nobody should write one down)
func ParseSubject(s string) (Subject, error) {
	if s != "" && strings.Trim(s, "0123456789.:") == "" {
		return Subject{}, fmt.Errorf("%q is no address", cut(s))
	}
	name, rest, ok := strings.Cut(s, ":")
	if !ok {
		return Subject{}, fmt.Errorf("subject %q: must be kind:id", cut(s))
	}
	k, err := parseKind(name)
	if err != nil {
		return Subject{}, fmt.Errorf("subject %q: %w", cut(s), err)
	}
	sub := Subject{Kind: k}
	switch {
	case k == KindIP:
		sub, err = parseAddrSubject(rest)
	case !k.hashed():
		sub.ID, err = parseID(rest)
	case len(rest) == 33 && rest[0] == '#':
		sub.ID, err = parseID(rest[1:])
	case k == KindAuth:
		err = errors.New("an Authorization is named by its hash alone: auth:# and 32 hexadecimal digits, as antirobot why prints it")
	case rest == "":
		err = errors.New("the id is empty")
	case len(rest) > maxText:
		err = fmt.Errorf("the id is longer than %d bytes", maxText)
	default:
		sub = TextSubject(k, []byte(rest))
	}
	if err != nil {
		return Subject{}, fmt.Errorf("subject %q: %w", cut(s), err)
	}
	return sub, nil
}

func parseID(s string) (id [16]byte, err error) {
	if len(s) != 32 {
		return id, errors.New("the id must have 32 hexadecimal digits")
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return id, errors.New("the id must have 32 hexadecimal digits")
	}
	return id, nil
}

func parseAddrSubject(s string) (Subject, error) {
	text, bits, slash := strings.Cut(s, "/")
	a, err := netip.ParseAddr(text)
	if err != nil {
		return Subject{}, errors.New("not an IP address")
	}
	if a.Zone() == "" {
		a = request.Unwrap(a)
	}
	if slash && (a.Is4() && bits != "32" || a.Is6() && bits != "64") {
		return Subject{}, errors.New("a subject is one IPv4 address or one IPv6 /64; wider networks belong in lists")
	}
	sub := AddrSubject(a)
	if sub.Kind == KindNone {
		return Subject{}, errors.New("an address with a zone is not a subject")
	}
	return sub, nil
}

// Append appends the subject in the form that ParseSubject reads. For a hashed kind only the hash is known here: it
// prints as L:#<hex>; see Identity.AppendSubject.
func (s Subject) Append(dst []byte) []byte {
	dst = append(dst, s.Kind.String()...)
	dst = append(dst, ':')
	switch {
	case s.Kind == KindNone:
		return dst
	case s.Kind == KindIP:
		a := netip.AddrFrom16(s.ID).Unmap()
		dst = a.AppendTo(dst)
		if a.Is6() {
			dst = append(dst, "/64"...)
		}
		return dst
	case s.Kind.hashed():
		dst = append(dst, '#')
	}
	return hex.AppendEncode(dst, s.ID[:])
}

// String returns what Append appends.
func (s Subject) String() string { return string(s.Append(nil)) }

// Addr returns the address of a subject of kind ip: the IPv4 address, or the first of its IPv6 /64.
func (s Subject) Addr() (a netip.Addr, ok bool) {
	if s.Kind != KindIP {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16(s.ID).Unmap(), true
}

func cut(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
