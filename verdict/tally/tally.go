// Package tally is what small tables of counts have in common: hashes of addresses, counts that fade.
package tally

import (
	"encoding/binary"
	"math"
	"math/bits"

	"antirobot/identity"
)

// Fold multiplies two words and folds the halves of the product onto each other.
func Fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// Hash hashes an ID for the small sets, in every process alike; it resists no attack, and nothing relies on it alone.
func Hash(id [16]byte) uint64 {
	return Fold(binary.LittleEndian.Uint64(id[:8])^0x9e3779b97f4a7c15, binary.LittleEndian.Uint64(id[8:])^0xd1b54a32d192ed03)
}

// Network hashes the network of an address.
func Network(addr [16]byte) uint64 { return Hash(identity.NetworkOf(addr)) }

// Fading is e^(-age/span), what is left of a count of that age; both are in the same unit. Under load most ages are a few milliseconds, where the
// series gives the same number for a tenth of the work.
func Fading(age, span float64) float32 {
	x := age / span
	if x < 1.0/1024 && x >= 0 {
		return float32(1 - x*(1-x/2))
	}
	return float32(math.Exp(-x))
}

// One is 1 for true and 0 for false.
func One(b bool) int {
	if b {
		return 1
	}
	return 0
}
