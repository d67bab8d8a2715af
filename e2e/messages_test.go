package e2e

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"antirobot/servertest"
	"antirobot/store/redisstore/redistest"
)

// messageClient asks over XML-RPC with Python's client, as clients of 2009 do, and over JSON-RPC; both must agree. It
// leaves rules, a model and a log behind.
const messageClient = `
import json, sys, urllib.request, xmlrpc.client

base, step = sys.argv[1], sys.argv[2]
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))
proxy = xmlrpc.client.ServerProxy(base + "/api/xml/", allow_none=True)

class Fault(Exception):
    pass

def by_xml(method, **params):
    try:
        return getattr(proxy, method)(params)
    except xmlrpc.client.Fault as f:
        raise Fault(f.faultCode)

def by_json(method, **params):
    body = json.dumps({"service": None, "method": method, "id": 11, "params": [params]})
    req = urllib.request.Request(base + "/api/json/", body.encode(), {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(req))
    assert answer["id"] == 11, answer
    if "error" in answer:
        assert answer["error"]["origin"] == "Fault", answer
        raise Fault(answer["error"]["code"])
    return answer["result"]

def fails(code, call, method, **params):
    try:
        got = call(method, **params)
    except Fault as f:
        assert f.args[0] == code, (method, params, f.args, code)
    else:
        raise AssertionError((method, params, got, code))

def judge(call, text, **more):
    return call("sf.message.input", partner=None, message=dict(more, text=text))["result"]

rules = """
do lengthCheck(minLength=1, maxLength=1000) mark invalid
if invalid skip to 1000
do messageFrequencyCheck() mark messagefrequent, frequent
if frequent skip to 1000
do modelClassify() mark spam
1000: do messageLogPut()
if invalid stop as INVALID
if frequent stop as FREQUENT
if spam stop as SPAM
stop as OK
"""
firewall = dict(partner=None, firewall="messageAnalyzer")

if step == "first":
    assert "version" in by_xml("sf.info.version")
    assert judge(by_xml, "hello") == judge(by_json, "hello") == "UNKNOWN"
    assert by_xml("sf.message.firewall.rules.check", rules=rules, **firewall) == {}
    assert by_xml("sf.message.firewall.rules.set", rules=rules, **firewall) == {}
    def classify(call, text):
        got = call("sf.model.classify", partner=None, model="model", message={"text": text})
        return got["marker"], got["by"]
    def train(marker, text):
        assert by_json("sf.model.train", partner=None, model="model", message={"text": text}, marker=marker) == {}
    # Until the model knows 25 good and 10 bad texts the built-in start judges; what was taught as bad is found at once.
    assert classify(by_xml, "cheap pills online, order 0") == ("good", "ru-en-1")
    for n in range(15):
        train("bad", "cheap pills online, order %d" % n)
    assert classify(by_xml, "cheap pills online, order 0") == ("bad", "taught")
    assert classify(by_xml, "pills") == ("good", "ru-en-1")
    for n in range(40):
        train("good", "see you at lunch in room %d" % n)
    for call in by_xml, by_json:
        assert call("sf.message.firewall.rules.get", **firewall) == {"rules": rules}
        assert judge(call, "") == "INVALID"
        assert judge(call, "lunch?") == "OK"
        assert judge(call, "cheap pills") == "SPAM"
        assert classify(call, "pills") == ("bad", "model")
        assert classify(call, "lunch?") == ("good", "model")
        got = [judge(call, "Привет, the same text by " + call.__name__) for _ in range(4)]
        assert got == ["OK", "OK", "OK", "FREQUENT"], got
        debug = call("sf.message.input", partner=None, message={"text": "lunch"}, debug=True)
        assert debug["result"] == "OK" and "lengthCheck" in debug["log"], debug
        fails(1001, call, "sf.message.input", partner=None)
        fails(1002, call, "sf.no.such")
        fails(1004, call, "sf.domain.list", partner=None, more=1)
        fails(1005, call, "sf.message.input", partner=None, message={"text": 5})
        fails(2001, call, "sf.domain.list", partner="somebody")
        fails(2002, call, "sf.domain.list", partner=None, domain="no/such")
        fails(2003, call, "sf.domain.get", partner=None, name="nothing")
        fails(2005, call, "sf.model.classify", partner=None, model="storage", message={"text": "x"})
        fails(2006, call, "sf.message.input", partner=None, message={})
        fails(2007, call, "sf.message.firewall.rules.get", partner=None, firewall="model")
        fails(2008, call, "sf.message.firewall.rules.set", rules="do", **firewall)
        fails(2009, call, "sf.message.log.fetch", partner=None, log="model")

if step != "first":
    for call in by_xml, by_json:
        assert call("sf.message.firewall.rules.get", **firewall) == {"rules": rules}
        assert judge(call, "cheap pills again") == "SPAM"

entries = by_json("sf.message.log.fetch", partner=None, log="messageLog")["entries"]
ids = [e["id"] for e in entries]
assert ids == (sorted(set(ids)) if step == "killed" else list(range(1, len(ids) + 1))), ids
same = by_xml("sf.message.log.fetch", partner=None, log="messageLog", firstID=3)["entries"]
assert [e["id"] for e in same] == ids[2:], same
assert entries[0]["tags"] == ["invalid"] and entries[2]["tags"] == ["spam"], entries[:3]
print(len(ids))
`

