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
	if r == ReadsPage {
		a := c.message(q, nil, 429, verdictBlocked, templates.Limited, "")
		a.after(wait)
		return a
	}
	return c.comeAgain(q, 429, verdictBlocked, "throttle", wait, r)
}

// Busy is the answer for a service that has no free capacity: 503 and how long to wait. It carries no verdict: nobody is asked or
// refused.
func (c *Captcha) Busy(q *Request, wait time.Duration, r Reader) Response {
	if r == ReadsPage {
		a := c.PlainPage(q, templates.Unavailable)
		a.after(wait)
		return a
	}
	return c.comeAgain(q, 503, "", "unavailable", wait, r)
}

// comeAgain says how long to wait to a client that reads no pages.
func (c *Captcha) comeAgain(q *Request, code int, verdict, kind string, wait time.Duration, r Reader) Response {
	var a Response
	switch r {
	case ReadsXML:
		return c.waitXML(q, code, verdict, wait)
	case ReadsJSON:
		a = c.own(q, code, typeJSON, verdict)
		c.cors(q, &a)
		a.Body = marshal(waitJSON{kind, q.RequestID, seconds(wait)})
	default:
		a = c.own(q, code, "", verdict)
		a.add("Vary", "*")
	}
	a.after(wait)
	return a
}
