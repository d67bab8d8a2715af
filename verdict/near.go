package verdict

import (
	"encoding/binary"
	"time"

	"antirobot/identity"
)

// Near says that an address has used half of its budget or more, until a given time: its browsers' prefetches are answered
// 503, so that nobody is challenged for pages that were never opened.
func (c *Cacher) Near(x identity.Prefix, until time.Time) {
	c.near.Put(x, until, struct{}{})
	if c.said.tells() {
		body := append(append([]byte(nil), x.ID[:]...), x.Bits)
		body = binary.BigEndian.AppendUint32(body, x.Group)
		c.said.tell(saidNear, binary.BigEndian.AppendUint64(body, uint64(until.Add(c.skewNow()).UnixMilli()))) //nolint:gosec // after 1970
	}
}

func (c *Cacher) heardNear(b []byte) bool {
	if len(b) != 16+1+4+8 || b[16] > 128 || b[16]%8 != 0 {
		return false
	}
	if until := c.heardTime(b[21:]); until.After(c.now()) {
		c.near.Put(identity.Prefix{ID: [16]byte(b), Bits: b[16], Group: binary.BigEndian.Uint32(b[17:])}, until, struct{}{})
	}
	return true
}

// IsNear reports whether the address of an identity is near its budget at a service.
func (c *Cacher) IsNear(id *identity.Identity, s *Settings, at time.Time) bool {
	if id.N == 0 || c.near.Len() == 0 {
		return false
	}
	var of [4]identity.Prefix
	if identity.Prefixes(&of, id.Subjects[id.N-1].ID, s.Group) == 0 {
		return false
	}
	_, _, ok := c.near.Find(of[0], at.UnixNano())
	return ok
}
