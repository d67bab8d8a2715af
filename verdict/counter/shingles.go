package counter

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Piece is one raw piece of an event: its kind and its text.
type Piece struct {
	Type uint16
	Text string
}

// Shingle is a normalised and hashed piece.
type Shingle struct {
	Type uint16
	Hash uint64
}

// ErrPiece is returned by Shingles for a piece that is invalid for its type.
var ErrPiece = errors.New("counter: piece is not of its type")

// maxPiece bounds the part of a piece that is read.
const maxPiece = 64 << 10

// Shingles appends the shingle of each piece to dst: the one place where pieces become numbers. On an error (ErrPiece,
// with the piece's index) nothing is appended.
//
// A shingle is the first eight bytes, big endian, of the SHA-256 of the type (two bytes, big endian) and the normal
// form:
//
//	type                       normal form
//	15 address                 IPv4 as it is, IPv4 in IPv6 too; IPv6 its /64, as 2001:db8:1:2::/64
//	100 network                the address's /24 or /48, of an address or a network
//	101 agent                  white space at its ends and repeated white space removed, case kept
//	102 path                   without the query; a trailing slash, repeated slashes and case count
//	103 session                as it is: kind:id, as a Subject prints
//	14 from                    lower case, without the name before <address>, white space removed
//	105 link, 106 host         lower-case ASCII host without port; a link with its path, without query and fragment
//	8 subject, 104 text        NFKC, case folded; other characters are one space; each run of digits is 0
//	42 attachment name         NFKC, case folded
//	62 attachment digest       lower case
//	all others                 as it is, 30 and 31 among them
func Shingles(dst []Shingle, pieces []Piece) ([]Shingle, error) {
	from := len(dst)
	for i := range pieces {
		text, err := normal(pieces[i].Type, pieces[i].Text[:min(len(pieces[i].Text), maxPiece)])
		if err != nil {
			return dst[:from], fmt.Errorf("piece %d: %w: type %d: %w", i, ErrPiece, pieces[i].Type, err)
		}
		dst = append(dst, Shingle{pieces[i].Type, hashOf(pieces[i].Type, text)})
	}
	return dst, nil
}

func hashOf(typ uint16, text string) uint64 {
	var room [256]byte
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint16(room[:0], typ), text...))
	return binary.BigEndian.Uint64(sum[:])
}

func normal(typ uint16, text string) (string, error) {
	switch typ {
	case TypeAddress:
		a, err := netip.ParseAddr(text)
		if err != nil {
			return "", fmt.Errorf("%.60q is not an address", text)
		}
		if a = a.Unmap().WithZone(""); a.Is6() {
			return netip.PrefixFrom(a, 64).Masked().String(), nil
		}
		return a.String(), nil
	case TypeNetwork:
		return network(text)
	case TypeAgent:
		return strings.Join(strings.Fields(text), " "), nil
	case TypePath:
		path, _, _ := strings.Cut(text, "?")
		return path, nil
	case TypeFrom:
		if i := strings.LastIndexByte(text, '<'); i >= 0 {
			text, _, _ = strings.Cut(text[i+1:], ">")
		}
		return strings.ToLower(strings.Join(strings.Fields(text), "")), nil
	case TypeLink:
		return link(text)
	case TypeHost:
		return host(text), nil
	case TypeSubject, TypeText:
		return words(text), nil
	case TypeAttachmentName:
		return fold(text), nil
	case TypeAttachmentDigest:
		return strings.ToLower(text), nil
	}
	return text, nil
}

func network(text string) (string, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return "", fmt.Errorf("%.60q is neither address nor network", text)
		}
		p = netip.PrefixFrom(a.WithZone(""), a.BitLen())
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	bits := 48
	if p.Addr().Is4() {
		bits = 24
	}
	if p.Bits() < bits {
		return "", fmt.Errorf("%s is wider than /%d", p, bits)
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked().String(), nil
}

func link(text string) (string, error) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		text = "http://" + strings.TrimPrefix(text, "//")
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%.60q is no link", text)
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return host(u.Host) + path, nil
}

func host(text string) string {
	text = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text)), ".")
	if h, _, err := net.SplitHostPort(text); err == nil {
		text = h
	}
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err == nil {
		return a.WithZone("").String()
	}
	if ascii, err := idna.Lookup.ToASCII(text); err == nil {
		return ascii
	}
	return text
}

func fold(text string) string { return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text))) }

// words drops the parts that senders vary: case, spaces, symbols and numbers.
func words(text string) string {
	var b strings.Builder
	space, digits := false, false
	for _, r := range fold(text) {
		switch {
		case unicode.IsDigit(r):
			if !digits || space {
				if space && b.Len() > 0 {
					b.WriteByte(' ')
				}
				b.WriteByte('0')
			}
			space, digits = false, true
		case unicode.IsLetter(r) || unicode.IsMark(r):
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteRune(r)
			space, digits = false, false
		default:
			space = true
		}
	}
	return b.String()
}
