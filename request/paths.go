package request

import "bytes"

// MaxReadings bounds the ways in which one path is read.
const MaxReadings = 9

// Paths is the ways in which services may read one path. What is decided by a path is decided for all of them: a
// service is free to read any. The first is the path as it came, the last its normal form; where these are all the same
// there is one. A path that some services read loosely may be its own normal form and have other readings after it. Between them stand
// what a service reads that
//
//   - decodes, and resolves no dots: /%61dmin/../x is below /admin;
//   - resolves dots before it decodes, once or twice: /x/..%2f..%2fadmin;
//   - takes what follows two slashes or more for a host: //x/admin, ///x/admin;
//   - reads loosely: /login%20, /%20login, /l%c1%afgin, /login%3fx, /(S(x))/login.
//
// The zero value is ready for Read, and may be used again. The slices are valid until the next Read, the first as long
// as the View.
type Paths struct {
	list [MaxReadings][]byte
	n    int
	nul  bool
	buf  []byte
}

// keptPaths is how much memory for readings is kept from one path to the next.
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

// last adds the normal form, and moves it to the end if it is there already, unless it is the first.
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

// addLoose adds how loose services read a decoded path, which stands in b; it returns b with these.
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

// HasNUL reports whether a byte of zero is escaped in the path. Nobody asks for that in earnest, and whether the path
// ends there is read differently everywhere.
func (p *Paths) HasNUL() bool { return p.nul }

// Forget lets go of the View's bytes.
func (p *Paths) Forget() {
	clear(p.list[:p.n])
	p.n = 0
	if cap(p.buf) > keptPaths {
		p.buf = nil
	}
}

// isPlain reports whether nothing but its escapes could make a decoded path mean something else.
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
