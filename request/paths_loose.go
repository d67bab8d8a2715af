package request

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// Some services read paths more loosely than any other part of the way does:
//
//   - they take overlong UTF-8 and %uXXXX for the characters that these once stood for;
//   - they drop dots and blanks at the end of a name, as Windows does, with what follows a stream's :$;
//   - they drop blanks around a name, as Spring did until 4.3 (those of ASCII) and who calls trim in JavaScript or strip in Python (all);
//   - they leave out sessions that ASP.NET keeps in paths: /(S(x))/login;
//   - they cut the path at an escaped ? or #, as rewriting does that decodes a path and parses it again.
//
// A path that has any of that is also read so, once whole and once cut.

// isLoose reports whether a decoded path may be read as another one by services of that kind.
func isLoose(decoded []byte) bool {
	prev := byte('/')
	for i, c := range decoded {
		begins := prev == '/' || prev == '\\'
		switch {
		case c == '/' || c == '\\' || c == ';':
			if endsLoose(decoded[:i]) {
				return true
			}
		case c == '?' || c == '#' || c == ':' && bytes.HasPrefix(decoded[i:], stream) || c == '%' && i+1 < len(decoded) && decoded[i+1]|0x20 == 'u':
			return true
		case begins && (c == '(' && sessionIn(decoded[i:]) > 0 || blankAtStart(decoded[i:]) > 0):
			return true
		case c >= 0xc0:
			if _, n := overlong(decoded[i:]); n > 0 {
				return true
			}
		}
		prev = c
	}
	return endsLoose(decoded)
}

// stream begins the kind of a stream of Windows' files: x::$DATA, x:$I30:$INDEX_ALLOCATION.
var stream = []byte(":$")

// endsLoose reports whether something is dropped at the end of a name.
func endsLoose(name []byte) bool {
	return len(name) > 0 && (name[len(name)-1] == '.' || blankAtEnd(name) > 0)
}

// blankAtEnd returns the length of the blank that b ends in, 0 if it ends in none. A byte that is a blank in Latin-1 alone is one, too.
func blankAtEnd(b []byte) int {
	r, n := utf8.DecodeLastRune(b)
	if r == utf8.RuneError && n == 1 {
		r = rune(b[len(b)-1])
	}
	return blank(r, n)
}

// blankAtStart is blankAtEnd for the beginning.
func blankAtStart(b []byte) int {
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 {
		r = rune(b[0])
	}
	return blank(r, n)
}

// blank returns n if r is a blank, a control character or a byte order mark, and 0 if not.
func blank(r rune, n int) int {
	if 0 < r && r <= ' ' || r == '\ufeff' || r > ' ' && unicode.IsSpace(r) {
		return n
	}
	return 0
}

var sessions, sessionEnd = []byte("asf"), []byte("))")

// sessionIn returns the length of what ASP.NET takes for a session, a login or a visitor at the beginning of a name: (S(x)), (A(x)F(y)).
func sessionIn(b []byte) int {
	if len(b) < len("(S())") || b[0] != '(' || b[2] != '(' || bytes.IndexByte(sessions, b[1]|0x20) < 0 {
		return 0
	}
	if i := bytes.IndexAny(b, `/\`); i >= 0 {
		b = b[:i]
	}
	end := bytes.Index(b, sessionEnd)
	if end < 0 {
		return 0
	}
	return end + len(sessionEnd)
}

// overlong returns the character of ASCII that b begins with in more bytes than it takes, and how many; 0 if it begins with none.
func overlong(b []byte) (c byte, n int) {
	tail := func(i int) (byte, bool) {
		if i >= len(b) || b[i]&0xc0 != 0x80 {
			return 0, false
		}
		return b[i] & 0x3f, true
	}
	switch {
	case b[0] == 0xc0 || b[0] == 0xc1:
		if low, ok := tail(1); ok {
			return b[0]&1<<6 | low, 2
		}
	case b[0] == 0xe0, b[0] == 0xf0 && len(b) > 1 && b[1] == 0x80:
		at := 1 + int(b[0]>>4&1)
		high, ok := tail(at)
		if low, ok2 := tail(at + 1); ok && ok2 && high <= 1 {
			return high<<6 | low, at + 2
		}
	case b[0] == '%' && len(b) > 5 && b[1]|0x20 == 'u' && b[2] == '0' && b[3] == '0':
		if hi, lo := Unhex(b[4]), Unhex(b[5]); hi >= 0 && hi < 8 && lo >= 0 {
			return byte(hi<<4 | lo), 6
		}
	}
	return 0, 0
}

// appendLoose appends a decoded path as loose services read it. cut says that it ends where a query or a fragment seems to begin.
func appendLoose(dst, decoded []byte, cut bool) []byte {
	base := len(dst)
	for i := 0; i < len(decoded); {
		c, n := decoded[i], 1
		if c == '%' || c >= 0xc0 {
			if o, long := overlong(decoded[i:]); long > 0 {
				c, n = o, long
			}
		}
		dst = append(dst, c)
		i += n
	}
	p := dst[base:]
	if i := bytes.IndexAny(p, "?#"); cut && i >= 0 {
		p = p[:i]
	}
	if len(p) == 0 {
		p = append(p, '/')
	}
	for i, c := range p {
		if c == '\\' {
			p[i] = '/'
		}
	}
	p = trimNames(p)
	return dst[:base+resolveDots(p)]
}

// trimNames drops what loose services drop around names, and sessions, in place. A name of one dot or two stays, whatever blanks are around it.
func trimNames(p []byte) []byte {
	w := 0
	for r := 0; r < len(p); {
		end := len(p)
		if i := bytes.IndexByte(p[r+1:], '/'); i >= 0 {
			end = r + 1 + i
		}
		name := p[r+1 : end]
		r = end
		session := sessionIn(name)
		name = trimName(name[session:])
		if session == 0 || w == 0 { // what follows a session goes on where the name before it ended
			p[w] = '/'
			w++
		}
		w += copy(p[w:], name)
	}
	return p[:w]
}

func trimName(name []byte) []byte {
	if i := bytes.IndexByte(name, ';'); i >= 0 {
		name = name[:i]
	}
	if i := bytes.Index(name, stream); i >= 0 {
		name = bytes.TrimRight(name[:i], ":")
	}
	for n := blankAtStart(name); n > 0; n = blankAtStart(name) {
		name = name[n:]
	}
	for n := blankAtEnd(name); n > 0; n = blankAtEnd(name) {
		name = name[:len(name)-n]
	}
	if string(name) != "." && string(name) != ".." {
		for endsLoose(name) {
			name = name[:len(name)-max(1, blankAtEnd(name))]
		}
	}
	return name
}
