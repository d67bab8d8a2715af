package console

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/verdict"
)

const shownMessages = 50

type logged struct {
	ID      int64     `json:"id"`
	When    time.Time `json:"when"`
	Tags    []string  `json:"tags"`
	Message content   `json:"message"`
	Score   float64   `json:"score"`
	By      string    `json:"by"`
	Reasons []string  `json:"reasons"`
}

// content is a message. Its numbers are kept as text: a sender's has more digits than a float.
type content map[string]any

// UnmarshalJSON reads the attributes of a message.
func (c *content) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode((*map[string]any)(c)) //nolint:wrapcheck // it is what a decoder returns
}

// queued is a message that waits for a person, or did.
type queued struct {
	ID       string    `json:"id"`
	State    string    `json:"state"`
	At       time.Time `json:"at"`
	Service  string    `json:"service"`
	Route    string    `json:"route"`
	Request  string    `json:"request_id"`
	Message  content   `json:"message"`
	Decision string    `json:"decision"`
	Rule     string    `json:"rule"`
	Score    float64   `json:"score"`
	Opinions []string  `json:"opinions"`
	Client   string    `json:"client"`
	Error    string    `json:"error"`
}

// where names a log: what a call about messages carries.
type where struct{ Partner, Domain, Log string }

func (w *where) args() url.Values {
	args := url.Values{}
	for name, v := range map[string]string{"partner": w.Partner, "domain": w.Domain, "log": w.Log} {
		if v != "" {
			args.Set(name, v)
		}
	}
	return args
}

// showMessages shows what waits for a person, what routes have judged, and what the log of a domain has.
func (v *visit) showMessages() {
	arg := func(name string) string {
		b := v.ctx.QueryArgs().Peek(name)
		return string(b[:min(len(b), longestField)])
	}
	at := where{arg("partner"), arg("domain"), arg("log")}
	data := map[string]any{"At": at, "Text": arg("text"), "Taught": arg("taught"), "Marker": arg("marker")}
	var waiting struct {
		Total int      `json:"total"`
		Items []queued `json:"items"`
	}
	if v.look("/api/queue?state=waiting&limit=50", &waiting) {
		data["Queue"], data["Waiting"] = waiting.Items, waiting.Total
	}
	var recent struct {
		Messages []verdict.Story `json:"messages"`
	}
	if v.look("/api/messages/recent?limit=50", &recent) {
		data["Recent"] = recent.Messages
	}
	args := at.args()
	args.Set("limit", "50")
	if text := arg("text"); text != "" {
		args.Set("text", text)
	}
	var log struct {
		Entries []logged `json:"entries"`
	}
	status, answer := v.api.Ask(v.s.who, "GET", "/api/messages?"+args.Encode(), nil)
	if status == fasthttp.StatusOK && json.Unmarshal(answer, &log) == nil {
		data["Log"] = log.Entries[:min(len(log.Entries), shownMessages)]
	} else {
		data["Problem"] = problemOf(answer)
	}
	v.page("messages", fasthttp.StatusOK, data)
}

// useMessages does what a button of the page says.
func (v *visit) useMessages() {
	f := func(name string) string {
		b := v.ctx.PostArgs().Peek(name)
		return string(b[:min(len(b), longestField)])
	}
	at := where{f("partner"), f("domain"), f("log")}
	do, id := f("do"), f("id")
	back := at.args()
	method := "POST"
	var target string
	var body map[string]any
	switch do {
	case "good", "bad":
		target, body = "/api/messages/"+url.PathEscape(id)+"/mark",
			map[string]any{"marker": do, "partner": at.Partner, "domain": at.Domain, "log": at.Log}
		back.Set("taught", id)
		back.Set("marker", do)
	case "undo":
		args := at.args()
		args.Set("marker", f("marker"))
		method, target = "DELETE", "/api/messages/"+url.PathEscape(id)+"/mark?"+args.Encode()
	case "learn-good", "learn-bad":
		target, body = "/api/queue/"+url.PathEscape(id)+"/teach",
			map[string]any{"marker": strings.TrimPrefix(do, "learn-")}
	case "approve", "refuse":
		target, body = "/api/queue/"+url.PathEscape(id)+"/"+do, map[string]any{"teach": f("teach") == "yes"}
	default:
		v.problem(fasthttp.StatusBadRequest, "not_here", do)
		return
	}
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // texts and truths always encode
	}
	status, answer := v.api.Ask(v.s.who, method, target, text)
	if status != fasthttp.StatusOK {
		v.problem(status, "problem", problemOf(answer))
		return
	}
	v.s.say("done_message_" + strings.TrimPrefix(do, "learn-"))
	if text := f("text"); text != "" {
		back.Set("text", text)
	}
	away(v.ctx, root+"messages?"+back.Encode())
}
