package learn

import "encoding/binary"

// Texts stand in a state with their length before them, as a varint.

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// stateReader reads numbers and texts of a state; after an error everything is empty.
type stateReader struct {
	src []byte
	bad bool
}

// count reads a number that something as long as what is left can have.
func (r *stateReader) count() int {
	v, n := binary.Uvarint(r.src)
	if n <= 0 || v > uint64(len(r.src)-n) {
		r.bad, r.src = true, nil
		return 0
	}
	r.src = r.src[n:]
	return int(v)
}

func (r *stateReader) text() string {
	n := r.count()
	s := string(r.src[:n])
	r.src = r.src[n:]
	return s
}
