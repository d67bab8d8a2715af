package wire

import (
	"bufio"
	"bytes"
	"fmt"

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

// ReadResponse reads one answer's head, possibly interim. RFC 9112 lets a gateway repair lone LFs, and white space
// before a colon; the rest is as strict as for requests. Errors are ErrBadResponse, and s's.
func (h *Head) ReadResponse(r *bufio.Reader, s Source, maxBytes, maxFields int) error {
	var err error
	h.Raw, err = ReadHead(r, s, h.Raw[:0], LineRules{bareLF: true, Max: maxBytes})
	if err == nil {
		err = h.parseResponse(maxFields)
	}
	if why, ok := err.(Refusal); ok { //nolint:errorlint // bare
		return fmt.Errorf("%w: %s", ErrBadResponse, why.Name())
	}
	return err
}

func (h *Head) parseResponse(maxFields int) error {
	h.Reset()
	line, rest := CutLine(h.Raw)
	if len(line) < len("HTTP/1.1 200") || line[8] != ' ' {
		return BadLine
	}
	if err := h.parseVersion(line[:8]); err != nil {
		return err
	}
	code, reason := line[9:12], line[12:]
	if !All(code, isDigit) || code[0] == '0' {
		return BadLine
	}
	h.Status = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	if len(reason) > 0 {
		if reason[0] != ' ' || !All(reason, Value) {
			return BadLine
		}
		h.Reason = reason[1:]
	}
	if err := h.parseFields(rest, maxFields, true); err != nil {
		return err
	}
	if err := h.ParseFraming(true); err != nil {
		return err
	}
	if h.Chunked && h.Minor == 0 {
		return encodingOn10
	}
	return nil
}

// Bodiless reports whether an answer to this method has no body, whatever its fields say.
func (h *Head) Bodiless(method []byte) bool {
	return h.Status < 200 || h.Status == 204 || h.Status == 304 || string(method) == "HEAD"
}

// KeepsAlive reports whether another message may follow on the connection.
func (h *Head) KeepsAlive() bool {
	return !h.Close && (h.Minor == 1 || h.keepAlive)
}

// Idempotent reports whether a method may be retried (RFC 9110 section 9.2.2).
func Idempotent(method []byte) bool {
	for _, m := range [...]string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"} {
		if string(method) == m {
			return true
		}
	}
	return false
}

// WebSocket reports whether the head requests a WebSocket (RFC 6455 section 4.1). The service checks the version.
func (h *Head) WebSocket() bool {
	if !h.Upgrade || h.UpgradeNum != 1 || h.Minor != 1 || !request.EqualFold(h.UpgradeTo, "websocket") ||
		string(h.Method) != "GET" || h.Chunked || h.Length > 0 {
		return false
	}
	keys := 0
	for i := range h.Fields {
		if f := &h.Fields[i]; request.EqualFold(f.Name, "sec-websocket-key") && len(f.Value) > 0 {
			keys++
		}
	}
	return keys == 1
}

// AppendStatusLine begins an answer: our version (RFC 9110 section 6.2), the service's reason.
func AppendStatusLine(dst []byte, status int, reason []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(dst, byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10), ' ')
	dst = append(dst, bytes.TrimRight(reason, " \t")...)
	return append(dst, "\r\n"...)
}
