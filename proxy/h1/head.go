package h1

import (
	"bufio"
	"bytes"

	"antirobot/request"
)

// source is the input from one side: r, and how to wait for more with that side's deadlines.
type source interface {
	// fill returns when at least one byte is buffered.
	fill() error
	// read returns at least one byte, from the buffer or straight from the connection.
	read(p []byte) (int, error)
}

// head is one parsed message head. The spans point into raw. It is reused.
type head struct {
	raw    []byte
	fields []request.Field
	kinds  []kind // of each field

	// Of a request.
	method, target []byte // target is in origin-form, or "*"
	host           []byte // of the Host field or the absolute-form; nil only on 1.0
	hostGiven      bool   // a Host field is present
	expect         bool   // 100-continue
	teTrailers     bool
	maxForwards    int    // -1 if absent
	saysEmpty      bool   // over HTTP/2: there is no body, of a method that has one, and no length says so
	accept         []byte // what proves that a service has read the gateway's own WebSocket key; nil: the client has one

	// Of a response.
	status int
	reason []byte
	ended  bool // the message has been read to its end

	minor      int   // of HTTP/1.x
	length     int64 // Content-Length, -1 if absent
	chunked    bool
	close      bool // Connection: close
	keepAlive  bool // Connection: keep-alive
	upgrade    bool // Connection: upgrade
	nominates  bool // Connection names other fields
	upgradeTo  []byte
	upgradeNum int
}

func (h *head) reset() {
	h.fields, h.kinds = h.fields[:0], h.kinds[:0]
	h.method, h.target, h.host, h.reason, h.upgradeTo, h.accept = nil, nil, nil, nil, nil, nil
	h.hostGiven, h.expect, h.teTrailers, h.saysEmpty, h.chunked, h.ended = false, false, false, false, false, false
	h.close, h.keepAlive, h.upgrade, h.nominates = false, false, false, false
	h.status, h.minor, h.upgradeNum = 0, 0, 0
	h.length, h.maxForwards = -1, -1
}

// lineRules says how the lines of a head may end.
type lineRules struct {
	bareLF bool // accept a lone LF, as RFC 9112 section 2.2 allows: for answers only
	max    int
}

// readHead appends one head, including its empty line, to dst. It stops at the first line end that the rules forbid, so
// that a sender of bare LFs is answered at once instead of being waited for.
func readHead(r *bufio.Reader, s source, dst []byte, rules lineRules) ([]byte, error) {
	line, first := 0, true // bytes of the current line so far, without LF
	start := len(dst)
	for {
		if r.Buffered() == 0 {
			if err := s.fill(); err != nil {
				return dst, err
			}
		}
		b, _ := r.Peek(r.Buffered())
		for i := 0; i < len(b); {
			j := bytes.IndexByte(b[i:], '\n')
			if j < 0 {
				line += len(b) - i
				break
			}
			line += j
			i += j + 1
			switch {
			case before(dst[start:], b, i, 2) == '\r':
				line--
				if line > 0 && before(dst[start:], b, i, 3) == '\r' && !rules.bareLF {
					return dst, badLineEnd // CR CR LF: some take it for the empty line
				}
			case !rules.bareLF:
				return dst, badLineEnd
			}
			if line == 0 {
				if len(dst)-start+i > rules.max {
					return dst, headTooLong
				}
				dst = append(dst, b[:i]...)
				_, _ = r.Discard(i)
				return dst, nil
			}
			line, first = 0, false
		}
		if len(dst)-start+len(b) > rules.max {
			if first {
				return dst, targetTooLong
			}
			return append(dst, b...), headTooLong
		}
		dst = append(dst, b...)
		_, _ = r.Discard(len(b))
	}
}

// before returns the byte n positions before position i of b, which follows a; 0 if there is none.
func before(a, b []byte, i, n int) byte {
	switch k := i - n; {
	case k >= 0:
		return b[k]
	case len(a)+k >= 0:
		return a[len(a)+k]
	}
	return 0
}

