package captcha

import (
	"fmt"
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
	ReadsText // programs: plain text, or problem details where they accept JSON
)

// Throttled is the answer to a request that comes too fast: 429 and how long to wait.
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
		a = c.pages.own(q, 429, typeJSON, verdictBlocked)
		c.pages.cors(q, &a)
		a.Body = marshal(waitJSON{"throttle", q.RequestID, seconds(wait)})
	case ReadsText:
		a = c.pages.program(q, 429, verdictBlocked, "Too many requests", wait)
	default:
		a = c.pages.own(q, 429, "", verdictBlocked)
		a.add("Vary", "*")
	}
	a.after(wait)
	return a
}

// problemJSON is RFC 9457's problem details.
type problemJSON struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	RequestID  string `json:"request-id,omitempty"`
	RetryAfter int64  `json:"retry-after,omitempty"` // seconds
}

// program makes an answer for a program: short, in the form that it accepts, and never one of success.
func (pg *pages) program(q *Request, status int, verdict, title string, wait time.Duration) Response {
	if q.Unread {
		return Response{Status: status}
	}
	if q.View.Accept().PrefersJSON() {
		a := pg.own(q, status, "application/problem+json", verdict)
		pg.cors(q, &a)
		a.Body = marshal(problemJSON{"about:blank", title, status, q.RequestID, seconds(wait)})
		return a
	}
	a := pg.own(q, status, "text/plain; charset=utf-8", verdict)
	a.add("Vary", "Accept")
	text := fmt.Sprintf("%d %s.", status, title)
	if wait > 0 {
		text += fmt.Sprintf(" Try again in %d s.", seconds(wait))
	}
	if q.RequestID != "" {
		text += " Request number: " + q.RequestID
	}
	a.Body = []byte(text + "\n")
	return a
}
