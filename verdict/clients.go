package verdict

import (
	"encoding/binary"

	"antirobot/identity"
	"antirobot/request"
)

// clientOf names a client of an address by its User-Agent (its hash) and its browser cookie. Whoever takes other names is
// another client: nothing may depend on their number.
func clientOf(id *identity.Identity, agent uint64) uint32 {
	if id.N == 0 || id.Partner {
		return 0
	}
	browser, _ := id.Browser()
	h := agent
	for _, b := range [...]*[16]byte{&id.Subjects[id.N-1].ID, &browser} {
		for _, half := range [...]uint64{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])} {
			h = (h ^ half) * 0x9e3779b97f4a7c15
			h ^= h >> 29
		}
	}
	return max(1, uint32(h>>32)) //nolint:gosec // half of a hash
}

// hashOfAgent is the hash of a request's User-Agent, as an event has it.
func hashOfAgent(v *request.View) uint64 {
	if a := v.Get("User-Agent"); a != nil {
		return max(1, request.Hash(a))
	}
	return 0
}
