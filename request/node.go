package request

import (
	"bytes"
	"net/netip"
)

// ParseNode reads an address as proxies and balancers write it into fields: bare, with a port, in brackets, in quotes, or all
// of these. The zone of an IPv6 address is dropped: it means something only on the proxy's machine. Names, obfuscated and
// unknown nodes and anything else are rejected, as is surrounding white space. What stands for an IPv4 address is returned
// as that; see Unwrap.
func ParseNode(b []byte) (netip.Addr, bool) {
	if n := len(b); n > 2 && b[0] == '"' && b[n-1] == '"' {
		b = b[1 : n-1]
	}
	if len(b) < 2 || len(b) > 64 {
		return netip.Addr{}, false
	}
	host, port := b, []byte(nil)
	if b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 || bytes.IndexByte(b[:end], ':') < 0 {
			return netip.Addr{}, false // brackets hold IPv6 alone
		}
		host, port = b[1:end], b[end+1:]
	} else if i := bytes.IndexByte(b, ':'); i >= 0 && bytes.IndexByte(b[i+1:], ':') < 0 {
		host, port = b[:i], b[i:]
	}
	if !validNodePort(port) {
		return netip.Addr{}, false
	}
	if i := bytes.IndexByte(host, '%'); i >= 0 && bytes.IndexByte(host[:i], ':') >= 0 {
		host = host[:i]
	}
	a, err := netip.ParseAddr(Borrow(host))
	if err != nil {
		return netip.Addr{}, false
	}
	return Unwrap(a), true
}

// IsHidden reports whether a proxy wrote b in place of an address that it does not know or does not tell: "unknown", the
// obfuscated "_name" of RFC 7239, and the "unix:" of nginx for a peer on a socket of its machine.
func IsHidden(b []byte) bool {
	if n := len(b); n > 2 && b[0] == '"' && b[n-1] == '"' {
		b = b[1 : n-1]
	}
	host, port, _ := bytes.Cut(b, []byte{':'})
	switch {
	case len(host) == 0 || len(port) > 0 && !validNodePort(b[len(host):]):
		return false
	case host[0] == '_':
		return len(host) > 1 && len(host) <= 64
	case len(host) == len("unix"):
		return EqualFold(b, "unix:")
	}
	return len(host) == len("unknown") && EqualFold(host, "unknown")
}

// validNodePort accepts nothing, ":0" to ":65535", and RFC 7239's hidden ports (":_name").
func validNodePort(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if b[0] != ':' || len(b) < 2 || len(b) > 32 {
		return false
	}
	if b[1] == '_' {
		return len(b) > 2
	}
	n := 0
	for _, c := range b[1:] {
		if c < '0' || c > '9' {
			return false
		}
		if n = n*10 + int(c-'0'); n > 65535 {
			return false
		}
	}
	return true
}
