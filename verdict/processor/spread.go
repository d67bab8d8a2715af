package processor

import (
	"encoding/binary"
	"math/rand/v2"

	"antirobot/identity"
	"antirobot/verdict/tally"
)

// seed makes the places of keys in a table different from process to process, so that nobody can look for keys that meet.
type seed [3]uint64

func newSeed() seed { return seed{rand.Uint64(), rand.Uint64(), rand.Uint64()} }

// spread hashes an ID and what else its key has: two multiplications, where hash/maphash takes several calls.
func (s *seed) spread(id *[16]byte, more uint64) uint64 {
	h := tally.Fold(binary.LittleEndian.Uint64(id[:8])^s[0], binary.LittleEndian.Uint64(id[8:])^s[1])
	return tally.Fold(h^more, s[2]|1)
}

func (s *seed) subject(k identity.Subject) uint64 { return s.spread(&k.ID, uint64(k.Kind)) }

func (s *seed) pace(k paceKey) uint64 {
	more := uint64(k.service)<<24 | uint64(k.role)<<16 | uint64(k.kind)<<8
	if k.calls {
		more |= 1
	}
	return s.spread(&k.id, more)
}
