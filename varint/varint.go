// Package varint reads and writes stored and replicated records: varints, numbers of fixed width, and texts behind
// their length.
package varint

import "encoding/binary"

// AppendText appends a text to dst.
func AppendText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendU32 appends a number of four bytes.
func AppendU32(dst []byte, n uint32) []byte { return binary.LittleEndian.AppendUint32(dst, n) }

// AppendU64 appends a number of eight bytes.
func AppendU64(dst []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(dst, n) }

// Reader reads from Src. After a mistake Bad is set, and values are zero.
type Reader struct {
	Src []byte // the rest
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

// Uint reads a number that binary.AppendUvarint wrote; more than limit is a mistake.
func (r *Reader) Uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.Src)
	if n <= 0 || v > limit {
		r.fail()
		return 0
	}
	r.Src = r.Src[n:]
	return v
}

// Count reads a number of things of at least one byte each; it is at most the rest of Src, so a caller may allocate
// that many.
func (r *Reader) Count() int {
	n := r.Uint(uint64(len(r.Src)))
	if n > uint64(len(r.Src)) {
		r.fail()
		return 0
	}
	return int(n)
}

// Bytes reads n bytes of Src; nil if there are fewer.
func (r *Reader) Bytes(n int) []byte {
	if n > len(r.Src) {
		r.fail()
		return nil
	}
	b := r.Src[:n:n]
	r.Src = r.Src[n:]
	return b
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// U32 reads a number of four bytes.
func (r *Reader) U32() uint32 {
	if b := r.Bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// U64 reads a number of eight bytes.
func (r *Reader) U64() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Text reads a text and owns it.
func (r *Reader) Text() string { return string(r.Bytes(r.Count())) }
