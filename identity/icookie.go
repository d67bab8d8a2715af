package identity

import (
	"encoding/binary"
	"math"
	"time"

	"antirobot/request"
	"antirobot/spravka"
)

const (
	iLifetime = 400 * day // the longest that browsers keep a cookie
	iCrowded  = day       // life of a cookie made above the rate,
	iChance   = time.Hour // of which the client gets another chance after this long

	crowdedMost = 16 // times the rate: beyond it a network receives no cookies at all until the hour is over

	iVersion = 1
	iSize    = 1 + 1 + 16 + 8 + 8
)

type iCookie struct {
	id      [16]byte
	born    int64 // unix seconds
	scope   uint64
	crowded bool  // made above its network's rate: it doesn't count
	expires int64 // unix seconds; the seal's own expiry
}

func (c *iCookie) append(dst []byte) []byte {
	var flags byte
	if c.crowded {
		flags = 1
	}
	dst = append(dst, iVersion, flags)
	dst = append(dst, c.id[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.born))
	return binary.BigEndian.AppendUint64(dst, c.scope)
}

func parseICookie(b []byte) (c iCookie, ok bool) {
	if len(b) != iSize || b[0] != iVersion || b[1] > 1 {
		return iCookie{}, false
	}
	c.crowded = b[1] == 1
	copy(c.id[:], b[2:18])
	c.born = int64(binary.BigEndian.Uint64(b[18:]))
	c.scope = binary.BigEndian.Uint64(b[26:])
	return c, true
}

// MintI appends the value of a Set-Cookie field that gives the client an i cookie, or returns nil: Resolve, which
// must have filled id from the same View, found no page load of a browser, or a long valid cookie. A cookie that is
// near its end, or sealed by an older key, is renewed as the same identity. A new one beyond the rate of its /24 or
// /48, plus one for each visitor known at its address, is given but doesn't count; an hour later it is made again, as
// the same identity.
func (r *Resolver) MintI(dst []byte, id *Identity, v *request.View, s *CookieSettings) []byte {
	if !id.WantI || s.names[KindI] == "" {
		return nil
	}
	c, life, at := id.i, iLifetime, r.at(v)
	if c.born == 0 || c.crowded {
		if c.born == 0 {
			c.id = spravka.NewID()
		}
		c.born, c.crowded = at.Unix(), false
		net, rate := NetKey(id.Net), r.iPerHour.Load()
		n := int64(r.mints.Count(net, at)) + 1
		if most := int(min(crowdedMost*max(rate, 1), math.MaxUint16-1)); !r.mints.Take(net, at, most) {
			r.crowded.Add(1)
			return nil // clients that keep no cookies are not worth a seal each
		}
		if n > rate && (rate == 0 || n > rate+r.trustedAt(id)) {
			c.crowded, life = true, iCrowded
			r.crowded.Add(1)
		} else {
			r.minted.Add(1)
		}
	}
	c.scope = s.Scope(v.Host)
	var buf [iSize]byte
	token := r.keys.Ring().Seal(make([]byte, 0, 256), spravka.PurposeICookie, nil, c.append(buf[:0]), at.Add(life))
	return spravka.AppendSetCookie(dst, s.names[KindI], token, s.CookieDomain(v.Host), "/", life,
		id.Proto == "https", true, "Lax")
}

func (r *Resolver) trustedAt(id *Identity) int64 {
	if r.visitors == nil || id.N == 0 || id.Subjects[id.N-1].Kind != KindIP {
		return 0
	}
	return int64(r.visitors.TrustedAt(id.Subjects[id.N-1].ID))
}

// wantsPage reports whether a browser loads a page: only such requests receive a cookie.
func wantsPage(v *request.View) bool {
	if string(v.Method) != "GET" {
		return false
	}
	if mode := v.Get("Sec-Fetch-Mode"); len(mode) > 0 {
		return string(mode) == "navigate"
	}
	return v.Accept().WantsHTML()
}
