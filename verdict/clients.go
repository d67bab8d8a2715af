package verdict

import (
	"encoding/binary"

	"antirobot/identity"
	"antirobot/request"
)

// clientOf names a client by its browser cookie and User-Agent, at any address; without a cookie by its address, User-Agent,
// languages and TLS handshake. Names are free to take: nothing may depend on their number.
func clientOf(id *identity.Identity, v *request.View) uint32 {
	if id.N == 0 || id.Partner {
		return 0
	}
	h := mix(0, request.Hash(v.Get("User-Agent")))
	name, ok := id.Browser()
	if !ok || id.IBirth == 0 {
		name = id.Subjects[id.N-1].ID
		h = mix(mix(h, request.Hash(v.Get("Accept-Language"))), request.Hash(v.JA4))
	}
	h = mix(mix(h, binary.BigEndian.Uint64(name[:8])), binary.BigEndian.Uint64(name[8:]))
	return max(1, uint32(h>>32)) //nolint:gosec // half of a hash
}

func mix(h, more uint64) uint64 {
	h = (h ^ more) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
