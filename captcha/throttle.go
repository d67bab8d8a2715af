package captcha

import (
	"time"

	"antirobot/templates"
)

// Reader says what the client of a request can read.
type Reader uint8

// What clients read.
const (
	ReadsNothing Reader = iota // pictures and other parts
	ReadsPage
	ReadsJSON
	ReadsXML
)

// Throttled is the answer to a request that comes too fast: 429 and how long to wait.
func (c *Captcha) Throttled(q *Request, wait time.Duration, r Reader) Response {
	wait = max(wait, time.Second)
	var a Response
	switch r {
	case ReadsXML:
		return c.waitXML(q, 429, verdictBlocked, wait)
	case ReadsPage:
		page := templates.MessagePage{Message: templates.Limited, Wait: wait}
		if q.repeatable() {
			page.Retry = q.original()
		}
		a = c.messagePage(q, nil, 429, verdictBlocked, &page)
	case ReadsJSON:
		a = c.own(q, 429, typeJSON, verdictBlocked)
		c.cors(q, &a)
		a.Body = marshal(waitJSON{"throttle", q.RequestID, seconds(wait)})
	default:
		a = c.own(q, 429, "", verdictBlocked)
		a.add("Vary", "*")
	}
	a.after(wait)
	return a
}
