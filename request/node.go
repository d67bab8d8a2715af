package request

import (
	"bytes"
	"net/netip"
)

// ParseNode reads an address as proxies and balancers write it into fields: bare, with a port, in brackets, or both.
// Names, obfuscated and unknown nodes, zones and anything else are rejected, as is surrounding white space. What
// stands for an IPv4 address is returned as that; see Unwrap.
func ParseNode(b []byte) (netip.Addr, bool) {
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
	if !validNodePort(port) || bytes.IndexByte(host, '%') >= 0 {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(Borrow(host))
	if err != nil {
		return netip.Addr{}, false
	}
	return Unwrap(a), true
}

// validNodePort accepts nothing, ":1" to ":65535", and RFC 7239's hidden ports (":_name").
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
	return n > 0
}
