package request

import (
	"encoding/binary"
	"math/bits"
)

// Hash is a fast 64-bit hash with a fixed seed, so that recorded events keep their meaning. It does not resist chosen
// input.
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

// HashKey makes Sum a hash that is unpredictable without the key, SipHash-1-3, so that no client can choose inputs of
// one value. Gateways and processors that exchange hashes have the same key (spravka.Ring.HashKey). The zero HashKey
// is for replays.
type HashKey [2]uint64

// Sum returns the hash of b. It allocates nothing.
func (k *HashKey) Sum(b []byte) uint64 {
	v0, v1 := k[0]^0x736f6d6570736575, k[1]^0x646f72616e646f6d
	v2, v3 := k[0]^0x6c7967656e657261, k[1]^0x7465646279746573
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^w)
		v0 ^= w
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^last)
	v0, v1, v2, v3 = sipRound(v0^last, v1, v2^0xff, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (_, _, _, _ uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32) + v3
	v2 += v1
	return v0, bits.RotateLeft64(v1, 17) ^ v2, bits.RotateLeft64(v2, 32), bits.RotateLeft64(v3, 21) ^ v0
}
