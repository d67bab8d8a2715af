package h1

import (
	"bytes"

	"antirobot/request"
)

// parseRequest parses a request head by RFC 9112 section 3 and refuses whatever two parsers could read differently.
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
				h.teTrailers = h.teTrailers || request.EqualFold(item, "trailers")
				rest = more
			}
		case kExpect:
			if h.minor == 0 {
				continue // RFC 9110 section 10.1.1: a 1.0 client does not know it
			}
			if !request.EqualFold(v, "100-continue") {
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
	if !isAuthority(h.host) {
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
	case request.HasPrefixFold(t, "http://"):
		port, rest = "80", t[len("http://"):]
	case request.HasPrefixFold(t, "https://"):
		port, rest = "443", t[len("https://"):]
	default:
		return badTarget
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, target := rest[:end], rest[end:]
	if !isAuthority(authority) {
		return badTarget // userinfo too
	}
	if h.hostGiven && !request.SameAuthority(authority, h.host, port) {
		return badHostMismatch
	}
	h.host = authority
	switch {
	case len(target) > 0 && target[0] == '/':
		h.target = target
	case len(target) > 0:
		h.target = append([]byte("/"), target...) // "http://host?query": what is forwarded shows explicitly that the path is empty
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

// isAuthority reports whether b is a host with an optional port.
func isAuthority(b []byte) bool {
	_, _, ok := request.SplitHost(b)
	return ok
}
