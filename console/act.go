package console

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"
)

// act does what a button of a page says, and leads back to the page.
func (v *visit) act() {
	f := func(name string) string {
		b := v.ctx.PostArgs().Peek(name)
		return strings.TrimSpace(string(b[:min(len(b), longestField)]))
	}
	method := "POST"
	var target string
	var body map[string]string
	what := f("do")
	switch what {
	case "unban":
		method, target = "DELETE", "/api/bans?"+url.Values{"subject": {f("subject")}, "service": {"*"}}.Encode()
	case "ban":
		target, body = "/api/bans", map[string]string{
			"subject": subjectOf(f("subject")), "ttl": f("ttl"),
			"reason": f("reason"),
		}
	case "white", "block", "banlist":
		target, body = "/api/lists/"+strings.TrimSuffix(what, "list"),
			map[string]string{"entry": f("entry"), "ttl": f("ttl"), "reason": f("reason")}
	case "unlist":
		method, target = "DELETE", "/api/lists/"+url.PathEscape(f("list"))+"?"+url.Values{
			"entry":   {f("entry")},
			"service": {f("service")},
		}.Encode()
	case "human", "robot":
		target, body = "/api/labels", map[string]string{"subject": f("subject"), "label": what, "reason": f("reason")}
	case "erase":
		method, target = "DELETE", "/api/subjects/"+url.PathEscape(f("subject"))
	case "test-alarms":
		target = "/api/alarms/test"
	default:
		v.problem(fasthttp.StatusBadRequest, "not_here", what)
		return
	}
	var text []byte
	if body != nil {
		for k, s := range body {
			if s == "" && k != "ttl" {
				delete(body, k)
			}
		}
		if body["ttl"] == "" {
			delete(body, "ttl")
		}
		text, _ = json.Marshal(body) // texts always encode
	}
	status, answer := v.api.Ask(v.s.who, method, target, text)
	if status == fasthttp.StatusOK {
		v.s.say("done_" + what)
		away(v.ctx, f("back"))
		return
	}
	v.problem(status, "problem", problemOf(answer))
}

func subjectOf(s string) string {
	if networkOf(s) != "" && !strings.HasPrefix(s, "ip:") {
		return "ip:" + s
	}
	return s
}
