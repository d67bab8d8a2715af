package h1

import (
	"bufio"
	"bytes"
	"fmt"

	"antirobot/request"
)

// readResponse reads and parses one answer's head, possibly an interim one. It is as strict as for requests, except for
// what RFC 9112 asks a gateway to repair: lone LFs as line ends, and white space before a colon.
func (h *head) readResponse(r *bufio.Reader, s source, maxBytes, maxFields int) error {
	var err error
	h.raw, err = readHead(r, s, h.raw[:0], lineRules{bareLF: true, max: maxBytes})
	if err == nil {
		err = h.parseResponse(maxFields)
	}
	if why, ok := err.(refusal); ok { //nolint:errorlint // it is never wrapped
		return fmt.Errorf("%w: %s", errBadResponse, refusals[why].name)
	}
	return err
}

func (h *head) parseResponse(maxFields int) error {
	h.reset()
	line, rest := cutLine(h.raw)
	if len(line) < len("HTTP/1.1 200") || line[8] != ' ' {
		return badLine
	}
	if err := h.parseVersion(line[:8]); err != nil {
		return err
	}
	code, reason := line[9:12], line[12:]
	if !all(code, isDigit) || code[0] == '0' {
		return badLine
	}
	h.status = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	if len(reason) > 0 {
		if reason[0] != ' ' || !all(reason, isValue) {
			return badLine
		}
		h.reason = reason[1:]
	}
	if err := h.parseFields(rest, maxFields, true); err != nil {
		return err
	}
	if err := h.parseFraming(true); err != nil {
		return err
	}
	if h.chunked && h.minor == 0 {
		return encodingOn10
	}
	return nil
}

// bodiless reports whether an answer with this status to a request with this method has no body, whatever its fields say.
func (h *head) bodiless(method []byte) bool {
	return h.status < 200 || h.status == 204 || h.status == 304 || string(method) == "HEAD"
}

// keepsAlive reports whether the sender of this head will accept, or send, another message on the connection.
func (h *head) keepsAlive() bool {
	return !h.close && (h.minor == 1 || h.keepAlive)
}

// idempotent reports whether a method may be sent a second time (RFC 9110 section 9.2.2).
func idempotent(method []byte) bool {
	for _, m := range [...]string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"} {
		if string(method) == m {
			return true
		}
	}
	return false
}

// websocket reports whether the head requests a WebSocket as RFC 6455 section 4.1 requires. The version is left to the
// service, which answers a wrong one itself.
func (h *head) websocket() bool {
	if !h.upgrade || h.upgradeNum != 1 || h.minor != 1 || !request.EqualFold(h.upgradeTo, "websocket") ||
		string(h.method) != "GET" || h.chunked || h.length > 0 {
		return false
	}
	keys := 0
	for i := range h.fields {
		if f := &h.fields[i]; request.EqualFold(f.Name, "sec-websocket-key") && len(f.Value) > 0 {
			keys++
		}
	}
	return keys == 1
}

// appendStatusLine begins an answer. The version is ours (RFC 9110 section 6.2), the reason the service's.
func appendStatusLine(dst []byte, status int, reason []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(dst, byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10), ' ')
	dst = append(dst, bytes.TrimRight(reason, " \t")...)
	return append(dst, "\r\n"...)
}
