package captcha

import (
	"slices"

	"antirobot/captcha/location"
	"antirobot/request"
	"antirobot/templates"
)

// framedElsewhere reports whether a page is opened in a frame of another site that may not show the check: the pages of the
// gateway are framed by its own host and by cors_origins alone. Within such a frame Referer names the service itself, and only
// Sec-Fetch-Storage-Access says that the frame is another site's.
func (q *Request) framedElsewhere() bool {
	switch string(q.View.Get("Sec-Fetch-Dest")) {
	case "iframe", "frame":
	default:
		return false
	}
	switch string(q.View.Get("Sec-Fetch-Site")) {
	case "cross-site", "same-site":
		u, ok := location.Parse(string(q.View.Get("Referer")))
		if !ok {
			return true
		}
		origin := u.Origin()
		return !slices.ContainsFunc(q.Service.origins, func(o location.Origin) bool { return o.Fits(origin) })
	}
	return q.View.Has("Sec-Fetch-Storage-Access") && len(q.Service.origins) == 0
}

// framed is the answer in a frame that may not show the check: a page that opens it in a tab of its own.
func (ak *asks) framed(q *Request) Response {
	l := ak.links.signLink(q, q.linked(), false, ak.now())
	ak.count.shown["redirect"].Inc()
	a := ak.pages.messagePage(q, nil, 403, verdictCaptcha, &templates.MessagePage{Message: templates.Framed, Tab: q.Base + q.Service.showURL(&l)})
	a.set("Content-Security-Policy", q.Service.brand.FramedCSP())
	a.Header = slices.DeleteFunc(a.Header, func(f HeaderField) bool { return request.EqualFold(f.Name, "X-Frame-Options") })
	return a
}
