package captcha

import (
	"antirobot/captcha/location"
	"antirobot/request"
	"antirobot/spravka"
)

// answeringPage says, by its origin, which page sent the answer to a carried form. A browser adds the credentials that it
// keeps for our origin to any request that a page makes it send, while the sealed fields of the form claim that the
// service's own page sent it. So the answer must come from our own page.
type answeringPage uint8

const (
	pageUnknown answeringPage = iota // not a current browser: nothing says where the answer comes from
	pageOwn
	pageForeign
)

func (q *Request) answeringPage() answeringPage {
	if q.method() != "POST" {
		return pageForeign // any page's link or picture could do this
	}
	if site := string(q.View.Get("Sec-Fetch-Site")); site != "" {
		return pageIf(site == "same-origin") // the browser's own statement about the requested URL
	}
	if origin := string(q.View.Get("Origin")); origin != "" {
		return pageIf(q.isOwnOrigin(origin)) // "null" is a page that hides its origin
	}
	if referer := string(q.View.Get("Referer")); referer != "" {
		return pageIf(q.isOwnOrigin(referer))
	}
	return pageUnknown
}

func pageIf(own bool) answeringPage {
	if own {
		return pageOwn
	}
	return pageForeign
}

// isOwnOrigin reports whether a URL has the origin that the request was sent to.
func (q *Request) isOwnOrigin(rawURL string) bool {
	theirs, ok := location.Parse(rawURL)
	ours, known := location.Parse(q.Base)
	return ok && known && theirs.Scheme == ours.Scheme && theirs.Host == ours.Host && theirs.Port == ours.Port
}

// savedContext binds a carried form to its service and to the origin, scheme and port included, that it was sent to.
func (q *Request) savedContext() []byte {
	return spravka.AppendContext(nil, q.Service.name, string(request.AppendLower(nil, q.Base)))
}
