package captcha

import (
	"strings"
	"time"

	"antirobot/templates"
)

// Reader is the form that the client of a request can read.
type Reader uint8

// The forms.
const (
	ReadsNothing Reader = iota // pictures and other parts
	ReadsPage
	ReadsJSON
	ReadsXML
	ReadsText // programs: plain text, or problem details where they accept JSON
)

// Blocked is 403.
func (c *Captcha) Blocked(q *Request, r Reader) Response {
	switch r {
	case ReadsPage:
		return c.blockedPage(q, nil, q.original())
	case ReadsJSON:
		return c.pages.json(q, 403, verdictBlocked, noticeJSON{"blocked", q.RequestID})
	case ReadsXML:
		a := c.pages.own(q, 403, typeXML, verdictBlocked)
		a.Body = errorXML(403, "Blocked", q.RequestID)
		return a
	case ReadsText:
		return c.pages.program(q, 403, verdictBlocked, "Blocked", 0)
	}
	return c.SubResource(q, true)
}

// blockedPage offers a way to the owner, and a switch of languages that leads to the captcha page, where BlockedPage
// answers. to is the requested URL.
func (c *Captcha) blockedPage(q *Request, p *params, to string) Response {
	l := c.links.signLink(q, to, false, c.now())
	return c.pages.messagePage(q, p, 403, verdictBlocked, &templates.MessagePage{
		Message: templates.Blocked, SwitchURL: q.prefix() + "/showcaptcha",
		Hidden: []templates.HiddenField{hidden("retpath", l.url), hidden("t", l.t), hidden("u", l.u), hidden("s", l.s)},
	})
}

// BlockedPage answers a blocked client that opens the captcha page, which is where the switch of languages leads.
func (c *Captcha) BlockedPage(q *Request) Response {
	p := readParams(q)
	l := p.link()
	p.choose(q)
	a := c.blockedPage(q, &p, c.links.follow(q, &l, nil, c.now()))
	c.pages.rememberLang(q, &a, &p)
	return a
}

// SubResource refuses a request for a part of a page: an empty 403, never a page.
func (c *Captcha) SubResource(q *Request, blocked bool) Response {
	if q.Unread {
		return Response{Status: 403}
	}
	verdict := verdictCaptcha
	if blocked {
		verdict = verdictBlocked
	}
	a := c.pages.own(q, 403, "", verdict)
	a.add("Vary", "*")
	return a
}

// CrossSite refuses a page to a page of another site, which did not open it.
func (c *Captcha) CrossSite(q *Request) Response {
	a := c.pages.own(q, 403, "text/plain; charset=utf-8", verdictBlocked)
	a.add("Vary", "*")
	a.Body = []byte("cross-site request for a page\n")
	return a
}

// Throttled is 429 and how long to wait.
func (c *Captcha) Throttled(q *Request, wait time.Duration, r Reader) Response {
	wait = max(wait, time.Second)
	var a Response
	switch r {
	case ReadsXML:
		return c.pages.waitXML(q, 429, verdictBlocked, wait)
	case ReadsPage:
		page := templates.MessagePage{Message: templates.Limited, Wait: wait}
		if q.repeatable() {
			page.Retry = q.original()
		}
		a = c.pages.messagePage(q, nil, 429, verdictBlocked, &page)
	case ReadsJSON:
		a = c.pages.json(q, 429, verdictBlocked, waitJSON{"throttle", q.RequestID, seconds(wait)})
	case ReadsText:
		a = c.pages.program(q, 429, verdictBlocked, "Too many requests", wait)
	default:
		a = c.pages.own(q, 429, "", verdictBlocked)
		a.add("Vary", "*")
	}
	a.after(wait)
	return a
}

