package processor

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"

	"antirobot/identity"
)

// seed makes the places of keys in a table different from process to process, so that nobody can look for keys that meet.
type seed [3]uint64

func newSeed() seed { return seed{rand.Uint64(), rand.Uint64(), rand.Uint64()} }

// spread hashes an ID and what else its key has: two multiplications, where hash/maphash takes several calls.
func (s *seed) spread(id *[16]byte, more uint64) uint64 {
	h := fold(binary.LittleEndian.Uint64(id[:8])^s[0], binary.LittleEndian.Uint64(id[8:])^s[1])
	return fold(h^more, s[2]|1)
}

// fold multiplies two words and folds the halves of the product onto each other.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func (s *seed) subject(k identity.Subject) uint64 { return s.spread(&k.ID, uint64(k.Kind)) }

func (s *seed) group(k groupKey) uint64 { return s.spread(&k.id, uint64(k.role)) }

func (s *seed) portion(k portionKey) uint64 {
	return s.spread(&k.subject.ID, uint64(k.group)<<8|uint64(k.subject.Kind))
}

func (s *seed) prefix(k identity.Prefix) uint64 {
	return s.spread(&k.ID, uint64(k.Group)<<8|uint64(k.Bits))
}

func (s *seed) circle(k circleKey) uint64 {
	return s.spread(&k.home.ID, uint64(k.home.Group)<<11|uint64(k.home.Bits)<<3|uint64(k.who))
}

func (s *seed) client(k uint32) uint64 { return fold(uint64(k)^s[0], s[1]|1) }

func (s *seed) pace(k paceKey) uint64 {
	more := uint64(k.service)<<24 | uint64(k.role)<<16 | uint64(k.kind)<<8
	if k.calls {
		more |= 1
	}
	return s.spread(&k.id, more)
}

// hashID hashes an ID for the small sets, in every process alike; it resists no attack, and nothing relies on it alone.
func hashID(id [16]byte) uint64 {
	return fold(binary.LittleEndian.Uint64(id[:8])^0x9e3779b97f4a7c15, binary.LittleEndian.Uint64(id[8:])^0xd1b54a32d192ed03)
}

// hears reports whether another word of a network counts, and counts it: most of them do. Networks that share a cell have them
// together. The number of cells is a power of two.
func hears(cells []uint8, network uint64, most uint8) bool {
	cell := &cells[network*0x9e3779b97f4a7c15>>(65-bits.Len(uint(len(cells))))]
	if *cell >= most {
		return false
	}
	*cell++
	return true
}

// fading is e^(-age/span), what is left of a count of that age. Under load most ages are a few milliseconds, where the
// series gives the same number for a tenth of the work.
func fading(age, span float64) float32 {
	x := age / span
	if x < 1.0/1024 && x >= 0 {
		return float32(1 - x*(1-x/2))
	}
	return float32(math.Exp(-x))
}
