package captcha

import (
	"errors"
	"strings"
	"time"

	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
)

// A carried form comes back to its own address. After the right answer a browser that keeps cookies is sent there with 307,
// which repeats the captcha page's form, and with a cookie that says that the form was answered: only then is the carried
// request sent on. So the service's answer stands under the service's own URL, and a reload of it finds out that the form
// was sent, without asking anybody.

const (
	formCookie  = "antirobot_form"
	formVersion = 2 // distinct from grantVersion
)

// comeBack sends a browser with a right answer to the address of its form. ok is false where the form has to be sent on at
// once: from a browser without cookies, from something that is none, or beside a balancer.
func (fs *forms) comeBack(q *Request, s *saved, page answeringPage, pr probeState, at time.Time) (a Response, ok bool) {
	if q.Beside || !pr.returned || page != pageOwn || !strings.HasPrefix(s.request.Target, "/") {
		return Response{}, false
	}
	path, _, _ := strings.Cut(s.request.Target, "?")
	if q.Service.Route([]byte(path)) != EndpointNone {
		return Response{}, false
	}
	if !plainPath(path) {
		path = "/"
	}
	b := append([]byte{formVersion}, s.nonce[:]...)
	token := fs.keys.Ring().Seal(nil, spravka.PurposeGrant, q.keyContext(), b, at.Add(formTTL))
	a = fs.pages.own(q, 307, "", verdictCaptcha)
	a.add("Location", q.Base+s.request.Target)
	a.add("Set-Cookie", string(spravka.AppendSetCookie(nil, formCookie, token, "", path, formTTL, q.secure(), true, "Lax")))
	return a, true
}

// plainPath reports whether a path can stand in a cookie and is the same to every browser.
func plainPath(path string) bool {
	return path == "/" || len(path) < 256 && validPrefix(strings.TrimSuffix(path, "/")) && !strings.Contains(path, "/.")
}

// CarriesForm reports whether a request may bring back a carried form: a POST of a form, from a browser that has carried one
// to this address. Resume says whether it does.
func (c *Captcha) CarriesForm(v *request.View) bool {
	if string(v.Method) != "POST" || !request.HasPrefixFold(v.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return false
	}
	_, ok := v.Cookie(formCookie)
	return ok
}

// Resume answers a request that brings back a carried form; ok is false for any other request, which belongs to the service.
func (c *Captcha) Resume(q *Request) (a Response, ok bool) {
	if q.BodyTooLarge || q.Partner != nil {
		return Response{}, false
	}
	var p params
	p.urlencoded(string(q.Body)) // the query is the service's
	if p.saved == "" || p.key == "" {
		return Response{}, false
	}
	at := c.now()
	pr := c.probes.probeOf(q)
	s, err := c.forms.openSaved(q, p.saved, at)
	if err != nil && !errors.Is(err, spravka.ErrExpired) {
		return Response{}, false // a field of the service's own
	}
	page := q.answeringPage()
	if err != nil || page == pageForeign || !s.sameSender(q, pr) || s.request.Target != string(q.View.Target) {
		return c.pages.message(q, &p, 410, verdictCaptcha, templates.FormExpired, ""), true
	}
	if c.forms.wasSent(q, &s) {
		return c.pages.message(q, &p, 409, verdictCaptcha, templates.FormSent, s.cameFrom(q)), true
	}
	q.Reason, q.Require, q.Written = s.reason, s.require, s.written
	if !c.forms.wasAnswered(q, &s, at) {
		p.key = ""
		return c.forms.formPage(q, &p, p.saved, c.forms.askForm(q, at), pr, templates.ProblemNone, at), true
	}
	return c.forms.resend(q, &p, s, page, at), true
}

// wasAnswered reports whether the browser's cookie says that the form's question was answered rightly.
func (fs *forms) wasAnswered(q *Request, s *saved, at time.Time) bool {
	token, _ := q.View.Cookie(formCookie)
	b, err := fs.keys.Ring().Open(nil, spravka.PurposeGrant, q.keyContext(), token, at)
	return err == nil && len(b) == 1+len(s.nonce) && b[0] == formVersion && [16]byte(b[1:]) == s.nonce
}
