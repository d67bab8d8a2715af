package captcha

import (
	"reflect"
	"testing"
	"time"
)

// TestUnread: what nobody reads is not made, but ends, and is counted, as what somebody reads.
func TestUnread(t *testing.T) {
	read, unread := newEnv(t, nil), newEnv(t, nil)
	for name, refuse := range map[string]func(c *Captcha, q *Request) Response{
		"page":      (*Captcha).Redirect,
		"script":    (*Captcha).ChallengeJSON,
		"form":      (*Captcha).ChallengeForm,
		"part":      func(c *Captcha, q *Request) Response { return c.SubResource(q, false) },
		"blocked":   func(c *Captcha, q *Request) Response { return c.Blocked(q, ReadsPage) },
		"throttled": func(c *Captcha, q *Request) Response { return c.Throttled(q, time.Second, ReadsPage) },
		"queued":    func(c *Captcha, q *Request) Response { return c.Queued(q, true) },
	} {
		for _, large := range [...]bool{false, true} {
			ask := func(e *env, unread bool) Response {
				q := e.request("POST", "https://example.com/here?a=1")
				q.BodyTooLarge, q.Unread = large, unread
				return refuse(e.c, q)
			}
			want, got := ask(read, false), ask(unread, true)
			if got.Status != want.Status || got.Outcome != want.Outcome {
				t.Errorf("%s: %d %v, and read %d %v", name, got.Status, got.Outcome, want.Status, want.Outcome)
			}
			if len(got.Body) > 0 {
				t.Errorf("%s: has %d bytes", name, len(got.Body))
			}
		}
	}
	if want, got := read.c.Challenges().Total, unread.c.Challenges().Total; !reflect.DeepEqual(got, want) ||
		got.Shown == 0 {
		t.Errorf("counted %+v, and read %+v", got, want)
	}
}
