package requestrules

import (
	"strings"
	"testing"
	"time"

	"antirobot/request"
	"antirobot/verdict"
)

// TestAnswers: what an answer says is counted for the next request, by the field of the body.
func TestAnswers(t *testing.T) {
	w := newWorld(t)
	s := w.service(`do eventCheck(event="failed", attribute="ip, body.user", timeout=60, count=1) mark guessing
if guessing stop as THROTTLE
stop as OK`, func(c *ServiceConfig) {
		c.After = `do attributeCheck(attribute="status", value=401) mark other
do attributeCheck(attribute="type", value="text/html") mark other
if not other do eventAdd(event="failed", attribute="ip, body.user", timeout=60)`
	})
	login := func(user, want string, status int) {
		t.Helper()
		v, id := newRequest("192.0.2.1", "POST /login")
		v.At, v.Posted = w.now(), []request.Field{{Name: []byte("user"), Value: []byte(user)}}
		r := new(verdict.Ruling)
		s.Judge(r, v, id, shop, verdict.Human)
		if r.Decision != want || r.Failed != "" {
			t.Errorf("%s: %s %s, want %s", user, r.Decision, r.Failed, want)
		}
		s.Answered(v, id, shop, &verdict.Answer{Status: status, ContentType: []byte("text/html"), Took: time.Second})
	}
	login("ann", "OK", 401)
	login("bob", "OK", 401)
	login("ann", "OK", 200)
	login("ann", "OK", 401)
	login("ann", "THROTTLE", 429)
	login("bob", "OK", 200)
	w.pass(time.Minute)
	login("ann", "OK", 200)
}

func TestAnswersAlone(t *testing.T) {
	w := newWorld(t)
	s := w.service("", func(c *ServiceConfig) { c.After = `do counterAdd(type=1, attribute="ip")` })
	if r := w.judge(s, verdict.Human, "192.0.2.1", "GET /"); r.Action != verdict.RuleNone {
		t.Errorf("%+v", r)
	}
	c := DefaultServiceConfig()
	c.After = "do counterAdd(type=1, attribute=\"stats\")"
	if w := c.Warnings(&Names{}); len(w) != 1 || !strings.HasPrefix(w[0], "after: line 1, column 33: there is no attribute stats") {
		t.Errorf("%v", w)
	}
	c.After = "do nothing()"
	if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "after: line 1, column 4") {
		t.Errorf("%v", err)
	}
}
