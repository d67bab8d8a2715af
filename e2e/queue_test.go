package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// queueConfig has a route whose doubtful texts wait for a person, and one whose approved texts go to a webhook.
const queueConfig = `
services:
  - name: book
    upstream: {urls: [%q]}
    messages:
      routes:
        - {route: POST /comments, sources: [{attribute: text, from: form, key: words}]}
        - {route: POST /grey, sources: [{attribute: text, from: form, key: words}], grey: {from: 0, to: 1, ask: [judge], good: mark, bad: block}}
        - {route: POST /hooked, sources: [{attribute: text, from: json, key: /words}], approved: %q}
message:
  second_opinions: [{name: judge, kind: http, url: %q, timeout: 20s}]
  queue: {max_entries: 4, webhook_secret: a-secret-of-the-webhook}
  partners:
    - name: default
      domain:
        properties:
          - {name: messageAnalyzer, class: Firewall, rules: "do regexpCheck(regexp=\"(?si).*maybe\") mark sure\nif not sure stop as QUEUE\nstop as OK"}
          - {name: model, class: BayesModel}
`

// moderated is a service that keeps what it gets, with all header fields.
type moderated struct {
	mu  sync.Mutex
	got []*http.Request
	was []string
	say int
}

func (m *moderated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got, m.was = append(m.got, r), append(m.was, string(body))
	w.WriteHeader(m.say)
}

// TestQueue: a text waits for a person over a kill of the gateway, and reaches the service as it was sent once somebody says
// so; the visitor is told, and nothing is left of what was refused.
func TestQueue(t *testing.T) {
	t.Parallel()
	service, hook := &moderated{say: 303}, &moderated{say: 200}
	site, hooks := httptest.NewServer(service), httptest.NewServer(hook)
	t.Cleanup(site.Close)
	t.Cleanup(hooks.Close)
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		verdict := "unsure"
		for _, says := range []string{"good", "bad"} {
			if strings.Contains(string(body), "a "+says+" one") {
				verdict = says
			}
		}
		_, _ = io.WriteString(w, `{"verdict":"`+verdict+`","reason":"a language model says so"}`)
	}))
	t.Cleanup(judge.Close)
	g := configured(t, queueConfig, site.URL, hooks.URL+"/approved", judge.URL)
	v := visitor(t)
	queue := func(want string, args ...string) string {
		t.Helper()
		code, out := command(t, append([]string{"queue", "--admin", g.admin, "--data-dir", g.dir}, args...)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("queue %v: %d %s, want %q", args, code, out, want)
		}
		return out
	}

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("words=maybe+a+lighthouse&token=%zz"))
	_ = z.Close()
	sent := packed.String()
	page := v.do("POST", g.url+"/comments", sent, "Content-Type", form, "Content-Encoding", "gzip", "Accept-Language", "ru",
		"X-Own", "kept", "Cookie", "sid=17", "Accept", "text/html").must(t, 202, "Ваш текст ждёт человека")
	if page.Header.Get("X-Antirobot-Verdict") != "" {
		t.Errorf("a verdict on what waits: %v", page.Header)
	}
	v.do("POST", g.url+"/hooked", `{"words":"maybe by script"}`, "Content-Type", "application/json", "X-Requested-With", "XMLHttpRequest").
		must(t, 202, `{"type":"queued","request-id":"`)
	v.do("POST", g.url+"/comments", "words=maybe+spam", "Content-Type", form).must(t, 202, "")
	v.do("POST", g.url+"/grey", "words=a+bad+one", "Content-Type", form).must(t, 403, "")
	if r := v.do("POST", g.url+"/grey", "words=nobody+knows", "Content-Type", form).must(t, 202, ""); len(g.why(r).Message.Opinions) != 2 {
		t.Errorf("the story has %v", g.why(r).Message.Opinions)
	}
	v.do("POST", g.url+"/grey", "words=a+good+one", "Content-Type", form)
	if len(service.was) != 1 || !strings.HasPrefix(service.got[0].Header.Get("X-Antirobot-Mark"), "OK") {
		t.Errorf("what a second opinion finds good: %q", service.was)
	}
	service.was, service.got = nil, nil
	v.do("POST", g.url+"/comments", "words=maybe+too+much", "Content-Type", form).must(t, 200, "<form") // it is full: asked
	v.do("POST", g.url+"/comments", "words=good", "Content-Type", form)
	if len(service.was) != 1 || service.was[0] != "words=good" || len(hook.was) != 0 {
		t.Fatalf("the service got %q, the webhook %q", service.was, hook.was)
	}
	g.kill(syscall.SIGKILL)
	g.run()

	ids := map[string]string{}
	_, list := command(t, "queue", "list", "--state", "waiting", "--admin", g.admin, "--data-dir", g.dir)
	for line := range strings.Lines(list) {
		id, rest, _ := strings.Cut(line, " ")
		for _, words := range []string{"lighthouse", "script", "spam"} {
			if strings.Contains(rest, words) {
				ids[words] = id
			}
		}
	}
	if out := queue("maybe a lighthouse", "show", ids["lighthouse"]); strings.Contains(out, "sid=17") || !strings.Contains(out, "/comments") {
		t.Errorf("shown: %s", out)
	}
	queue("was delivered: the answer was 303", "approve", ids["lighthouse"])
	if len(service.was) != 2 || service.was[1] != sent {
		t.Fatalf("the service got %q, not what was sent", service.was)
	}
	h := service.got[1].Header
	if h.Get("Content-Encoding") != "gzip" || h.Get("Content-Type") != form || h.Get("X-Own") != "kept" || h.Get("Cookie") != "sid=17" ||
		h.Get("X-Antirobot-Mark") != "QUEUE;approved" || h.Get("X-Antirobot-Delivery") != ids["lighthouse"] || h.Get("X-Request-Id") != page.Header.Get("X-Request-Id") {
		t.Errorf("the service got %v", h)
	}

	queue("was delivered: the answer was 200", "approve", ids["script"])
	var posted struct {
		Message map[string]string
		Body    []byte
	}
	mac := hmac.New(sha256.New, []byte("a-secret-of-the-webhook"))
	if len(hook.was) == 1 {
		mac.Write([]byte(hook.was[0]))
	}
	if len(hook.was) != 1 || json.Unmarshal([]byte(hook.was[0]), &posted) != nil || string(posted.Body) != `{"words":"maybe by script"}` ||
		posted.Message["text"] != "maybe by script" || hook.got[0].Header.Get("X-Antirobot-Signature") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("the webhook got %q", hook.was)
	}

	queue("was refused", "refuse", "--teach", ids["spam"])
	if out := queue("refused", "list"); strings.Contains(out, "maybe") || !strings.Contains(out, "nobody knows") || strings.Count(out, "\n") != 4 {
		t.Errorf("what is left of it: %s", out)
	}
	queue("erased: 4", "erase", "--all")
	if n := g.metric("antirobot_queue_total", `result="erased"`); n != 4 {
		t.Errorf("%v erased", n)
	}
}
