package request

import "bytes"

// Some services read paths more loosely than any other part of the way does: they take overlong UTF-8 and %uXXXX for the characters that these
// once stood for, drop dots and blanks at the end of a name, as Windows does, with what follows ::$, or cut the path at an escaped ? or #, as
// rewriting does that decodes a path and parses it again. A path that has any of that is also read so, once whole and once cut.

// isLoose reports whether a decoded path may be read as another one by services of that kind.
func isLoose(decoded []byte) bool {
	prev := byte('/')
	for i, c := range decoded {
		switch {
		case c == '/' || c == '\\' || c == ';':
			if trimmed(prev) {
				return true
			}
		case c == '?' || c == '#' || c == ':' && bytes.HasPrefix(decoded[i:], stream) || c == '%' && i+1 < len(decoded) && decoded[i+1]|0x20 == 'u':
			return true
		case c >= 0xc0:
			if _, n := overlong(decoded[i:]); n > 0 {
				return true
			}
		}
		prev = c
	}
	return trimmed(prev)
}

var stream = []byte("::$")

// trimmed reports whether a byte is dropped at the end of a name.
func trimmed(c byte) bool { return c == '.' || 0 < c && c <= ' ' }

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

// trimNames drops what Windows drops at the end of names, in place. A name of one dot or two stays, whatever blanks follow it.
func trimNames(p []byte) []byte {
	w := 0
	for r := 0; r < len(p); {
		end := len(p)
		if i := bytes.IndexByte(p[r+1:], '/'); i >= 0 {
			end = r + 1 + i
		}
		name := p[r+1 : end]
		r = end
		if i := bytes.IndexByte(name, ';'); i >= 0 {
			name = name[:i]
		}
		if i := bytes.Index(name, stream); i >= 0 {
			name = name[:i]
		}
		for len(name) > 0 && name[len(name)-1] != '.' && trimmed(name[len(name)-1]) {
			name = name[:len(name)-1]
		}
		if string(name) != "." && string(name) != ".." {
			for len(name) > 0 && trimmed(name[len(name)-1]) {
				name = name[:len(name)-1]
			}
		}
		p[w] = '/'
		w += 1 + copy(p[w+1:], name)
	}
	return p[:w]
}