// TestMessages sets rules, trains, judges and reads the log through clients, then restarts the gateway: rules, the model
// and the log are still there, and ids continue.
func TestMessages(t *testing.T) {
	t.Parallel()
	python := servertest.Need(t, "python3")
	g := serve(t, site(t).URL)
	client := func(step string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), python, "-c", messageClient, g.admin, step).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := client("first"); got != "16" {
		t.Errorf("%s entries in the log", got)
	}
	var usage struct {
		Usage []struct {
			Partner, Domain, Method string
			Requests                float64
		}
	}
	if err := json.Unmarshal(g.api("GET", "/api/messages/usage", nil), &usage); err != nil {
		t.Fatal(err)
	}
	counted := 0.0
	for _, u := range usage.Usage {
		if u.Partner == "default" && u.Method == "sf.message.input" {
			counted += u.Requests
		}
	}
	if m := g.metric("antirobot_message_requests_total", `method="sf.message.input"`); counted < 18 || m != counted {
		t.Errorf("%v messages by the API, %v by the metrics", counted, m)
	}
	g.kill(syscall.SIGTERM)
	g.run()
	if got := client("again"); got != "18" {
		t.Errorf("%s entries in the log after a restart", got)
	}
	g.kill(syscall.SIGKILL) // what was learnt and set is on disk already
	g.run()
	if got := client("killed"); got != "20" {
		t.Errorf("%s entries in the log after a kill", got)
	}
}

// TestTrustStaysOnLoopback: a gateway whose private listener is open to others does not trust every caller.
func TestTrustStaysOnLoopback(t *testing.T) {
	t.Parallel()
	const open = "admin: {listen: \"0.0.0.0:8079\"}\nservices: [{name: a, upstream: {urls: [\"http://127.0.0.1:1\"]}}]\n"
	code, out := command(t, "check-config", configFile(t, "%s", open+"message: {authorisation: trust, queue: {max_entries: 5}}\n"))
	if code == 0 || !strings.Contains(out, "message.authorisation: trust believes every caller") {
		t.Errorf("trust: %d %s", code, out)
	}
	keys := "message: {authorisation: keys, partners: [{name: ann, secret: a-secret-of-anns-own}]}\n"
	if code, out := command(t, "check-config", configFile(t, "%s", open+keys)); code != 0 {
		t.Errorf("keys: %d %s", code, out)
	}
}

