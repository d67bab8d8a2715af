package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// guestbook is a service that records what was posted to it.
type guestbook struct {
	*httptest.Server
	mu   sync.Mutex
	got  []string // bodies
	mark []string // X-Antirobot-Mark of each
}

func newGuestbook(t *testing.T) *guestbook {
	b := &guestbook{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		b.mu.Lock()
		defer b.mu.Unlock()
		if err == nil && r.Method == http.MethodPost {
			b.got = append(b.got, string(body))
			b.mark = append(b.mark, strings.Join(r.Header.Values("X-Antirobot-Mark"), "|"))
		}
		fmt.Fprintf(w, "posted %d bytes as %s%s", len(body), r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"))
	}))
	t.Cleanup(b.Close)
	return b
}

// take returns what came since the last call.
func (b *guestbook) take() (bodies, marks []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bodies, marks = b.got, b.mark
	b.got, b.mark = nil, nil
	return bodies, marks
}

// routesConfig has a route for each way of posting. What is said decides: casino is spam, pills are odd, worm is harmful.
const routesConfig = `
services:
  - name: book
    upstream: {urls: [%q]}
    messages:
      routes:
        - route: POST /comments
          sources:
            - {attribute: text, from: form, key: words}
            - {attribute: text, from: json, key: /comment/body}
            - {attribute: text, from: multipart, key: words}
            - {attribute: from, from: subject}
            - {attribute: ip, from: address}
          max_body: 100KiB
          timeout: 400ms
          trace: true
        - route: POST /strict/**
          sources: [{attribute: text, from: form, key: words}]
          answers: [{decision: OK, action: pass}, {decision: SPAM, action: block}]
          otherwise: quarantine
          max_body: 200
          too_large: block
          unreadable: quarantine
message:
  partners:
    - name: default
      domain:
        properties:
          - {name: storage, class: DomainMemoryStorage}
          - name: messageAnalyzer
            class: Firewall
            rules: |
              do messageFrequencyCheck(count=1, minLength=3) mark frequent
              do messageLogPut()
              do regexpCheck(regexp="(?si).*(casino|казино)") mark clean
              do regexpCheck(regexp="(?si).*pills") mark nopills score 1
              do regexpCheck(regexp="(?si).*worm") mark noworm
              if frequent stop as FREQUENT
              if not clean stop as SPAM
              if not nopills stop as MARK
              if not noworm stop as QUARANTINE
              stop as OK
          - {name: messageLog, class: MessageLog}
          - {name: model, class: BayesModel}
`

const form = "application/x-www-form-urlencoded"

func (g *gateway) logged(t *testing.T) int {
	t.Helper()
	var found struct{ Entries []struct{ ID int } }
	if err := json.Unmarshal(g.api("GET", "/api/messages", nil), &found); err != nil {
		t.Fatal(err)
	}
	return len(found.Entries)
}

