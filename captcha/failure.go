package captcha

import (
	"time"

	"antirobot/templates"
)

// failures say, by status, which page tells of a request that nobody has served, and how long to wait before another try; 0: the
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

// Failed is the answer to a request that nobody has served, although nobody is asked or refused: its service is away or busy, or
// the request is not one that can be served. It carries no verdict. Of q only View and Service are needed.
func (c *Captcha) Failed(q *Request, status int, r Reader) Response {
	f, known := failures[status]
	if !known {
		f = failures[502]
	}
	if status != 408 && status != 503 && !q.repeatable() { // it may have been carried out, as what did not come whole or was taken by nobody was not
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
		a = c.pages.own(q, status, typeJSON, "")
		c.pages.cors(q, &a)
		if f.wait > 0 {
			a.Body = marshal(waitJSON{f.page.String(), q.RequestID, seconds(f.wait)})
		} else {
			a.Body = marshal(noticeJSON{f.page.String(), q.RequestID})
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

// failureNames are the texts of XML errors.
var failureNames = map[templates.Message]string{
	templates.BadRequest: "Bad request", templates.NotFound: "Not found", templates.TooLarge: "Request too large",
	templates.HeadTooLarge: "Address or header fields too large", templates.Late: "The request did not come in time",
	templates.UpstreamDown: "The service does not answer", templates.UpstreamTimeout: "The service takes too long",
	templates.Unavailable: "Busy: please try again",
}

// repeatable reports whether the request changes nothing, however often it is made.
func (q *Request) repeatable() bool {
	switch q.method() {
	case "GET", "HEAD", "OPTIONS":
		return true
	}
	return false
}
