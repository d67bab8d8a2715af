package wire

import (
	"bytes"

	"antirobot/request"
)

// ParseRequest parses a request head in Raw (RFC 9112 section 3) and refuses ambiguous ones. An error is a Refusal.
func (h *Head) ParseRequest(maxTarget, maxFields int) error {
	h.Reset()
	line, rest := CutLine(h.Raw)
	target, err := h.parseRequestLine(line, maxTarget)
	if err != nil {
		return err
	}
	if err := h.parseFields(rest, maxFields, false); err != nil {
		return err
	}
	if err := h.ParseFraming(false); err != nil {
		return err
	}
	if h.Chunked && h.Minor == 0 {
		return encodingOn10
	}
	if err := h.ParseRequestFields(); err != nil {
		return err
	}
	return h.parseTarget(target)
}

func (h *Head) parseRequestLine(line []byte, maxTarget int) (target []byte, err error) {
	i := bytes.IndexByte(line, ' ')
	j := bytes.LastIndexByte(line, ' ')
	if i < 0 || i == j {
		return nil, BadLine // HTTP/0.9 too
	}
	method, target, version := line[:i], line[i+1:j], line[j+1:]
	if !IsName(method) {
		return nil, BadMethod
	}
	if len(target) > maxTarget {
		return nil, TargetTooLong
	}
	if len(target) == 0 || !All(target, Target) {
		return nil, BadTarget
	}
	if err := h.parseVersion(version); err != nil {
		return nil, err
	}
	h.Method = method
	return target, nil
}

func (h *Head) parseVersion(v []byte) error {
	if len(v) != len("HTTP/1.1") || string(v[:5]) != "HTTP/" || v[6] != '.' ||
		classes[v[5]]&isDigit == 0 || classes[v[7]]&isDigit == 0 {
		return BadLine
	}
	if v[5] != '1' || v[7] > '1' {
		return badVersion
	}
	h.Minor = int(v[7] - '0')
	return nil
}

// ParseRequestFields reads fields of requests. An error is a Refusal.
func (h *Head) ParseRequestFields() error {
	for i, k := range h.Kinds {
		v := h.Fields[i].Value
		switch k {
		case Host:
			if h.HostGiven {
				return badHostCount
			}
			h.Host, h.HostGiven = v, true
		case TE:
			for rest := v; ; {
				item, more, ok := NextItem(rest)
				if !ok {
					break
				}
				h.TETrailers = h.TETrailers || request.EqualFold(item, "trailers")
				rest = more
			}
		case Expect:
			if h.Minor == 0 {
				continue // RFC 9110 section 10.1.1
			}
			if !request.EqualFold(v, "100-continue") {
				return badExpect
			}
			h.Expect = true
		case MaxForwards:
			if n, ok := parseLength(v); ok {
				h.MaxForwards = int(min(n, 1<<30))
			}
		}
	}
	h.Expect = h.Expect && (h.Chunked || h.Length > 0)
	if !h.HostGiven {
		if h.Minor == 1 {
			return badHostCount
		}
		return nil
	}
	if !IsAuthority(h.Host) {
		return badHost
	}
	return nil
}

// parseTarget accepts the origin-form, an absolute-form that agrees with Host, and "*" for OPTIONS.
func (h *Head) parseTarget(t []byte) error {
	if string(h.Method) == "CONNECT" {
		return ConnectRefused
	}
	switch {
	case t[0] == '/':
		h.Target = t
		return nil
	case len(t) == 1 && t[0] == '*':
		if string(h.Method) != "OPTIONS" {
			return BadTarget
		}
		h.Target = t
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
		return BadTarget
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, target := rest[:end], rest[end:]
	if !IsAuthority(authority) {
		return BadTarget
	}
	if h.HostGiven && !request.SameAuthority(authority, h.Host, port) {
		return badHostMismatch
	}
	h.Host = authority
	switch {
	case len(target) > 0 && target[0] == '/':
		h.Target = target
	case len(target) > 0:
		// "http://host?query": what is forwarded shows explicitly that the path is empty
		h.Target = append([]byte("/"), target...)
	case string(h.Method) == "OPTIONS":
		h.Target = asterisk
	default:
		h.Target = rootPath
	}
	return nil
}

var (
	asterisk = []byte("*")
	rootPath = []byte("/")
)

// IsAuthority reports whether b is a host with an optional port.
func IsAuthority(b []byte) bool {
	_, _, ok := request.SplitHost(b)
	return ok
}
