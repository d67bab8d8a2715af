package captcha

import (
	"time"

	"antirobot/templates"
)

// throttledJSON is what a script is told if it asks too fast.
type throttledJSON struct {
	Type       string `json:"type"`
	RequestID  string `json:"request-id"`
	RetryAfter int64  `json:"retry-after"` // seconds
}

// Throttled is the answer to a request that comes too fast: 429 and how long to wait. Pages get a page, scripts JSON,
// XML clients XML (ThrottledXML), all others nothing to read.
func (c *Captcha) Throttled(q *Request, wait time.Duration, page, ajax bool) Response {
	wait = max(wait, time.Second)
	var a Response
	switch {
	case page:
		a = c.message(q, nil, 429, verdictBlocked, templates.Limited, "")
	case ajax:
		a = c.own(q, 429, typeJSON, verdictBlocked)
		c.cors(q, &a)
		a.Body = marshal(throttledJSON{"throttle", q.RequestID, seconds(wait)})
	default:
		a = c.own(q, 429, "", verdictBlocked)
		a.add("Vary", "*")
	}
	a.after(wait)
	return a
}
