// Package wire is the grammar of HTTP/1 messages: it parses heads and chunked bodies, and refuses whatever two parsers
// could read differently. A Source brings the bytes; the caller sets the limits. Request smuggling is prevented here,
// and by writing anew in h1.
//
// A Head, and whatever is sliced from it, borrows Raw until the next head is read into it. Nothing is safe for
// concurrent use, or allocates
// once the buffers of a Head have grown.
package wire

import (
	"bufio"
	"bytes"
	"errors"

	"antirobot/request"
)

// Source fills a bufio.Reader with that side's deadlines.
type Source interface {
	// Fill returns when at least one byte is buffered.
	Fill() error
	// Read returns at least one byte, from the buffer or the connection.
	Read(p []byte) (int, error)
}

// Head is one parsed message head. Slices point into Raw, until the next read into it. Start with Reset, which parsers
// of whole heads call.
type Head struct {
	Raw    []byte
	Fields []request.Field
	Kinds  []Kind

	// Of a request.
	Method, Target []byte // origin-form, or "*"
	Host           []byte // of the field or the absolute-form; nil only on 1.0
	HostGiven      bool
	Expect         bool // 100-continue
	TETrailers     bool
	MaxForwards    int    // -1: absent
	SaysEmpty      bool   // over HTTP/2: no body for a method that usually has one
	Accept         []byte // of the gateway's own WebSocket key; nil: the client's

	// Of a response.
	Status int
	Reason []byte
	Ended  bool // read to the end

	Minor      int   // of HTTP/1.x
	Length     int64 // -1: absent
	Chunked    bool
	Close      bool // option of Connection
	keepAlive  bool // likewise
	Upgrade    bool // likewise
	nominates  bool // Connection names other fields
	UpgradeTo  []byte
	UpgradeNum int
}

// Reset keeps Raw, and the capacity of Fields and Kinds.
func (h *Head) Reset() {
	h.Fields, h.Kinds = h.Fields[:0], h.Kinds[:0]
	h.Method, h.Target, h.Host, h.Reason, h.UpgradeTo, h.Accept = nil, nil, nil, nil, nil, nil
	h.HostGiven, h.Expect, h.TETrailers, h.SaysEmpty, h.Chunked, h.Ended = false, false, false, false, false, false
	h.Close, h.keepAlive, h.Upgrade, h.nominates = false, false, false, false
	h.Status, h.Minor, h.UpgradeNum = 0, 0, 0
	h.Length, h.MaxForwards = -1, -1
}

// LineRules says how lines may end.
type LineRules struct {
	bareLF bool // accept a lone LF (RFC 9112 section 2.2): for answers only
	Max    int
}

// ReadHead appends one head with its empty line to dst. It stops at the first forbidden line end, so that a sender of
// bare LFs is answered at once. Errors are Refusals, and s's.
func ReadHead(r *bufio.Reader, s Source, dst []byte, rules LineRules) ([]byte, error) {
	line, first := 0, true // bytes of the line, without LF
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

// before returns the byte n positions before b[i], where b follows a; 0: none.
func before(a, b []byte, i, n int) byte {
	switch k := i - n; {
	case k >= 0:
		return b[k]
	case len(a)+k >= 0:
		return a[len(a)+k]
	}
	return 0
}

// CutLine cuts the first line off b, without its end.
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

// parseFields parses lines until the empty one. spaced accepts white space before the colon, which RFC 9112 section 5.1
// forbids in requests only.
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

// ParseFraming reads the fields of framing and persistence. An answer may repeat a Content-Length, and say
// Transfer-Encoding: identity. An error is a Refusal.
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
				continue // RFC 2616; old servers
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

// parseEncoding accepts "chunked" alone; anything else could be read in two ways.
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

// Nominated reports whether Connection names this field as hop by hop. Fields of framing, authentication, forwarding
// and content can't be removed that way: the service would read another request than was judged.
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

// ErrBadResponse wraps why an answer is ambiguous or malformed.
var ErrBadResponse = errors.New("the upstream's response is not valid HTTP")

// Refusal is why a request is not served, numbered below Refusals. HeadTimeout and ConnectionField come from the
// fronts.
type Refusal uint8

// The refusals.
const (
	BadLine Refusal = iota + 1
	BadMethod
	BadTarget
	badVersion
	BadName
	BadValue
	badFold
	badLineEnd
	badHost
	badHostCount
	badHostMismatch
	BadLength
	badLengthCount
	badLengthEncoding
	badEncoding
	unknownEncoding
	encodingOn10
	ConnectRefused
	badExpect
	TargetTooLong
	HeadTooLong
	TooManyFields
	HeadTimeout
	ConnectionField
	Refusals
)

var refusals = [Refusals]struct {
	status int
	name   string
}{
	BadLine:           {400, "request_line"},
	BadMethod:         {400, "method"},
	BadTarget:         {400, "target"},
	badVersion:        {505, "version"},
	BadName:           {400, "field_name"},
	BadValue:          {400, "field_value"},
	badFold:           {400, "obs_fold"},
	badLineEnd:        {400, "line_end"},
	badHost:           {400, "host"},
	badHostCount:      {400, "host_count"},
	badHostMismatch:   {400, "host_mismatch"},
	BadLength:         {400, "content_length"},
	badLengthCount:    {400, "content_length_count"},
	badLengthEncoding: {400, "content_length_and_transfer_encoding"},
	badEncoding:       {400, "transfer_encoding"},
	unknownEncoding:   {501, "transfer_encoding_unknown"},
	encodingOn10:      {400, "transfer_encoding_on_1_0"},
	ConnectRefused:    {405, "connect"},
	badExpect:         {417, "expect"},
	TargetTooLong:     {414, "target_too_long"},
	HeadTooLong:       {431, "header_too_long"},
	TooManyFields:     {431, "too_many_fields"},
	HeadTimeout:       {408, "header_timeout"},
	ConnectionField:   {400, "connection_field"},
}

func (r Refusal) Error() string { return "refused: " + refusals[r].name }

// Status is its HTTP status.
func (r Refusal) Status() int { return refusals[r].status }

// Name is its name in metrics.
func (r Refusal) Name() string { return refusals[r].name }

// Requests that another server reports are parsed as strictly as direct ones.

// ValidMethod reports whether method may be forwarded; CONNECT may not.
func ValidMethod(method []byte) bool { return IsName(method) && string(method) != "CONNECT" }

// ValidTarget reports whether target is an origin-form, or "*" of OPTIONS.
func ValidTarget(method, target []byte) bool {
	if len(target) == 0 || !All(target, Target) {
		return false
	}
	return target[0] == '/' || string(target) == "*" && string(method) == "OPTIONS"
}