// failures are, by status, the page about a request that was not served, and the wait before the next try; 0: the
// same request would fail again.
var failures = map[int]struct {
	page templates.Message
	wait time.Duration
}{
	400: {page: templates.BadRequest},
	404: {page: templates.NotFound},
	405: {page: templates.BadRequest},
	408: {templates.Late, time.Second},
	413: {page: templates.TooLarge},
	414: {page: templates.HeadTooLarge},
	417: {page: templates.BadRequest},
	421: {page: templates.NotFound},
	431: {page: templates.HeadTooLarge},
	500: {templates.Unavailable, 10 * time.Second},
	501: {page: templates.BadRequest},
	502: {templates.UpstreamDown, 10 * time.Second},
	503: {templates.Unavailable, 2 * time.Second},
	504: {templates.UpstreamTimeout, 30 * time.Second},
	505: {page: templates.BadRequest},
}

// Failed answers a request that was not served although no client is challenged or refused: its service is away or
// busy, or the request is malformed. It carries no verdict. Of q only View and Service are needed.
func (c *Captcha) Failed(q *Request, status int, r Reader) Response {
	f, known := failures[status]
	if !known {
		f = failures[502]
	}
	if status != 408 && status != 503 &&
		!q.repeatable() { // the service may have carried it out
		f.wait = 0
	}
	var a Response
	switch r {
	case ReadsPage:
		retry := ""
		if f.wait > 0 && len(q.View.Target) > 0 && q.repeatable() {
			retry = q.original()
		}
		a = c.pages.message(q, nil, status, "", f.page, retry)
	case ReadsXML:
		a = c.pages.own(q, status, typeXML, "")
		a.Body = errorXML(status, failureNames[f.page], q.RequestID)
	case ReadsJSON:
		if f.wait > 0 {
			a = c.pages.json(q, status, "", waitJSON{f.page.String(), q.RequestID, seconds(f.wait)})
		} else {
			a = c.pages.json(q, status, "", noticeJSON{f.page.String(), q.RequestID})
		}
	case ReadsText:
		a = c.pages.program(q, status, "", failureNames[f.page], f.wait)
	default:
		a = c.pages.own(q, status, "", "")
		a.add("Vary", "*")
	}
	if f.wait > 0 {
		a.after(f.wait)
	}
	return a
}

var failureNames = map[templates.Message]string{
	templates.BadRequest: "Bad request", templates.NotFound: "Not found", templates.TooLarge: "Request too large",
	templates.HeadTooLarge: "Address or header fields too large", templates.Late: "The request did not come in time",
	templates.UpstreamDown: "The service does not answer", templates.UpstreamTimeout: "The service takes too long",
	templates.Unavailable: "Busy: please try again",
}

func (q *Request) repeatable() bool {
	switch q.method() {
	case "GET", "HEAD", "OPTIONS":
		return true
	}
	return false
}

type quarantineJSON struct {
	Type      string   `json:"type"`
	RequestID string   `json:"request-id"`
	Decision  string   `json:"decision,omitempty"`
	Tags      []string `json:"tags,omitempty"`
}

// Quarantined is 409 with the rules' decision and tags as JSON. It names no rule: that would help spammers.
func (c *Captcha) Quarantined(q *Request, decision string, tags []string) Response {
	return c.pages.json(q, 409, verdictBlocked, quarantineJSON{"quarantine", q.RequestID, decision, tags})
}

// QuarantinedXML is Quarantined as XML.
func (c *Captcha) QuarantinedXML(q *Request) Response {
	a := c.pages.own(q, 409, typeXML, verdictBlocked)
	a.Body = errorXML(409, "Quarantined", q.RequestID)
	return a
}

// Queued answers a message that waits for a person: 202, without a verdict.
func (c *Captcha) Queued(q *Request, page bool) Response {
	if !page {
		return c.pages.json(q, 202, "", noticeJSON{"queued", q.RequestID})
	}
	back := q.Base + "/"
	if from := string(q.View.Get("Referer")); strings.HasPrefix(from, back) {
		back = from
	}
	return c.pages.messagePage(
		q, nil, 202, "", &templates.MessagePage{Message: templates.Queued, Retry: back, Sent: true},
	)
}
