package wire

import (
	"bytes"
	"encoding/binary"
	"strings"

	"antirobot/request"
)

// Character classes of RFC 9110 section 5.6.2 and RFC 3986, one bit each.
const (
	isToken = 1 << iota // tchar
	Value               // field-vchar, SP, HTAB, obs-text
	Target              // visible ASCII but '#', and bytes from 0x80 of old clients
	isHost              // reg-name without escapes and sub-delims
	isDigit
)

var classes = makeClasses()

func makeClasses() (t [256]uint8) {
	for c := range 256 {
		alpha := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		if digit {
			t[c] |= isDigit
		}
		if alpha || digit || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 {
			t[c] |= isToken
		}
		if alpha || digit || strings.IndexByte("-._~", byte(c)) >= 0 {
			t[c] |= isHost
		}
		if c == '\t' || c >= 0x20 && c != 0x7f {
			t[c] |= Value
		}
		if c > 0x20 && c != 0x7f && c != '#' {
			t[c] |= Target
		}
	}
	return t
}

// All reports whether every byte of b is in class.
func All(b []byte, class uint8) bool {
	for _, c := range b {
		if classes[c]&class == 0 {
			return false
		}
	}
	return true
}

// IsText is All(b, Value), eight bytes at a time.
func IsText(b []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		low := (x - ones*0x20) & ^x & highs // a byte below 0x20
		del := x ^ ones*0x7f                // a zero byte is DEL
		if (low|(del-ones)&^del&highs) != 0 && !All(b[:8], Value) {
			return false
		}
		b = b[8:]
	}
	return All(b, Value)
}

// IsName reports whether b is a token: a field name or method.
func IsName(b []byte) bool { return len(b) > 0 && All(b, isToken) }

// StartsToken reports whether c may begin a request.
func StartsToken(c byte) bool { return classes[c]&isToken != 0 }

// Trim cuts SP and HTAB from both ends. Unlike bytes.Trim it does not make nil of an empty value.
func Trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// NextItem cuts the first member off a comma-separated list; ok is false at the end.
func NextItem(list []byte) (item, rest []byte, ok bool) {
	if list == nil {
		return nil, nil, false
	}
	item, rest, _ = bytes.Cut(list, []byte{','})
	return Trim(item), rest, true
}

const maxDigits = 18

// parseLength accepts digits only.
func parseLength(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > maxDigits {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// Kind is a field's meaning for the connection.
type Kind uint8

// Kinds. Plain fields mean nothing for the connection.
const (
	Plain       Kind = iota
	Host             // exactly one
	Connection       // hop by hop, names others
	Length           // framing
	Encoding         // framing
	TE               // hop by hop, except "trailers"
	Trailer          // kept where trailers can be sent
	Upgrade          // hop by hop, except a WebSocket's
	Expect           // 100-continue
	Hop              // never forwarded: Keep-Alive, Proxy-*, HTTP2-Settings
	Forwarded        // X-Forwarded-*, X-Real-IP, Forwarded: can't be nominated
	MaxForwards      // of OPTIONS and TRACE
	Cookie
	Date
	Lookalike // CGI reads the name as one of the above: Content_Length, X.Forwarded.For
)

// KindOf classifies a field's name.
func KindOf(name []byte) Kind {
	if k := knownKind(name); k != Plain {
		return k
	}
	for _, c := range name {
		if c != '-' && request.CGI(c) == '-' {
			return cgiKind(name)
		}
	}
	return Plain
}

type knownName struct {
	name string
	kind Kind
}

// known are the names of fields that mean something for the connection, by length.
var known = makeKnown()

func makeKnown() (t [26][]knownName) {
	for _, k := range []knownName{
		{"te", TE},
		{"host", Host},
		{"date", Date},
		{"cookie", Cookie},
		{"expect", Expect},
		{"trailer", Trailer},
		{"upgrade", Upgrade},
		{"forwarded", Forwarded},
		{"x-real-ip", Forwarded},
		{"keep-alive", Hop},
		{"connection", Connection},
		{"max-forwards", MaxForwards},
		{"content-length", Length},
		{"http2-settings", Hop},
		{"proxy-connection", Hop},
		{"transfer-encoding", Encoding},
		{"proxy-authenticate", Hop},
		{"proxy-authorization", Hop},
		{"proxy-authentication-info", Hop},
	} {
		t[len(k.name)] = append(t[len(k.name)], k)
	}
	return t
}

func knownKind(name []byte) Kind {
	if len(name) < len(known) {
		for _, k := range known[len(name)] {
			if request.EqualFold(name, k.name) {
				return k.kind
			}
		}
	}
	if len(name) > 12 && request.Lower(name[0]) == 'x' && request.HasPrefixFold(name, "x-forwarded-") {
		return Forwarded
	}
	return Plain
}

// cgiKind reports whether CGI maps a name with underscores or points to a known one.
func cgiKind(name []byte) Kind {
	var b [25]byte
	n := min(len(name), len(b))
	for i := 0; i < n; i++ {
		b[i] = request.CGI(name[i])
	}
	if len(name) > len(b) {
		if request.HasPrefixFold(b[:], "x-forwarded-") {
			return Lookalike
		}
		return Plain
	}
	switch knownKind(b[:n]) {
	case Plain, Cookie, Date, MaxForwards:
		return Plain
	}
	return Lookalike
}
