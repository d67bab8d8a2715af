package verdict

import (
	"encoding/binary"

	"antirobot/identity"
	"antirobot/request"
)

// clientOf names a client of an address by what its browser says of itself (User-Agent, languages), how it begins a TLS
// connection, and its browser cookie. Whoever takes other names is another client: nothing may depend on their number.
func clientOf(id *identity.Identity, v *request.View) uint32 {
	if id.N == 0 || id.Partner {
		return 0
	}
	browser, _ := id.Browser()
	h := uint64(0)
	for _, b := range [...][]byte{v.Get("User-Agent"), v.Get("Accept-Language"), v.JA4} {
		h = mix(h, request.Hash(b))
	}
	for _, b := range [...]*[16]byte{&id.Subjects[id.N-1].ID, &browser} {
		h = mix(mix(h, binary.BigEndian.Uint64(b[:8])), binary.BigEndian.Uint64(b[8:]))
	}
	return max(1, uint32(h>>32)) //nolint:gosec // half of a hash
}

func mix(h, more uint64) uint64 {
	h = (h ^ more) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