// TestMessageRoutes posts forms, JSON and multipart bodies of all kinds: the service gets exactly what was sent, byte by
// byte, and only what the rules let through.
func TestMessageRoutes(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	g := configured(t, routesConfig, book.URL)
	v := visitor(t)
	post := func(path, kind, body string, header ...string) *response {
		t.Helper()
		return v.do("POST", g.url+path, body, append([]string{"Content-Type", kind}, header...)...)
	}
	ajax := []string{"X-Requested-With", "XMLHttpRequest"}
	got := func(want string, mark string) {
		t.Helper()
		bodies, marks := book.take()
		if len(bodies) != 1 || bodies[0] != want || marks[0] != mark {
			t.Errorf("the service got %q, marks %q; want %q and %q", bodies, marks, want, mark)
		}
	}
	nothing := func() {
		t.Helper()
		if bodies, _ := book.take(); len(bodies) > 0 {
			t.Errorf("the service got %q", bodies)
		}
	}

	t.Run("what is good passes untouched", func(t *testing.T) {
		for i, kind := range []string{form, "application/json", form + "; charset=windows-1251"} {
			body := fmt.Sprintf("words=hello+%d&x=%%zz&&y", i)
			if kind == "application/json" {
				body = ` {"comment": {"body": "hello j"}, "n": 1e2} `
			}
			post("/comments", kind, body, "X-Antirobot-Mark", "forged").must(t, 200, "posted")
			got(body, "")
		}
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		_ = m.WriteField("words", "hello multipart")
		file, _ := m.CreateFormFile("picture", "a.png")
		_, _ = file.Write([]byte("\x89PNG\x00\xff"))
		_ = m.Close()
		post("/comments", m.FormDataContentType(), b.String()).must(t, 200, "posted")
		got(b.String(), "")
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = io.WriteString(w, "words=hello+gzip")
		_ = w.Close()
		post("/comments", form, z.String(), "Content-Encoding", "gzip").must(t, 200, "posted")
		got(z.String(), "")
		v.get(g.url+"/comments?words=casino").must(t, 200, "posted")
		post("/other", form, "words=casino").must(t, 200, "posted")
		got("words=casino", "")
	})
	t.Run("a mark", func(t *testing.T) {
		post("/comments", form, "words=pills+for+you", "X-Antirobot-Mark", "forged", "x_antirobot_mark", "forged").must(t, 200, "posted")
		got("words=pills+for+you", "MARK;tags=clean,noworm")
	})
	t.Run("quarantine", func(t *testing.T) {
		r := post("/comments", form, "words=a+worm").must(t, 409, `{"type":"quarantine","request-id":"`)
		if r.Header.Get("Content-Type") != "application/json; charset=utf-8" || !strings.Contains(r.body, `"decision":"QUARANTINE","tags":["clean","nopills"]`) {
			t.Errorf("%v %s", r.Header, r.body)
		}
		nothing()
	})
	t.Run("every spelling of spam", func(t *testing.T) {
		for i, c := range []struct{ path, kind, body string }{
			{"/comments", form, "words=casino%20"},
			{"/comments/", form, "words=cas%69no"},
			{"//comments", form, "words=1&words=casino+2"},
			{"/x/../comments", form, "words=casino++3"},
			{"/%63omments", form, "words=casino+4"},
			{"/comments;a=b", form, "words=casino+5"},
			{"/comments?x=y", form + "; charset=windows-1251", "words=%EA%E0%E7%E8%ED%EE+6"},
			{"/comments", "application/json", `{"comment":{"body":"\u0063asino 7"}}`},
			{"/comments", "application/vnd.api+json; charset=utf-8", `{"comment":{"body":"casino 8"}}`},
		} {
			r := post(c.path, c.kind, c.body, ajax...)
			if r.StatusCode != 200 || !strings.Contains(r.body, `"type":"captcha"`) {
				t.Errorf("%d: %s: %d %s", i, c.path, r.StatusCode, tail(r.body, 200))
			}
		}
		nothing()
	})
	t.Run("blocked on another route", func(t *testing.T) {
		r := post("/strict/a/b", form, "words=casino+strict").must(t, 403, "")
		s := g.why(r)
		if s.Verdict != "blocked" || s.Cause != "message" || s.Message.Route != "POST /strict/**" || s.Message.Decision != "SPAM" ||
			s.Message.Line != 7 || s.Rule != "line 7: if not clean stop as SPAM" || len(s.Message.Fired) != 2 {
			t.Errorf("the story: %+v", s)
		}
		post("/strict", form, "words=pills+strict").must(t, 409, "MARK") // otherwise
		post("/strict", form, "words="+strings.Repeat("x", 200)).must(t, 403, "")
		post("/strict", form, "words=abc", "Content-Encoding", "br").must(t, 409, "quarantine")
		post("/strict", "text/plain", "casino").must(t, 409, "") // no text: the rules can't read it: on_error
		nothing()
	})
	if n := g.metric(`antirobot_messages_total{service="book",route="POST /comments",result="captcha"}`); n != 9 {
		t.Errorf("%v captchas counted", n)
	}
}

