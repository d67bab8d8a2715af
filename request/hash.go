package request

import (
	"encoding/binary"
	"math/bits"
)

// Hash is a fast 64-bit hash with a fixed seed, so that recorded events keep their meaning. It does not resist chosen
// input: nothing that keeps a person out may rely on it alone.
func Hash(b []byte) uint64 {
	const k0, k1 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	h := uint64(len(b)) ^ k0
	for len(b) > 0 {
		var w uint64
		if len(b) >= 8 {
			_ = b[7]
			w = uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
				uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
			b = b[8:]
		} else {
			for i, c := range b {
				w |= uint64(c) << (8 * i)
			}
			b = nil
		}
		hi, lo := bits.Mul64(h^w, k1)
		h = hi ^ lo ^ k0
	}
	hi, lo := bits.Mul64(h, k1)
	return hi ^ lo
}

// HashFirm is a hash with a fixed seed for which nobody can choose two inputs of the same value at will, as is easily done for
// Hash: of its two halves only one can be led back to a known state at a time.
func HashFirm(b []byte) uint64 {
	const k0, k1, k2 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3
	x, y := uint64(len(b))^k0, uint64(k2)
	for len(b) > 0 {
		var w uint64
		if len(b) >= 8 {
			w = binary.LittleEndian.Uint64(b)
			b = b[8:]
		} else {
			for i, c := range b {
				w |= uint64(c) << (8 * i)
			}
			b = nil
		}
		hi, lo := bits.Mul64(x^w, k1)
		x = hi ^ lo ^ k0
		y = bits.RotateLeft64(y^w, 29) * k2
		y ^= y >> 32
	}
	h := x ^ bits.RotateLeft64(y, 17)
	h = (h ^ h>>32) * k1
	return h ^ h>>29
}
