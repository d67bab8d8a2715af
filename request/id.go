package request

import (
	"math/rand/v2"
	"time"
)

// ID names one request: 48 bits of unix milliseconds and 80 random bits, so that IDs sort by time.
type ID [16]byte

// crockford is the alphabet without I, L, O and U, for reading out over the telephone.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// NewID makes an ID for a request that came at the given time. It takes no lock and allocates nothing.
func NewID(at time.Time) ID {
	var id ID
	ms := uint64(at.UnixMilli())
	id[0], id[1], id[2], id[3], id[4], id[5] = byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(
		ms>>8,
	), byte(ms)
	r, q := rand.Uint64(), rand.Uint32()
	for i := range 8 {
		id[6+i] = byte(r >> (8 * i))
	}
	id[14], id[15] = byte(q), byte(q>>8)
	return id
}

// AppendTo appends the 26 characters of the printed form.
func (id ID) AppendTo(dst []byte) []byte {
	// 26 characters hold 130 bits: the two highest are zero.
	var acc uint32
	bits := 2
	for _, b := range id {
		acc = acc<<8 | uint32(b)
		bits += 8
		for bits >= 5 {
			bits -= 5
			dst = append(dst, crockford[acc>>bits&31])
		}
	}
	return dst
}

func (id ID) String() string { return string(id.AppendTo(make([]byte, 0, 26))) }

// ParseID reads the printed form, in either case; I and L are read as 1, O as 0.
func ParseID[T ~string | ~[]byte](s T) (id ID, ok bool) {
	if len(s) != 26 {
		return ID{}, false
	}
	var acc uint32
	bits, n := -2, 0
	for i := 0; i < len(s); i++ {
		d := digit(s[i])
		if d > 31 || i == 0 && d > 7 {
			return ID{}, false
		}
		acc = acc<<5 | uint32(d)
		bits += 5
		if bits >= 8 {
			bits -= 8
			id[n] = byte(acc >> bits)
			n++
		}
	}
	return id, true
}

func digit(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case c == 'I' || c == 'L':
		return 1
	case c == 'O':
		return 0
	case c == 'U' || c < 'A' || c > 'Z':
		return 255
	}
	n := c - 'A' + 10
	for _, skipped := range "ILOU" {
		if c > byte(skipped) {
			n--
		}
	}
	return n
}
