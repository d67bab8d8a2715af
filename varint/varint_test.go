package varint

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestReader(t *testing.T) {
	src := AppendText(nil, "")
	src = append(AppendText(src, "длинный text"), 7)
	src = binary.AppendVarint(src, math.MinInt64)
	src = append(binary.AppendUvarint(src, 2), 'a', 'b')
	r := Reader{Src: src}
	if a, b, c, d, n := r.Text(), r.Text(), r.Byte(), r.Signed(), r.Count(); a != "" || b != "длинный text" || c != 7 || d != math.MinInt64 || n != 2 || string(r.Src) != "ab" || r.Bad {
		t.Errorf("read %q, %q, %d, %d, %d, and %q is left, bad %v", a, b, c, d, n, r.Src, r.Bad)
	}
	for cut := range len(src) - 2 { // every shorter text ends in a mistake
		r := Reader{Src: src[:cut]}
		r.Text()
		r.Text()
		r.Byte()
		r.Signed()
		r.Count()
		if !r.Bad || len(r.Src) != 0 || r.Text() != "" || r.Signed() != 0 || r.Byte() != 0 {
			t.Errorf("%d of %d bytes were read without a mistake", cut, len(src))
		}
	}
}

// TestCountIsBounded: a length that nothing stands behind never becomes an allocation.
func TestCountIsBounded(t *testing.T) {
	for _, v := range []uint64{2, 1 << 40, math.MaxUint64} {
		r := Reader{Src: append(binary.AppendUvarint(nil, v), 'a')}
		if n := r.Count(); n != 0 || !r.Bad {
			t.Errorf("%d things in one byte: %d", v, n)
		}
	}
}
