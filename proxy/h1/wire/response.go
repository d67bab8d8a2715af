package wire

import (
	"bufio"
	"bytes"
	"fmt"

	"antirobot/request"
)

// ReadResponse reads and parses one answer's head, possibly an interim one. It is as strict as for requests, except for
// what RFC 9112 asks a gateway to repair: lone LFs as line ends, and white space before a colon. r is what s
// fills. An error is ErrBadResponse with its reason, or one of s.
func (h *Head) ReadResponse(r *bufio.Reader, s Source, maxBytes, maxFields int) error {
	var err error
	h.Raw, err = ReadHead(r, s, h.Raw[:0], LineRules{bareLF: true, Max: maxBytes})
	if err == nil {
		err = h.parseResponse(maxFields)
	}
	if why, ok := err.(Refusal); ok { //nolint:errorlint // it is never wrapped
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

// Bodiless reports whether an answer with this status to a request with this method has no body, whatever its fields say.
func (h *Head) Bodiless(method []byte) bool {
	return h.Status < 200 || h.Status == 204 || h.Status == 304 || string(method) == "HEAD"
}

// KeepsAlive reports whether the sender of this head will accept, or send, another message on the connection.
func (h *Head) KeepsAlive() bool {
	return !h.Close && (h.Minor == 1 || h.keepAlive)
}

// Idempotent reports whether a method may be sent a second time (RFC 9110 section 9.2.2).
func Idempotent(method []byte) bool {
	for _, m := range [...]string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"} {
		if string(method) == m {
			return true
		}
	}
	return false
}

// WebSocket reports whether the head requests a WebSocket as RFC 6455 section 4.1 requires. The version is left to the
// service, which answers a wrong one itself.
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

// AppendStatusLine begins an answer. The version is ours (RFC 9110 section 6.2), the reason the service's.
func AppendStatusLine(dst []byte, status int, reason []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(dst, byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10), ' ')
	dst = append(dst, bytes.TrimRight(reason, " \t")...)
	return append(dst, "\r\n"...)
}
