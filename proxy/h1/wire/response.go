package wire

import (
	"bufio"
	"bytes"
	"fmt"

	"antirobot/request"
)

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