// cutLine cuts the first line of b, without its line end.
func cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return b, nil
	}
	line, rest = b[:i], b[i+1:]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, rest
}

// parseFields splits the lines of b, which ends with the empty line. spaced accepts white space before the colon, which RFC
// 9112 section 5.1 requires to be refused in requests and removed from answers.
func (h *head) parseFields(b []byte, maxFields int, spaced bool) error {
	for {
		var line []byte
		line, b = cutLine(b)
		if len(line) == 0 {
			return nil
		}
		if line[0] == ' ' || line[0] == '\t' {
			return badFold
		}
		n := 0
		for n < len(line) && classes[line[n]]&isToken != 0 {
			n++
		}
		name := line[:n]
		if spaced {
			for n < len(line) && (line[n] == ' ' || line[n] == '\t') {
				n++
			}
		}
		if len(name) == 0 || n == len(line) || line[n] != ':' {
			return badName
		}
		value := trim(line[n+1:])
		if !isText(value) {
			return badValue
		}
		if len(h.fields) == maxFields {
			return tooManyFields
		}
		h.fields = append(h.fields, request.Field{Name: name, Value: value})
		h.kinds = append(h.kinds, kindOf(name))
	}
}

// parseFraming reads the fields that control framing and persistence of requests and answers alike.
func (h *head) parseFraming(equalLengths bool) error {
	encodings := 0
	for i, k := range h.kinds {
		v := h.fields[i].Value
		switch k {
		case kLength:
			n, ok := parseLength(v)
			if !ok {
				return badLength
			}
			if h.length >= 0 && (!equalLengths || n != h.length) {
				return badLengthCount
			}
			h.length = n
		case kEncoding:
			encodings++
			if encodings > 1 {
				return badEncoding
			}
			if err := h.parseEncoding(v); err != nil {
				return err
			}
		case kConnection:
			if err := h.parseConnection(v); err != nil {
				return err
			}
		case kUpgrade:
			h.upgradeNum++
			h.upgradeTo = v
		}
	}
	if h.chunked && h.length >= 0 {
		return badLengthEncoding
	}
	return nil
}

// parseEncoding accepts "chunked" and nothing else. A malformed list of codings, or one with chunked anywhere but once at
// the end, could be read in two ways.
func (h *head) parseEncoding(v []byte) error {
	if request.EqualFold(v, "chunked") {
		h.chunked = true
		return nil
	}
	for rest := v; ; {
		item, more, ok := nextItem(rest)
		if !ok {
			break
		}
		if !isName(item) || request.EqualFold(item, "chunked") && more != nil || request.EqualFold(item, "identity") {
			return badEncoding
		}
		rest = more
	}
	return unknownEncoding
}

// parseConnection reads the connection options.
func (h *head) parseConnection(v []byte) error {
	for rest := v; ; {
		item, more, ok := nextItem(rest)
		if !ok {
			return nil
		}
		rest = more
		switch {
		case len(item) == 0:
		case request.EqualFold(item, "close"):
			h.close = true
		case request.EqualFold(item, "keep-alive"):
			h.keepAlive = true
		case request.EqualFold(item, "upgrade"):
			h.upgrade = true
		case !isName(item):
			return badValue
		case request.EqualFold(item, "te"):
		default:
			h.nominates = true
		}
	}
}

// nominated reports whether a Connection field names this one as hop by hop. Fields for framing, authentication or
// forwarding can't be removed that way.
func (h *head) nominated(name []byte, k kind) bool {
	if !h.nominates {
		return false
	}
	switch k {
	case plain, kCookie, kDate, kMaxForwards, kLookalike:
	default:
		return false
	}
	for i, k := range h.kinds {
		if k != kConnection {
			continue
		}
		for rest := h.fields[i].Value; ; {
			item, more, ok := nextItem(rest)
			if !ok {
				break
			}
			if request.EqualFold(item, name) {
				return true
			}
			rest = more
		}
	}
	return false
}
