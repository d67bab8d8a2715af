package verdict

import (
	"encoding/binary"
	"math"
	"net/netip"
	"time"

	"antirobot/identity"
)

// How barely a network is read prices the passes that are earned there. Where gateways don't judge, processors tell them, of the networks
// in which somebody is asked.

// barelyLife is how long it holds unless it is told again, as at each captcha that is shown there.
const barelyLife = 24 * time.Hour

// Barely records how much of what is read in a network is read as the site's people don't read it, 0 to 1.
func (c *Cacher) Barely(x identity.Prefix, share float64, at time.Time) {
	if c.said.tells() {
		c.said.tell(saidBarely, c.appendBarely(nil, x, share, at.Add(barelyLife)))
	}
}

// Bareness returns the largest share that processors have told of the networks around an address: 0 if none, as where there are no
// processors.
func (c *Cacher) Bareness(service string, a netip.Addr) (share float64) {
	if c.barely.Len() == 0 {
		return 0
	}
	var of [4]identity.Prefix
	for _, x := range of[:identity.Prefixes(&of, identity.AddrSubject(a).ID, groupOf(service))] {
		told, _, _ := c.barely.Find(x, c.now().UnixNano())
		share = max(share, float64(told))
	}
	return share
}

// appendBarely appends a network, its bits and group, until when it holds (unix milliseconds), and the share.
func (c *Cacher) appendBarely(dst []byte, x identity.Prefix, share float64, until time.Time) []byte {
	dst = append(append(dst, x.ID[:]...), x.Bits)
	dst = binary.BigEndian.AppendUint32(dst, x.Group)
	dst = binary.BigEndian.AppendUint64(dst, uint64(until.Add(c.skewNow()).UnixMilli())) //nolint:gosec // after 1970
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(share)))
}

func (c *Cacher) heardBarely(b []byte) bool {
	if len(b) != 16+1+4+8+4 {
		return false
	}
	x := identity.Prefix{ID: [16]byte(b), Bits: b[16], Group: binary.BigEndian.Uint32(b[17:])}
	until, share := c.heardTime(b[21:]), math.Float32frombits(binary.BigEndian.Uint32(b[29:]))
	if x.Bits > 128 || x.Bits%8 != 0 || !(share >= 0 && share <= 1) {
		return false
	}
	if share == 0 {
		c.barely.Remove(x)
	} else if until.After(c.now()) {
		c.barely.Put(x, until, share)
	}
	return true
}
