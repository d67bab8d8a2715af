package request

import (
	"bytes"
	"math"
)

// maxCookies bounds how many cookies of a request are read. Browsers send fewer than 200.
const maxCookies = 300

// Cookies iterates over the cookies of a request in their order, whichever Cookie field they are in. The zero value is
// not usable: see View.Cookies. Name and Value borrow the View's bytes.
//
//	for c := v.Cookies(); c.Next(); {
//		use(c.Name, c.Value)
//	}
type Cookies struct {
	Name, Value []byte

	fields []Field
	rest   []byte
	left   int
}

// Cookies iterates over the cookies of v.
func (v *View) Cookies() Cookies { return Cookies{fields: v.Fields, left: maxCookies} }

// Next goes to the next cookie; false after the last one that is read. A pair without '=' or without a name is none.
func (c *Cookies) Next() bool {
	for {
		for len(c.rest) > 0 {
			if c.left == 0 {
				return false
			}
			c.left--
			var pair []byte
			pair, c.rest = cutCookie(c.rest)
			if c.split(pair) {
				return true
			}
		}
		if !c.nextField() {
			return false
		}
	}
}

func (c *Cookies) nextField() bool {
	for i := range c.fields {
		if f := &c.fields[i]; len(f.Name) == len("cookie") && EqualFold(f.Name, "cookie") {
			c.rest, c.fields = f.Value, c.fields[i+1:]
			return true
		}
	}
	return false
}

func cutCookie(b []byte) (pair, rest []byte) {
	if i := bytes.IndexByte(b, ';'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// split reads one pair. White space around name and value is dropped, and the quotes that RFC 6265 allows around a
// value.
func (c *Cookies) split(pair []byte) bool {
	eq := bytes.IndexByte(pair, '=')
	if eq < 0 {
		return false
	}
	name, value := trim(pair[:eq]), trim(pair[eq+1:])
	if len(name) == 0 {
		return false
	}
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		value = value[1 : n-1]
	}
	c.Name, c.Value = name, value
	return true
}

// Cookie returns the value of the first cookie called name. The case of cookie names matters.
func (v *View) Cookie(name string) (value []byte, ok bool) { return v.cookie(name, maxCookies) }

// EveryCookie is Cookie without the bound, to miss nothing that a service may read.
func (v *View) EveryCookie(name string) (value []byte, ok bool) { return v.cookie(name, math.MaxInt) }

func (v *View) cookie(name string, most int) (value []byte, ok bool) {
	for c := (Cookies{fields: v.Fields, left: most}); c.Next(); {
		if string(c.Name) == name {
			return c.Value, true
		}
	}
	return nil, false
}

// AppendCookiesWithout appends a Cookie field's value without the named cookies. Text that is no cookie here (no '=',
// no name) is passed on unchanged, unless a lenient service may read it as one of those names.
func AppendCookiesWithout(dst, field []byte, names []string) []byte {
	begin := len(dst)
	for len(field) > 0 {
		var pair []byte
		pair, field = cutCookie(field)
		pair = trim(pair)
		name := pair
		if eq := bytes.IndexByte(pair, '='); eq >= 0 {
			name = trim(pair[:eq])
		}
		if len(pair) == 0 || named(name, names) {
			continue
		}
		if len(dst) > begin {
			dst = append(dst, "; "...)
		}
		dst = append(dst, pair...)
	}
	return dst
}

func named(name []byte, names []string) bool {
	for _, s := range names {
		if string(name) == s {
			return true
		}
	}
	return false
}

func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