// compressed returns text as a writer of that kind makes it.
func compressed(kind, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if kind == "deflate" {
		w, _ = flate.NewWriter(&b, flate.DefaultCompression)
	}
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// TestMessagesHiddenOnTheWire: whatever stands around a message, how it is framed and what its head says of it, the service gets none that is
// spam, and what is not spam in a form that services read.
func TestMessagesHiddenOnTheWire(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	g := configured(t, strings.Replace(routesConfig, "unreadable: quarantine", "unreadable: block", 1), book.URL)
	addr := strings.TrimPrefix(g.url, "http://")
	chunked := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(text), text) }
	length := func(text string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(text)) }
	const typed, te = "Content-Type: " + form + "\r\n", "Transfer-Encoding: chunked\r\n"
	for i, word := range []string{"flowers", "casino"} {
		n := 0
		send := func(name, line, fields, body string, passes bool) {
			t.Helper()
			status := rawly(t, addr, line, fields+"\r\n"+body)
			if bodies, _ := book.take(); (len(bodies) > 0) != (passes && i == 0) {
				t.Errorf("%s, %s: %d, the service got %q", name, word, status, bodies)
			}
		}
		text := func() string { n++; return fmt.Sprintf("words=some+%s+for+%d", word, n) }
		post := func(name string, passes bool, fields, body string) {
			t.Helper()
			send(name, "POST /strict/x", fields+length(body), body, passes)
		}
		s := text()
		post("as it is", true, typed, s)
		send("in a chunk", "POST /strict/x", typed+te, chunked(text()), true)
		s = text()
		send("with trailers", "POST /strict/x", typed+te+"Trailer: Content-Type\r\n", strings.TrimSuffix(chunked(s), "\r\n")+"Content-Type: text/plain\r\n\r\n", true)
		send("with chunk extensions", "POST /strict/x", typed+te, strings.Replace(chunked(text()), "\r\n", ";a=\"b\"\r\n", 1), true)
		s = text()
		send("byte by byte", "POST /strict/x", typed+te, func() (b string) {
			for _, c := range []byte(s) {
				b += fmt.Sprintf("1\r\n%c\r\n", c)
			}
			return b + "0\r\n\r\n"
		}(), true)
		post("gzip", true, typed+"Content-Encoding: GZIP\r\n", compressed("gzip", text()))
		post("gzip in two pieces", true, typed+"Content-Encoding: x-gzip\r\n", compressed("gzip", "words=some+")+compressed("gzip", text()))
		post("deflate without its frame", true, typed+"Content-Encoding: deflate\r\n", compressed("deflate", text()))
		post("a bomb", false, typed+"Content-Encoding: gzip\r\n", compressed("gzip", text()+strings.Repeat("a", 4<<20)))
		for _, encoding := range []string{"br", "zstd", "gzip, gzip", "identity, gzip", "gzip;q=1", "aws-chunked", "utf-8"} {
			post("encoding "+encoding, false, typed+"Content-Encoding: "+encoding+"\r\n", text())
			post("encoding "+encoding+", gzip in truth", false, typed+"Content-Encoding: "+encoding+"\r\n", compressed("gzip", text()))
		}
		post("two encodings", false, typed+"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", compressed("gzip", text()))
		post("an encoding with an underscore", true, typed+"Content_Encoding: gzip\r\n", compressed("gzip", text()))
		post("gzip that nobody declares", false, typed, compressed("gzip", text()))
		s = text()
		send("gzip as a transfer coding", "POST /strict/x", typed+"Transfer-Encoding: gzip, chunked\r\n", chunked(compressed("gzip", s)), false)
		send("two lengths", "POST /strict/x", typed+"Content-Length: 5\r\n"+length(s), s, false)
		send("a length and chunks", "POST /strict/x", typed+"Content-Length: 5\r\n"+te, chunked(s), false)
		send("more than its length", "POST /strict/x", typed+"Content-Length: 5\r\n", "a=b&c"+s, false)
		post("an upgrade to WebSocket", true, typed+"Upgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n", text())
		post("an upgrade to HTTP/2", true, typed+"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n", text())
		post("an expectation that nobody knows", false, typed+"Expect: 200-ok\r\n", text())
		for _, kind := range []string{"text/plain", "application/xml", "application/json", "multipart/mixed; boundary=B", "x/" + form, `"` + form + `"`, form + ", text/plain", form + "; charset=utf-7", form + "; charset=ibm500", ""} {
			post("type "+kind, false, "Content-Type: "+kind+"\r\n", text())
		}
		post("a type beside another", false, typed+"Content_Type: application/json\r\n", text())
		post("in capitals", true, "Content-Type: "+strings.ToUpper(form)+" ;a=b\r\n", text())
		post("as UTF-16", true, "Content-Type: "+form+"; charset=utf-16le\r\n", "words="+func() (b string) {
			for _, c := range []byte(word) {
				b += string(c) + "%00"
			}
			return b
		}())
		if i == 1 {
			s = text()
			send("a method in small letters", "post /strict/x", typed+length(s), s, false)
			send("a method of the head", "PUT /strict/x", typed+"X-HTTP-Method-Override: POST\r\n"+length(s), s, false)
			send("a method of the query", "GET /strict/x?_method=POST&"+s, "", "", false)
		}
	}
}

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

