package captcha

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/spravka"
)

// passCookie makes the field that hands out a pass. For a partner Domain always stands there, to be replaced by the
// partner's own: the seal covers service and partner, not that attribute.
func (c *Captcha) passCookie(q *Request, p *spravka.Pass) HeaderField {
	domain := q.Service.id.CookieDomain(q.View.Host)
	if p.Partner != 0 && domain == "" {
		domain = string(q.View.Host)
	}
	token := c.keys.Ring().SealPass(nil, p)
	same := q.Service.sameSite
	return HeaderField{"Set-Cookie", string(spravka.AppendSetCookie(nil, q.Service.cookie, token, domain, "/",
		c.cfg.Pass.Lifetime, q.secure() || same != "Lax", true, same))}
}

// addPass hands out the pass of a right answer, on https and for one host under a second name too, which no sibling
// domain and no page without encryption can put another cookie under.
func (c *Captcha) addPass(q *Request, a *Response, r *result) {
	a.Header = append(a.Header, r.cookie)
	name := q.Service.id.HostSpravkaCookie()
	if name == "" || r.pass.Partner != 0 || !q.secure() {
		return
	}
	_, rest, _ := strings.Cut(r.cookie.Value, "=")
	a.add(r.cookie.Name, name+"="+rest)
}

func agentOf(q *Request) uint64 { return identity.AgentFamily(q.View.Get("User-Agent")) }

// hourOf returns the number of the hour and what is left of it. Windows on the clock make Retry-After exact.
func hourOf(at time.Time) (window int64, left time.Duration) {
	window = at.Unix() / 3600
	return window, time.Unix((window+1)*3600, 0).Sub(at)
}

// passesKey is the counter of the passes that an address (IPv6: a /64) earned in an hour.
func passesKey(a netip.Addr, window int64) []byte {
	s := identity.AddrSubject(a)
	b := append([]byte("captcha/passes/"), s.ID[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(window))
}

// netKey is the counter of the passes that a /24 or /48 earned in 24 hours.
func netKey(a netip.Addr) []byte {
	n := identity.NetOf(a)
	as := n.Addr().As16()
	return append(append([]byte("captcha/net/"), as[:]...), byte(n.Bits()))
}
