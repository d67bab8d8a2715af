package wire

import (
	"bufio"
	"bytes"

	"antirobot/request"
)

// Source is the input from one side: a bufio.Reader that is given beside it, and how to wait for more with that side's deadlines.
type Source interface {
	// Fill returns when at least one byte is buffered.
	Fill() error
	// Read returns at least one byte, from the buffer or straight from the connection.
	Read(p []byte) (int, error)
}

// Head is one parsed message head. What is sliced from it points into Raw, and is valid until that is read into again. It is reused:
// start with Reset, which the parsers of whole heads call themselves.
type Head struct {
	Raw    []byte
	Fields []request.Field
	Kinds  []Kind // of each field

	// Of a request.
	Method, Target []byte // target is in origin-form, or "*"
	Host           []byte // of the Host field or the absolute-form; nil only on 1.0
	HostGiven      bool   // a Host field is present
	Expect         bool   // 100-continue
	TETrailers     bool
	MaxForwards    int    // -1 if absent
	SaysEmpty      bool   // over HTTP/2: there is no body, of a method that has one, and no length says so
	Accept         []byte // what proves that a service has read the gateway's own WebSocket key; nil: the client has one

	// Of a response.
	Status int
	Reason []byte
	Ended  bool // the message has been read to its end

	Minor      int   // of HTTP/1.x
	Length     int64 // Content-Length, -1 if absent
	Chunked    bool
	Close      bool // Connection: close
	keepAlive  bool // Connection: keep-alive
	Upgrade    bool // Connection: upgrade
	nominates  bool // Connection names other fields
	UpgradeTo  []byte
	UpgradeNum int
}

// Reset forgets all but Raw, and keeps the room of Fields and Kinds.
func (h *Head) Reset() {
	h.Fields, h.Kinds = h.Fields[:0], h.Kinds[:0]
	h.Method, h.Target, h.Host, h.Reason, h.UpgradeTo, h.Accept = nil, nil, nil, nil, nil, nil
	h.HostGiven, h.Expect, h.TETrailers, h.SaysEmpty, h.Chunked, h.Ended = false, false, false, false, false, false
	h.Close, h.keepAlive, h.Upgrade, h.nominates = false, false, false, false
	h.Status, h.Minor, h.UpgradeNum = 0, 0, 0
	h.Length, h.MaxForwards = -1, -1
}

// LineRules says how the lines of a head may end.
type LineRules struct {
	bareLF bool // accept a lone LF, as RFC 9112 section 2.2 allows: for answers only
	Max    int
}

// ReadHead appends one head, including its empty line, to dst. It stops at the first line end that the rules forbid, so
// that a sender of bare LFs is answered at once instead of being waited for. r is what s
// fills. An error is a Refusal, or one of s.
func ReadHead(r *bufio.Reader, s Source, dst []byte, rules LineRules) ([]byte, error) {
	line, first := 0, true // bytes of the current line so far, without LF
	start := len(dst)
	for {
		if r.Buffered() == 0 {
			if err := s.Fill(); err != nil {
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
				if len(dst)-start+i > rules.Max {
					return dst, HeadTooLong
				}
				dst = append(dst, b[:i]...)
				_, _ = r.Discard(i)
				return dst, nil
			}
			line, first = 0, false
		}
		if len(dst)-start+len(b) > rules.Max {
			if first {
				return dst, TargetTooLong
			}
			return append(dst, b...), HeadTooLong
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

// CutLine cuts the first line of b, without its line end.
func CutLine(b []byte) (line, rest []byte) {
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
func (h *Head) parseFields(b []byte, maxFields int, spaced bool) error {
	for {
		var line []byte
		line, b = CutLine(b)
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
			return BadName
		}
		value := Trim(line[n+1:])
		if !IsText(value) {
			return BadValue
		}
		if len(h.Fields) == maxFields {
			return TooManyFields
		}
		h.Fields = append(h.Fields, request.Field{Name: name, Value: value})
		h.Kinds = append(h.Kinds, KindOf(name))
	}
}

// ParseFraming reads the fields that control framing and persistence of requests and answers alike. In an answer several
// Content-Length of one value are accepted, and a Transfer-Encoding that says identity. An error is a Refusal.
func (h *Head) ParseFraming(answer bool) error {
	encodings := 0
	for i, k := range h.Kinds {
		v := h.Fields[i].Value
		switch k {
		case Length:
			n, ok := parseLength(v)
			if !ok {
				return BadLength
			}
			if h.Length >= 0 && (!answer || n != h.Length) {
				return badLengthCount
			}
			h.Length = n
		case Encoding:
			encodings++
			if encodings > 1 {
				return badEncoding
			}
			if answer && request.EqualFold(v, "identity") {
				continue // of RFC 2616: no coding; old servers say so in answers
			}
			if err := h.parseEncoding(v); err != nil {
				return err
			}
		case Connection:
			if err := h.parseConnection(v); err != nil {
				return err
			}
		case Upgrade:
			h.UpgradeNum++
			h.UpgradeTo = v
		}
	}
	if h.Chunked && h.Length >= 0 {
		return badLengthEncoding
	}
	return nil
}

// parseEncoding accepts "chunked" and nothing else. A malformed list of codings, or one with chunked anywhere but once at
// the end, could be read in two ways.
func (h *Head) parseEncoding(v []byte) error {
	if request.EqualFold(v, "chunked") {
		h.Chunked = true
		return nil
	}
	for rest := v; ; {
		item, more, ok := NextItem(rest)
		if !ok {
			break
		}
		if !IsName(item) || request.EqualFold(item, "chunked") && more != nil || request.EqualFold(item, "identity") {
			return badEncoding
		}
		rest = more
	}
	return unknownEncoding
}

// parseConnection reads the connection options.
func (h *Head) parseConnection(v []byte) error {
	for rest := v; ; {
		item, more, ok := NextItem(rest)
		if !ok {
			return nil
		}
		rest = more
		switch {
		case len(item) == 0:
		case request.EqualFold(item, "close"):
			h.Close = true
		case request.EqualFold(item, "keep-alive"):
			h.keepAlive = true
		case request.EqualFold(item, "upgrade"):
			h.Upgrade = true
		case !IsName(item):
			return BadValue
		case request.EqualFold(item, "te"):
		default:
			h.nominates = true
		}
	}
}

// Nominated reports whether a Connection field names this one as hop by hop. Fields for framing, authentication or
// forwarding can't be removed that way, nor those that say what a body is: a service would read it as something else than
// whoever judged it.
func (h *Head) Nominated(name []byte, k Kind) bool {
	if !h.nominates || request.HasPrefixFold(name, "content-") {
		return false
	}
	switch k {
	case Plain, Cookie, Date, MaxForwards, Lookalike:
	default:
		return false
	}
	for i, k := range h.Kinds {
		if k != Connection {
			continue
		}
		for rest := h.Fields[i].Value; ; {
			item, more, ok := NextItem(rest)
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
