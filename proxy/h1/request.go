package h1

import (
	"bytes"
	"net/netip"
)

// parseRequest reads a request head of RFC 9112 section 3 and refuses whatever two readers could read differently.
func (h *head) parseRequest(maxTarget, maxFields int) error {
	h.reset()
	line, rest := cutLine(h.raw)
	target, err := h.parseRequestLine(line, maxTarget)
	if err != nil {
		return err
	}
	if err := h.parseFields(rest, maxFields, false); err != nil {
		return err
	}
	if err := h.parseFraming(false); err != nil {
		return err
	}
	if h.chunked && h.minor == 0 {
		return encodingOn10
	}
	if err := h.parseRequestFields(); err != nil {
		return err
	}
	return h.parseTarget(target)
}

func (h *head) parseRequestLine(line []byte, maxTarget int) (target []byte, err error) {
	i := bytes.IndexByte(line, ' ')
	j := bytes.LastIndexByte(line, ' ')
	if i < 0 || i == j {
		return nil, badLine // HTTP/0.9 too
	}
	method, target, version := line[:i], line[i+1:j], line[j+1:]
	if !isName(method) {
		return nil, badMethod
	}
	if len(target) > maxTarget {
		return nil, targetTooLong
	}
	if len(target) == 0 || !all(target, isTarget) {
		return nil, badTarget
	}
	if err := h.parseVersion(version); err != nil {
		return nil, err
	}
	h.method = method
	return target, nil
}

// parseVersion accepts HTTP/1.0 and HTTP/1.1.
func (h *head) parseVersion(v []byte) error {
	if len(v) != len("HTTP/1.1") || string(v[:5]) != "HTTP/" || v[6] != '.' ||
		classes[v[5]]&isDigit == 0 || classes[v[7]]&isDigit == 0 {
		return badLine
	}
	if v[5] != '1' || v[7] > '1' {
		return badVersion
	}
	h.minor = int(v[7] - '0')
	return nil
}

// parseRequestFields reads what only requests have.
func (h *head) parseRequestFields() error {
	for i, k := range h.kinds {
		v := h.fields[i].Value
		switch k {
		case kHost:
			if h.hostGiven {
				return badHostCount
			}
			h.host, h.hostGiven = v, true
		case kTE:
			for rest := v; ; {
				item, more, ok := nextItem(rest)
				if !ok {
					break
				}
				h.teTrailers = h.teTrailers || fold(item, "trailers")
				rest = more
			}
		case kExpect:
			if h.minor == 0 {
				continue // RFC 9110 section 10.1.1: a 1.0 client does not know it
			}
			if !fold(v, "100-continue") {
				return badExpect
			}
			h.expect = true
		case kMaxForwards:
			if n, ok := parseLength(v); ok {
				h.maxForwards = int(min(n, 1<<30))
			}
		}
	}
	h.expect = h.expect && (h.chunked || h.length > 0)
	if !h.hostGiven {
		if h.minor == 1 {
			return badHostCount
		}
		return nil
	}
	if !validHost(h.host) {
		return badHost
	}
	return nil
}

// parseTarget accepts the origin-form, the absolute-form that agrees with Host, and "*" for OPTIONS.
func (h *head) parseTarget(t []byte) error {
	if string(h.method) == "CONNECT" {
		return connectRefused
	}
	switch {
	case t[0] == '/':
		h.target = t
		return nil
	case len(t) == 1 && t[0] == '*':
		if string(h.method) != "OPTIONS" {
			return badTarget
		}
		h.target = t
		return nil
	}
	var port string
	var rest []byte
	switch {
	case hasPrefixFold(t, "http://"):
		port, rest = "80", t[len("http://"):]
	case hasPrefixFold(t, "https://"):
		port, rest = "443", t[len("https://"):]
	default:
		return badTarget
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, target := rest[:end], rest[end:]
	if !validHost(authority) {
		return badTarget // userinfo too
	}
	if h.hostGiven && !sameAuthority(authority, h.host, port) {
		return badHostMismatch
	}
	h.host = authority
	switch {
	case len(target) > 0 && target[0] == '/':
		h.target = target
	case len(target) > 0:
		h.target = append([]byte("/"), target...) // "http://host?query": what is sent on says plainly that the path is empty
	case string(h.method) == "OPTIONS":
		h.target = asterisk
	default:
		h.target = rootPath
	}
	return nil
}

var (
	asterisk = []byte("*")
	rootPath = []byte("/")
)

// splitHost splits host[:port]; the brackets of an IPv6 address stay. ok is false if it is malformed.
func splitHost(b []byte) (host, port []byte, ok bool) {
	if len(b) > 0 && b[0] == '[' {
		i := bytes.IndexByte(b, ']')
		if i < 0 {
			return nil, nil, false
		}
		host, port = b[:i+1], b[i+1:]
		if len(port) == 0 {
			return host, nil, true
		}
		if port[0] != ':' {
			return nil, nil, false
		}
		return host, port[1:], true
	}
	i := bytes.IndexByte(b, ':')
	if i < 0 {
		return b, nil, true
	}
	return b[:i], b[i+1:], true
}

// validHost accepts a name, an IPv4 address or a bracketed IPv6 address, with an optional port. Escapes and sub-delims,
// which the grammar allows and no host name has, are refused: they are read differently everywhere.
func validHost(b []byte) bool {
	host, port, ok := splitHost(b)
	if !ok || len(host) == 0 || len(b) > 262 {
		return false
	}
	if len(port) > 5 || !all(port, isDigit) {
		return false
	}
	if n, _ := parseLength(port); n > 65535 {
		return false
	}
	if host[0] == '[' {
		a, err := netip.ParseAddr(string(host[1 : len(host)-1]))
		return err == nil && a.Is6() && a.Zone() == ""
	}
	return all(host, isHost) && string(host) != "."
}

// sameAuthority compares two authorities without case; a missing port is the scheme's.
func sameAuthority(a, b []byte, schemePort string) bool {
	ah, ap, _ := splitHost(a)
	bh, bp, _ := splitHost(b)
	if !foldBytes(ah, bh) {
		return false
	}
	if len(ap) == 0 {
		ap = []byte(schemePort)
	}
	if len(bp) == 0 {
		bp = []byte(schemePort)
	}
	return bytes.Equal(ap, bp)
}

// appendHostName appends the lower-cased host of an authority without port and without one trailing dot.
func appendHostName(dst, authority []byte) []byte {
	host, _, _ := splitHost(authority)
	if n := len(host); n > 1 && host[n-1] == '.' {
		host = host[:n-1]
	}
	for _, c := range host {
		dst = append(dst, lower(c))
	}
	return dst
}