// sendHTTP2 posts data frames as they are, padded with pad bytes, and returns the status; 0: the stream was reset.
func sendHTTP2(t *testing.T, addr string, head, trailer []string, pad int, frames ...string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	var block bytes.Buffer
	enc, f := hpack.NewEncoder(&block), http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	fields := func(end bool, pairs ...string) {
		block.Reset()
		for i := 0; i < len(pairs); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
	}
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = f.WriteSettings()
	fields(false, append([]string{":method", "POST", ":scheme", "http", ":authority", addr, ":path", "/strict/x", "content-type", form}, head...)...)
	for i, data := range frames {
		_ = f.WriteDataPadded(1, i == len(frames)-1 && trailer == nil, []byte(data), make([]byte, pad))
	}
	if trailer != nil {
		fields(true, trailer...)
	}
	return statusHTTP2(f)
}

// statusHTTP2 reads frames until there is the status of an answer; 0: the stream was reset, or the connection ended.
func statusHTTP2(f *http2.Framer) int {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return 0
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			var status int
			_, _ = fmt.Sscan(frame.PseudoValue("status"), &status)
			return status
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0
		}
	}
}

// headHTTP2 asks with these fields as they are, and returns the status of the answer; 0: there is none.
func headHTTP2(t *testing.T, addr string, pairs ...string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	var block bytes.Buffer
	enc, f := hpack.NewEncoder(&block), http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for i := 0; i < len(pairs); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = f.WriteSettings()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
	return statusHTTP2(f)
}