// TestMessageCaptcha: after the captcha the message is forwarded automatically, without being judged again; a script sends
// it again, once for each answer.
func TestMessageCaptcha(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	g := configured(t, routesConfig, book.URL)
	ajax := []string{"X-Requested-With", "XMLHttpRequest", "Accept", "application/json", "Content-Type", "application/json"}
	solve := func(v *client, c challenge) {
		t.Helper()
		v.get(g.url+"/checkcaptcha?key="+c.Captcha.Key+"&rep="+testAnswer, ajax[:4]...).must(t, 200, `"status":"success"`)
	}

	t.Run("a compressed form is carried as it was sent", func(t *testing.T) {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = io.WriteString(w, "words=a+casino+in+gzip")
		_ = w.Close()
		v := visitor(t)
		page := v.do("POST", g.url+"/comments", z.String(), "Content-Type", form, "Content-Encoding", "gzip").must(t, 200, "<form")
		v.do("POST", g.url+"/checkcaptcha", answered(t, page.body, testAnswer), "Content-Type", form).must(t, 200, "as "+form+"gzip")
		if bodies, marks := book.take(); len(bodies) != 1 || bodies[0] != z.String() || marks[0] != "SPAM;solved" {
			t.Errorf("the service got %q %q", bodies, marks)
		}
	})
	t.Run("a form is carried", func(t *testing.T) {
		v := visitor(t)
		before := g.logged(t)
		page := v.do("POST", g.url+"/comments?q=1", "words=my+casino+story", "Content-Type", form).must(t, 200, "looks like a message that programs send")
		if page.Header.Get("X-Antirobot-Verdict") != "captcha" || !strings.Contains(page.body, `<blockquote class="written" dir="auto">my casino story</blockquote>`) {
			t.Errorf("no verdict header, or the text is not shown:\n%s", page.body)
		}
		wrong := v.do("POST", g.url+"/checkcaptcha", answered(t, page.body, "000000"), "Content-Type", form).must(t, 200, "looks like a message that programs send")
		sent := v.do("POST", g.url+"/checkcaptcha", answered(t, wrong.body, testAnswer), "Content-Type", form).must(t, 200, "posted")
		if !sent.setsCookie("spravka") {
			t.Error("no pass")
		}
		if bodies, marks := book.take(); len(bodies) != 1 || bodies[0] != "words=my+casino+story" || marks[0] != "SPAM;solved" {
			t.Errorf("the service got %q %q", bodies, marks)
		}
		if n := g.logged(t) - before; n != 1 {
			t.Errorf("the message was logged %d times", n)
		}
		// The pass pays for requests, not for the next message; and the same text is frequent now: it was counted once.
		again := v.do("POST", g.url+"/comments", "words=my+casino+story", "Content-Type", form).must(t, 200, "<form")
		v.do("POST", g.url+"/comments", "words=another+casino+story", "Content-Type", form).must(t, 200, "<form")
		if s := g.why(again); s.Message.Decision != "FREQUENT" {
			t.Errorf("the second time: %+v", s.Message)
		}
	})
	t.Run("a script repeats", func(t *testing.T) {
		v := visitor(t)
		before := g.logged(t)
		const body = `{"comment":{"body":"casino by script"},"token":%d}`
		post := func(n int) *response {
			t.Helper()
			return v.do("POST", g.url+"/comments", fmt.Sprintf(body, n), ajax...)
		}
		c := post(1).must(t, 200, `"type":"captcha"`).challenge(t)
		other := v.do("POST", g.url+"/comments", `{"comment":{"body":"another casino"}}`, ajax...).must(t, 200, `"type":"captcha"`)
		solve(v, c)
		post(2).must(t, 200, "posted") // the same message, whatever stands around it
		if _, marks := book.take(); len(marks) != 1 || marks[0] != "SPAM;solved" {
			t.Errorf("marks %q", marks)
		}
		if n := g.logged(t) - before; n != 2 {
			t.Errorf("%d messages were logged", n)
		}
		if got := post(3).must(t, 200, `"type":"captcha"`); g.why(got).Message.Decision != "FREQUENT" {
			t.Error("the grant was good a second time, or the rules counted otherwise")
		}
		// One answer serves one message: the other one still waits for its own.
		v.do("POST", g.url+"/comments", `{"comment":{"body":"another casino"}}`, ajax...).must(t, 200, `"type":"captcha"`)
		solve(v, other.challenge(t))
		v.do("POST", g.url+"/comments", `{"comment":{"body":"another casino"}}`, ajax...).must(t, 200, "posted")
		book.take()
	})
	t.Run("a stolen grant", func(t *testing.T) {
		v, thief := visitor(t), visitor(t)
		r := v.do("POST", g.url+"/comments", `{"comment":{"body":"casino of a thief"}}`, ajax...).must(t, 200, `"type":"captcha"`)
		solve(v, r.challenge(t))
		cookie := ""
		for _, c := range r.Cookies() {
			if strings.HasPrefix(c.Name, "antirobot_grant_") {
				cookie = c.Name + "=" + c.Value
			}
		}
		if cookie == "" {
			t.Fatalf("no grant: %v", r.Header)
		}
		thief.do("POST", g.url+"/comments", `{"comment":{"body":"casino of a thief"}}`, append(ajax, "Cookie", cookie)...).must(t, 200, `"type":"captcha"`)
		v.do("POST", g.url+"/comments", `{"comment":{"body":"casino of another"}}`, append(ajax, "Cookie", cookie)...).must(t, 200, `"type":"captcha"`)
		if bodies, _ := book.take(); len(bodies) > 0 {
			t.Errorf("the service got %q", bodies)
		}
	})
	t.Run("a form too large to be carried", func(t *testing.T) {
		v := visitor(t)
		body := "words=casino+" + strings.Repeat("x", 70<<10)
		page := v.do("POST", g.url+"/comments", body, "Content-Type", form).must(t, 200, "<form")
		v.do("POST", g.url+"/checkcaptcha", answered(t, page.body, testAnswer), "Content-Type", form).must(t, 200, "")
		v.do("POST", g.url+"/comments", body, "Content-Type", form).must(t, 200, "posted")
		bodies, _ := book.take()
		if len(bodies) != 1 || bodies[0] != body {
			t.Errorf("the service got %d bodies", len(bodies))
		}
	})
	t.Run("a banned visitor's form is judged after the captcha", func(t *testing.T) {
		g.ban("ip:127.0.0.1", "10m")
		carried := func(lang, body string) *response {
			t.Helper()
			v := visitor(t).speaks(lang) // none of those who have just answered
			page := v.do("POST", g.url+"/comments", body, "Content-Type", form).must(t, 200, "<form")
			if g.why(page).Cause != "ban" {
				t.Fatal("not the ban")
			}
			return v.do("POST", g.url+"/checkcaptcha", answered(t, page.body, testAnswer), "Content-Type", form)
		}
		before := g.logged(t)
		carried("de", "words=a+worm+carried").must(t, 409, "QUARANTINE")
		carried("fr", "words=casino+carried").must(t, 200, "posted") // one captcha is enough
		carried("it", "words=good+carried").must(t, 200, "posted")
		if bodies, marks := book.take(); len(bodies) != 2 || marks[0] != "SPAM;solved;score=1;tags=nopills,noworm" || marks[1] != "" {
			t.Errorf("the service got %s %q", tail(fmt.Sprint(bodies), 500), marks)
		}
		if n := g.logged(t) - before; n != 3 {
			t.Errorf("%d messages were logged", n)
		}
		g.api("DELETE", "/api/bans?subject=ip:127.0.0.1", nil)
	})
}

