package h1

import (
	"encoding/binary"

	"antirobot/request"
)

// The character classes of RFC 9110 section 5.6.2 and RFC 3986, one bit each.
const (
	isToken  = 1 << iota // tchar: header names, methods
	isValue              // field-vchar, SP, HTAB, obs-text: header values and reason phrases
	isTarget             // visible ASCII but '#', and bytes above it, which old clients send unescaped: a request target
	isHost               // reg-name without escapes and sub-delims, which no host name needs
	isDigit
)

// classes maps each byte to its classes.
var classes = makeClasses()

func makeClasses() (t [256]uint8) {
	for c := 0; c < 256; c++ {
		alpha := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		if digit {
			t[c] |= isDigit
		}
		if alpha || digit || indexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 {
			t[c] |= isToken
		}
		if alpha || digit || indexByte("-._~", byte(c)) >= 0 {
			t[c] |= isHost
		}
		if c == '\t' || c >= 0x20 && c != 0x7f {
			t[c] |= isValue
		}
		if c > 0x20 && c != 0x7f && c != '#' {
			t[c] |= isTarget
		}
	}
	return t
}

func indexByte(s string, c byte) int {
	for i := 0; i < len(s); i++ {
		if s[i] == c {
			return i
		}
	}
	return -1
}

// all reports whether every byte of b is in class; true for an empty b.
func all(b []byte, class uint8) bool {
	for _, c := range b {
		if classes[c]&class == 0 {
			return false
		}
	}
	return true
}

// isText reports whether every byte of b is in isValue. It checks eight bytes at a time, and byte by byte only in suspect
// words.
func isText(b []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		low := (x - ones*0x20) & ^x & highs // a byte below 0x20
		del := x ^ ones*0x7f                // a byte of zero here is DEL
		if (low|(del-ones)&^del&highs) != 0 && !all(b[:8], isValue) {
			return false
		}
		b = b[8:]
	}
	return all(b, isValue)
}

// isName reports whether b may be the name of a header field or a method.
func isName(b []byte) bool { return len(b) > 0 && all(b, isToken) }

// trim cuts optional white space (SP, HTAB) from both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// nextItem cuts off the first member of a comma-separated list: it returns the trimmed member and the rest; ok is false at
// the end.
func nextItem(list []byte) (item, rest []byte, ok bool) {
	if list == nil {
		return nil, nil, false
	}
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:], true
		}
	}
	return trim(list), nil, true
}

// maxDigits keeps every decimal length within int64.
const maxDigits = 18

// parseLength reads a Content-Length: digits and nothing else (no sign, no list, no space), within int64.
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

// kind says what a header field means for the connection.
type kind uint8

const (
	plain        kind = iota
	kHost             // exactly one
	kConnection       // hop by hop, names others
	kLength           // framing
	kEncoding         // framing
	kTE               // hop by hop, but for "trailers"
	kTrailer          // announces trailer fields: kept only where trailers can be sent
	kUpgrade          // hop by hop, but for a WebSocket
	kExpect           // 100-continue
	kHop              // hop by hop, never forwarded: Keep-Alive, Proxy-*, HTTP2-Settings
	kForwarded        // X-Forwarded-*, X-Real-IP, Forwarded: never removed by nomination
	kMaxForwards      // counted down for OPTIONS and TRACE
	kCookie
	kDate
	kLookalike // a name that a CGI program reads as one of the above: Content_Length, X_Forwarded_For
)

// kindOf classifies a field's name.
func kindOf(name []byte) kind {
	if k := knownKind(name); k != plain {
		return k
	}
	for _, c := range name {
		if c == '_' {
			return cgiKind(name)
		}
	}
	return plain
}

// knownKind compares the length first: most names are ruled out by one comparison.
func knownKind(name []byte) kind {
	switch len(name) {
	case 2:
		return is(name, "te", kTE)
	case 4:
		if request.Lower(name[0]) == 'h' {
			return is(name, "host", kHost)
		}
		return is(name, "date", kDate)
	case 6:
		if request.Lower(name[0]) == 'c' {
			return is(name, "cookie", kCookie)
		}
		return is(name, "expect", kExpect)
	case 7:
		if request.Lower(name[0]) == 't' {
			return is(name, "trailer", kTrailer)
		}
		return is(name, "upgrade", kUpgrade)
	case 9:
		if request.Lower(name[0]) == 'f' {
			return is(name, "forwarded", kForwarded)
		}
		return is(name, "x-real-ip", kForwarded)
	case 10:
		if request.Lower(name[0]) == 'k' {
			return is(name, "keep-alive", kHop)
		}
		return is(name, "connection", kConnection)
	case 12:
		if request.Lower(name[0]) == 'm' {
			return is(name, "max-forwards", kMaxForwards)
		}
	case 14:
		if request.Lower(name[0]) == 'c' {
			return is(name, "content-length", kLength)
		}
		return is(name, "http2-settings", kHop)
	case 16:
		if request.Lower(name[0]) == 'p' {
			return is(name, "proxy-connection", kHop)
		}
	case 17:
		if request.Lower(name[0]) == 't' {
			return is(name, "transfer-encoding", kEncoding)
		}
	case 18:
		if request.Lower(name[0]) == 'p' {
			return is(name, "proxy-authenticate", kHop)
		}
	case 19:
		if request.Lower(name[0]) == 'p' {
			return is(name, "proxy-authorization", kHop)
		}
	case 25:
		if request.Lower(name[0]) == 'p' {
			return is(name, "proxy-authentication-info", kHop)
		}
	}
	if len(name) > 12 && request.Lower(name[0]) == 'x' && request.HasPrefixFold(name, "x-forwarded-") {
		return kForwarded
	}
	return plain
}

func is(name []byte, s string, k kind) kind {
	if request.EqualFold(name, s) {
		return k
	}
	return plain
}

// cgiKind reports whether a name with underscores becomes one of the names that matter here when a service maps header
// names to CGI variables.
func cgiKind(name []byte) kind {
	var b [25]byte
	n := min(len(name), len(b))
	for i := 0; i < n; i++ {
		if b[i] = name[i]; b[i] == '_' {
			b[i] = '-'
		}
	}
	if len(name) > len(b) {
		if request.HasPrefixFold(b[:], "x-forwarded-") {
			return kLookalike
		}
		return plain
	}
	switch knownKind(b[:n]) {
	case plain, kCookie, kDate, kMaxForwards:
		return plain
	}
	return kLookalike
}
