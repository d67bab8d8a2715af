package captcha

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/spravka"
)

// cookieDomain is the Domain of the pass's cookie on this host: the configured one if the host lies inside, else
// none, so that a browser does not refuse the cookie.
func (q *Request) cookieDomain() string {
	d := strings.ToLower(strings.TrimPrefix(q.Service.cookies.Domain, "."))
	host := string(q.View.Host)
	if d != "" && (host == d || strings.HasSuffix(host, "."+d)) {
		return d
	}
	return ""
}

// passScope is what the pass is valid for: the cookie's domain, or the host.
func (q *Request) passScope() uint64 {
	if d := q.cookieDomain(); d != "" {
		return spravka.ScopeOf(d)
	}
	return spravka.ScopeOf(q.View.Host)
}

// passCookie makes the field that hands out a pass. For a partner Domain always stands there, to be replaced by the
// partner's own: the seal covers service and partner, not that attribute.
func (c *Captcha) passCookie(q *Request, p *spravka.Pass) HeaderField {
	domain := q.cookieDomain()
	if p.Partner != 0 && domain == "" {
		domain = string(q.View.Host)
	}
	token := c.ring().SealPass(nil, p)
	return HeaderField{"Set-Cookie", string(spravka.AppendSetCookie(nil, q.Service.cookies.Spravka, token, domain, "/",
		c.cfg.Pass.Lifetime, q.secure(), true, "Lax"))}
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
