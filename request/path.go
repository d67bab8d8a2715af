package request

import (
	"bytes"
)

// NormalPath appends the normal form of a raw path (origin-form, without query) to dst, as the most lenient upstream
// might read it. It decodes every escape, and escapes made by decoding, until none is left; reads a backslash as a
// slash; drops the ;parameters of each segment; joins empty segments; resolves "." and "..". The result begins with a
// slash, and is its own normal form. raw is not kept; time is linear in its length.
//
// A NUL stays where it was decoded: some upstreams end the path there, others go on, and such a path is best refused
// (Paths.HasNUL).
func NormalPath(dst, raw []byte) []byte {
	base := len(dst)
	dst = decodeAll(dst, raw)
	return dst[:base+resolve(dst[base:])]
}

// decodeAll appends a path with a slash before it and every escape decoded, repeatedly.
func decodeAll(dst, raw []byte) []byte {
	base := len(dst)
	if len(raw) == 0 || raw[0] != '/' {
		dst = append(dst, '/')
	}
	for _, c := range raw {
		dst = append(dst, c)
		// An escape may be completed by a byte that was itself escaped (%2%35 is %25): look at the tail again.
		for len(dst)-base >= 3 && dst[len(dst)-3] == '%' {
			hi, lo := Unhex(dst[len(dst)-2]), Unhex(dst[len(dst)-1])
			if hi < 0 || lo < 0 {
				break
			}
			dst = dst[:len(dst)-2]
			dst[len(dst)-1] = byte(hi<<4 | lo)
		}
	}
	return dst
}

// decodeOnce appends a path with each of its escapes decoded.
func decodeOnce(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		if raw[i] == '%' && i+2 < len(raw) {
			if hi, lo := Unhex(raw[i+1]), Unhex(raw[i+2]); hi >= 0 && lo >= 0 {
				dst = append(dst, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		dst = append(dst, raw[i])
	}
	return dst
}

// resolve reads backslashes as slashes and resolves segments in place; it returns the new length. p begins with a
// slash.
func resolve(p []byte) int {
	for i, c := range p {
		if c == '\\' {
			p[i] = '/'
		}
	}
	return resolveDots(p)
}

// resolveDots removes parameters, empty and dot segments in place and returns the new length. p begins with a slash.
func resolveDots(p []byte) int {
	w := 0
	for r := 0; r < len(p); {
		end := len(p)
		if i := bytes.IndexByte(p[r+1:], '/'); i >= 0 {
			end = r + 1 + i
		}
		last := end == len(p)
		seg := p[r+1 : end]
		if i := bytes.IndexByte(seg, ';'); i >= 0 {
			seg = seg[:i]
		}
		r = end
		switch {
		case len(seg) == 0 || len(seg) == 1 && seg[0] == '.':
		case len(seg) == 2 && seg[0] == '.' && seg[1] == '.':
			for w > 0 {
				w--
				if p[w] == '/' {
					break
				}
			}
		default:
			p[w] = '/'
			w += 1 + copy(p[w+1:], seg)
			continue
		}
		if last { // the segment was removed, the slash before it stays
			p[w] = '/'
			w++
		}
	}
	return w
}

// Unhex returns the value of a hexadecimal digit, -1 of any other byte.
func Unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// isNormal reports whether a path is certainly its own normal form.
func isNormal(raw []byte) bool {
	normal, _ := survey(raw)
	return normal
}

// survey is isNormal, and reports whether a normal path may be loose; see isLoose.
func survey(raw []byte) (normal, odd bool) {
	if len(raw) == 0 || raw[0] != '/' {
		return false, true
	}
	prev := byte(0)
	for _, c := range raw {
		is := surveyed[c]
		if is|prev != 0 {
			switch {
			case is == pathEscape, prev == pathSlash && (is == pathSlash || is == pathDot):
				return false, true
			case is == pathOdd, prev == pathDot && is == pathSlash:
				odd = true
			}
		}
		prev = is
	}
	return true, odd || prev == pathDot
}

var surveyed = func() (is [256]uint8) {
	for c := range is {
		if c >= 0x80 || c <= ' ' {
			is[c] = pathOdd
		}
	}
	for _, c := range ":?#(" {
		is[c] = pathOdd
	}
	for _, c := range "%;\\\x00" {
		is[c] = pathEscape
	}
	is['/'], is['.'] = pathSlash, pathDot
	return is
}()

const (
	pathOdd uint8 = iota + 1 // may make a path loose
	pathEscape
	pathSlash
	pathDot
)
