package captcha

import (
	"strings"

	"antirobot/templates"
)

// Queued is the answer to a message that waits for a person: 202, and a page that says so, or JSON for a script. It carries
// no verdict: nobody is asked for anything.
func (c *Captcha) Queued(q *Request, page bool) Response {
	if !page {
		a := c.pages.own(q, 202, typeJSON, "")
		c.pages.cors(q, &a)
		a.Body = marshal(noticeJSON{"queued", q.RequestID})
		return a
	}
	back := q.Base + "/"
	if from := string(q.View.Get("Referer")); strings.HasPrefix(from, back) {
		back = from
	}
	return c.pages.messagePage(q, nil, 202, "", &templates.MessagePage{Message: templates.Queued, Retry: back, Sent: true})
}
