package request

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// MaxReadings bounds the ways in which one path is read.
const MaxReadings = 9

// Paths holds the ways in which services may read one path; decisions by path consider all of them. The first is the
// path as received, the last its normal form; if these are all the same there is one. A path that some services read
// loosely may be its own normal form and have other readings after it. Between them are the readings of a service
// that
//
//   - decodes, and resolves no dots: /%61dmin/../x is below /admin;
//   - resolves dots before it decodes, once or twice: /x/..%2f..%2fadmin;
//   - takes a name after two slashes or more for a host: //x/admin, ///x/admin;
//   - reads loosely: /login%20, /%20login, /l%c1%afgin, /login%3fx, /(S(x))/login.
//
// The zero value is ready for Read, and may be used again. The slices are valid until the next Read, the first as
// long as the View.
type Paths struct {
	list [MaxReadings][]byte
	n    int
	nul  bool
	buf  []byte
}

// keptPaths is how much memory for readings is kept.
const keptPaths = 16 << 10

// Read reads a path. Time is linear in its length; it allocates only for a path that is longer than those before.
func (p *Paths) Read(raw []byte) {
	p.n, p.nul = 0, false
	p.add(raw)
	normal, odd := survey(raw)
	if normal && !(odd && isLoose(raw)) {
		return
	}
	if need := (MaxReadings + 2) * (len(raw) + 1); cap(p.buf) < need {
		p.buf = make([]byte, 0, need)
	}
	b := decodeAll(p.buf[:0], raw)
	decoded := b
	if isLoose(decoded) {
		b = p.addLoose(b, decoded)
		if normal {
			return
		}
	}
	p.nul = bytes.IndexByte(decoded, 0) >= 0
	if isPlain(decoded) { // then so is what one decoding or two make of it
		p.last(decoded)
		return
	}
	p.add(decoded)
	for level, cur := 0, raw; level < 3; level++ {
		from := len(b)
		b = append(b, cur...)
		if len(cur) == 0 || cur[0] != '/' {
			b = append(append(b[:from], '/'), cur...)
		}
		b = b[:from+resolve(b[from:])]
		from, resolved := len(b), b[from:]
		b = decodeAll(b, resolved)
		p.add(b[from:])
		from = len(b)
		b = decodeOnce(b, cur)
		if cur = b[from:]; bytes.IndexByte(cur, '%') < 0 {
			break
		}
		if cap(p.buf)-len(b) < 3*(len(raw)+1) {
			break
		}
	}
	if len(raw) > 1 && raw[0] == '/' && (raw[1] == '/' || raw[1] == '\\') {
		host := bytes.TrimLeft(raw, `/\`) // as URL in browsers and Node has it, however many there are
		if i := bytes.IndexAny(host, `/\`); i >= 0 {
			from := len(b)
			b = NormalPath(b, host[i:])
			p.add(b[from:])
		}
	}
	from := len(b)
	p.last(NormalPath(b, raw)[from:])
}

// add adds a reading unless it is there.
func (p *Paths) add(path []byte) {
	for _, have := range p.list[:p.n] {
		if bytes.Equal(have, path) {
			return
		}
	}
	p.list[p.n] = path
	p.n++
}

// last adds the normal form, or moves it to the end, unless it is the first.
func (p *Paths) last(path []byte) {
	if bytes.Equal(p.list[0], path) {
		return
	}
	for i, have := range p.list[1:p.n] {
		if bytes.Equal(have, path) {
			copy(p.list[1+i:p.n], p.list[2+i:p.n])
			p.n--
			break
		}
	}
	p.list[p.n] = path
	p.n++
}

// addLoose adds the loose readings of a decoded path in b.
func (p *Paths) addLoose(b, decoded []byte) []byte {
	for _, cut := range [...]bool{false, true} {
		from := len(b)
		b = appendLoose(b, decoded, cut)
		p.add(b[from:])
	}
	return b
}

// All returns the readings.
func (p *Paths) All() [][]byte { return p.list[:p.n] }

// HasNUL reports whether a NUL is escaped in the path: readers disagree about its end.
func (p *Paths) HasNUL() bool { return p.nul }

// Forget releases the View's bytes.
func (p *Paths) Forget() {
	clear(p.list[:p.n])
	p.n = 0
	if cap(p.buf) > keptPaths {
		p.buf = nil
	}
}

// isPlain reports whether a decoded path has only one reading.
func isPlain(decoded []byte) bool {
	prev := byte(0)
	for _, c := range decoded {
		switch c {
		case ';', '\\':
			return false
		case '/', '.':
			if prev == '/' {
				return false
			}
		}
		prev = c
	}
	return true
}

// Some services read paths more loosely than all others:
//
//   - they take overlong UTF-8 and %uXXXX for the characters that these once stood for;
//   - they drop dots and blanks at the end of a name, as Windows does, with a stream's name after :$;
//   - they drop blanks around a name, as Spring did until 4.3 (those of ASCII), trim in JavaScript and strip in
//     Python (all);
//   - they skip sessions that ASP.NET keeps in paths: /(S(x))/login;
//   - they cut the path at an escaped ? or #, as rewriting does that decodes a path and parses it again.
//
// Such a path is also read so, once whole and once cut.

// isLoose reports whether such services may read a decoded path differently.
func isLoose(decoded []byte) bool {
	prev := byte('/')
	for i, c := range decoded {
		begins := prev == '/' || prev == '\\'
		switch {
		case c == '/' || c == '\\' || c == ';':
			if endsLoose(decoded[:i]) {
				return true
			}
		case c == '?' || c == '#' || c == ':' && bytes.HasPrefix(decoded[i:], stream),
			c == '%' && i+1 < len(decoded) && decoded[i+1]|0x20 == 'u':
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

// stream begins the kind of a Windows file stream: x::$DATA, x:$I30:$INDEX_ALLOCATION.
var stream = []byte(":$")

// endsLoose reports whether something is dropped at the end of a name.
func endsLoose(name []byte) bool {
	return len(name) > 0 && (name[len(name)-1] == '.' || blankAtEnd(name) > 0)
}

// blankAtEnd returns the length of the blank that b ends in, 0 if it ends in none; a byte that is a blank in Latin-1
// counts.
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

func blank(r rune, n int) int {
	if 0 < r && r <= ' ' || r == '\ufeff' || r > ' ' && unicode.IsSpace(r) {
		return n
	}
	return 0
}

var sessions, sessionEnd = []byte("asf"), []byte("))")

// sessionIn returns the length of an ASP.NET session at the beginning of a name: (S(x)), (A(x)F(y)).
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

// overlong returns the ASCII character that b begins with in too many bytes, and their number; 0 if there is none.
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

// appendLoose appends a decoded path as loose services read it. cut ends it where a query or a fragment seems to
// begin.
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

// trimNames drops blanks, dots and sessions around names in place. A name of one dot or two stays.
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