// TestMessageLimits: a body that is too slow, too large, or broken is never silently ignored.
func TestMessageLimits(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	g := configured(t, routesConfig, book.URL)
	v := visitor(t)
	r := v.do("POST", g.url+"/comments", "words="+strings.Repeat("x", 101<<10), "Content-Type", form).must(t, 200, "<form")
	if s := g.why(r); s.Message.Error != "the body is too large" || s.Message.Action != "captcha" {
		t.Errorf("%+v", s.Message)
	}
	v.do("POST", g.url+"/comments", "x", "Content-Type", form, "Content-Encoding", "gzip").must(t, 200, "<form")
	v.do("POST", g.url+"/comments", "{", "Content-Type", "application/json", "X-Requested-With", "XMLHttpRequest").must(t, 200, `"type":"captcha"`)

	slow := g.dial("POST /comments HTTP/1.1\r\nHost: a\r\nContent-Type: " + form + "\r\nContent-Length: 20\r\n\r\nwords=")
	began := time.Now()
	res, err := http.ReadResponse(slow, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if s := g.whyID(res.Header.Get("X-Request-Id")); s.Message.Error != "the body did not come in time" || time.Since(began) > patience {
		t.Errorf("%d after %v: %+v", res.StatusCode, time.Since(began), s.Message)
	}
	if bodies, _ := book.take(); len(bodies) > 0 {
		t.Errorf("the service got %q", bodies)
	}
	g.wire("POST /comments HTTP/1.1\r\nHost: a\r\nContent-Type: "+form+"\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n").must(t, 400, "")
}
