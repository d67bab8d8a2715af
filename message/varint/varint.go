// Package varint writes and reads what stored messages and models consist of: numbers as varints, and texts with their
// length before them as one.
package varint

import "encoding/binary"

// AppendText appends a text to dst.
func AppendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Reader reads from Src what was appended there. After a mistake Bad is set and everything that is read is empty.
type Reader struct {
	Src []byte // what is left
	Bad bool
}

func (r *Reader) fail() { r.Bad, r.Src = true, nil }

// Signed reads a number that binary.AppendVarint wrote.
func (r *Reader) Signed() int64 {
	v, n := binary.Varint(r.Src)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Src = r.Src[n:]
	return v
}

// Count reads a number of things that take at least one byte each: one that is larger than what is left is a mistake, so
// a caller may allocate that many.
func (r *Reader) Count() int {
	v, n := binary.Uvarint(r.Src)
	if n <= 0 || v > uint64(len(r.Src)-n) {
		r.fail()
		return 0
	}
	r.Src = r.Src[n:]
	return int(v)
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.Src) == 0 {
		r.fail()
		return 0
	}
	b := r.Src[0]
	r.Src = r.Src[1:]
	return b
}

// Text reads a text and owns it.
func (r *Reader) Text() string {
	n := r.Count()
	s := string(r.Src[:n])
	r.Src = r.Src[n:]
	return s
}
