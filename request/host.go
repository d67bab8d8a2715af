package request

import (
	"bytes"
	"net/netip"
	"strings"
)

const maxHost = 262

// SplitHost splits host[:port]. The brackets of an IPv6 address stay with the host. ok is false for an invalid
// authority: user information, a bad port, a name with anything but letters, digits, '-', '.', '_' and '~'. Escapes
// and sub-delims, which the grammar allows and no host has, are refused: readers disagree about them.
func SplitHost(authority []byte) (host, port []byte, ok bool) {
	if len(authority) == 0 || len(authority) > maxHost {
		return nil, nil, false
	}
	host, port, ok = cutPort(authority)
	if !ok || !validPort(port) {
		return nil, nil, false
	}
	if host[0] == '[' {
		a, err := netip.ParseAddr(Borrow(host[1 : len(host)-1]))
		return host, port, err == nil && a.Is6() && a.Zone() == ""
	}
	for _, c := range host {
		if !inName[c] {
			return nil, nil, false
		}
	}
	return host, port, string(host) != "."
}

// cutPort cuts the port off. The host is not empty; one that begins with a bracket ends with the other.
func cutPort(b []byte) (host, port []byte, ok bool) {
	end := bytes.IndexByte(b, ':')
	if b[0] == '[' {
		end = bytes.IndexByte(b, ']') + 1
		if end == 0 {
			return nil, nil, false
		}
	}
	if end < 0 || end == len(b) {
		return b, nil, true
	}
	if end == 0 || b[end] != ':' {
		return nil, nil, false
	}
	return b[:end], b[end+1:], true
}

func validPort(b []byte) bool {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
		if n = n*10 + int(c-'0'); n > 65535 {
			return false
		}
	}
	return len(b) <= 5
}

var inName = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") {
		t[c] = true
	}
	return t
}()

// AppendHostName appends the host of an authority for comparison: in lower case, without port and without one dot at
// the end; ok is false, and dst unchanged, if there is none.
func AppendHostName(dst, authority []byte) (_ []byte, ok bool) {
	host, _, ok := SplitHost(authority)
	if !ok {
		return dst, false
	}
	return AppendLower(dst, bytes.TrimSuffix(host, dot)), true
}

var dot = []byte{'.'}

// HostName returns the host like AppendHostName, without a copy if possible; nil for no authority.
func HostName(authority []byte) []byte {
	host, _, ok := SplitHost(authority)
	if !ok {
		return nil
	}
	host = bytes.TrimSuffix(host, dot)
	for _, c := range host {
		if lower[c] != c {
			return AppendLower(nil, host)
		}
	}
	return host
}

// PlainHost reports whether every reader takes h, which has no port, for the same host: an IPv6 address in brackets,
// or labels of letters, digits, '-' and '_' as DNS allows them. International names count in their ASCII form only.
func PlainHost(h string) bool {
	host, port, ok := SplitHost([]byte(h))
	if !ok || port != nil || len(host) > 253 {
		return false
	}
	if h[0] == '[' {
		return true
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return strings.IndexByte(h, '~') < 0
}

// SameAuthority compares two authorities without case; a missing port is that of the scheme.
func SameAuthority(a, b []byte, schemePort string) bool {
	ah, ap, aok := SplitHost(a)
	bh, bp, bok := SplitHost(b)
	if !aok || !bok || !EqualFold(ah, bh) {
		return false
	}
	return portOr(ap, schemePort) == portOr(bp, schemePort)
}

func portOr(port []byte, or string) string {
	if len(port) == 0 {
		return or
	}
	return Borrow(port)
}
