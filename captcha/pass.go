package captcha

import (
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
)

// passCookie makes the field that hands out a pass. For a partner it always contains Domain, to be replaced by the
// partner's own: the seal covers service and partner, not that attribute.
func (c *Captcha) passCookie(q *Request, p *spravka.Pass, at time.Time) HeaderField {
	domain := q.Service.id.CookieDomain(q.View.Host)
	if p.Partner != 0 && domain == "" {
		domain = string(q.View.Host)
	}
	token := c.keys.Ring().SealPass(nil, p)
	same := q.Service.sameSite
	return HeaderField{"Set-Cookie", string(spravka.AppendSetCookie(nil, q.Service.cookie, token, domain, "/",
		time.Duration(p.Expires-at.Unix())*time.Second, q.secure() || same != "Lax", true, same))}
}

// addPass hands out the pass of a right answer; over https and for a single host also under a second name, which no sibling
// domain and no unencrypted page can set.
func (c *Captcha) addPass(q *Request, a *Response, r *result) {
	a.Header = append(a.Header, r.cookie)
	name := q.Service.id.HostSpravkaCookie()
	if name == "" || r.pass.Partner != 0 || !q.secure() {
		return
	}
	_, rest, _ := strings.Cut(r.cookie.Value, "=")
	a.add(r.cookie.Name, name+"="+rest)
}

func agentOf(q *Request) uint64 { return agentOfView(q.View) }

func agentOfView(v *request.View) uint64 { return identity.AgentFamily(v.Get("User-Agent")) }