// TestMessagesOverHTTP2: however a body comes over HTTP/2, its message is judged as over HTTP/1.
func TestMessagesOverHTTP2(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	_, service, _ := strings.Cut(routesConfig, "services:")
	addr := freePort(t)
	file := configFile(t, "listen: [{address: %q, h2c: true}]\nservices:"+service, addr, book.URL)
	g := startWith(t, "serve", "--config", file, "--captcha-test-answer", testAnswer)
	packed := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	split := func(s string) []string { return strings.Split(s, "") }
	length := func(n int) []string { return []string{"content-length", fmt.Sprint(n)} }
	for i, word := range []string{"casino", "flowers"} {
		want := []int{403, 200}[i]
		text := func(n int) string { return fmt.Sprintf("words=good+%s+%d", word, n) }
		check := func(name string, status int) {
			t.Helper()
			if status != want {
				t.Errorf("%s, %s: %d, want %d", name, word, status, want)
			}
		}
		check("over HTTP/1", visitor(t).do("POST", "http://"+addr+"/strict/x", text(1), "Content-Type", form).StatusCode)
		check("with its length", sendHTTP2(t, addr, length(len(text(2))), nil, 0, text(2)))
		check("byte by byte", sendHTTP2(t, addr, nil, nil, 0, split(text(3))...))
		check("padded", sendHTTP2(t, addr, length(len(text(4))), nil, 200, text(4)[:14], text(4)[14:]))
		check("with empty frames", sendHTTP2(t, addr, nil, nil, 0, "", text(5), "", ""))
		check("with trailers", sendHTTP2(t, addr, nil, []string{"content-type", "text/plain", "x-sum", "1"}, 0, text(6)))
		check("compressed", sendHTTP2(t, addr, []string{"content-encoding", "gzip"}, nil, 9, split(packed(text(7)))...))
	}
	for _, n := range []int{7, 99} {
		if status := sendHTTP2(t, addr, length(n), nil, 0, "words=a casino"); status/100 == 2 {
			t.Errorf("a body of another length than %d: %d", n, status)
		}
	}
	if status := sendHTTP2(t, addr, nil, nil, 0, strings.Repeat("a", 150), strings.Repeat("b", 150)); status != http.StatusForbidden {
		t.Errorf("a body that is too large in two frames: %d", status)
	}
	bodies, _ := book.take()
	for _, b := range bodies {
		if strings.Contains(b, "casino") {
			t.Errorf("the service got %q", b)
		}
	}
	if n := g.logged(t); n != 14 || len(bodies) != 7 {
		t.Errorf("%d messages are in the log, and the service got %d", n, len(bodies))
	}
}

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

// TestRedisQueue: what one gateway holds waits in a shared Redis, where another finds it, nobody can read it, and it is
// delivered once, however many people say yes at once.
func TestRedisQueue(t *testing.T) {
	t.Parallel()
	service := &moderated{say: 200}
	site := httptest.NewServer(service)
	t.Cleanup(site.Close)
	r := redistest.Start(t)
	file, secret := configFile(t, queueConfig, site.URL, "http://127.0.0.1:1/approved", "http://127.0.0.1:1/judge"), secretFile(t)
	var all [2]*gateway
	for i := range all {
		all[i] = start(t, "serve", "--config", file, "--store", "redis://"+r.Addr, "--secret-file", secret)
	}
	a, b := all[0], all[1]
	visitor(t).do("POST", a.url+"/comments", "words=maybe+a+lighthouse", "Content-Type", form).must(t, 202, "")
	visitor(t).do("POST", b.url+"/comments", "words=maybe+a+lighthouse", "Content-Type", form).must(t, 202, "") // it waits once

	_, list := command(t, "queue", "list", "--admin", b.admin, "--data-dir", b.dir)
	id, _, _ := strings.Cut(list, " ")
	if strings.Count(list, "maybe a lighthouse") != 1 {
		t.Fatalf("the queue of the other gateway: %s", list)
	}
	held := strings.Fields(r.CLI(t, "KEYS", "*kqueue/*"))
	for _, key := range held {
		if kept := r.CLI(t, "GET", key); len(kept) < 32 || strings.Contains(kept, "lighthouse") {
			t.Errorf("%s holds %q", key, kept)
		}
	}
	if len(held) != 2 {
		t.Errorf("the store keeps %q of one message", held)
	}
	var both sync.WaitGroup
	for i := range 6 {
		both.Go(func() {
			g := all[i%2]
			command(t, "queue", "approve", id, "--admin", g.admin, "--data-dir", g.dir)
		})
	}
	both.Wait()
	service.mu.Lock()
	defer service.mu.Unlock()
	if len(service.was) != 1 || service.was[0] != "words=maybe+a+lighthouse" || service.got[0].Method != http.MethodPost {
		t.Errorf("delivered: %q", service.was)
	}
	if _, list := command(t, "queue", "list", "--admin", a.admin, "--data-dir", a.dir); strings.Contains(list, "lighthouse") || !strings.Contains(list, id) {
		t.Errorf("what is left of it: %s", list)
	}
}
