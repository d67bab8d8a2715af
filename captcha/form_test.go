package captcha

import (
	"bytes"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
)

const typed = "name=%D0%98%D0%B2%D0%B0%D0%BD&text=a+long+letter&key=not-ours&rep=either&retpath=//x"

func (e *env) challengeForm(opts ...opt) (Response, url.Values) {
	e.t.Helper()
	all := append([]opt{
		body(
			"application/x-www-form-urlencoded", typed,
		), header("Cookie", "session=42; L=abc"), header("Origin", "https://example.com"),
		header("Referer", "https://example.com/write"), header("Sec-Fetch-Site", "same-origin"),
		header("Sec-Fetch-Mode", "navigate"),
		header("Sec-Fetch-Dest", "document"),
	}, opts...)
	a := e.c.ChallengeForm(e.request("POST", "https://example.com/letters?draft=1", all...))
	return a, fieldsOf(e.t, a.Body)
}

// TestPitfall21FormIsNotLost: a form that a person filled in is sent on after the right answer: completely, once, and
// with its own headers.
func TestPitfall21FormIsNotLost(t *testing.T) {
	e := newEnv(t, nil)
	a, fields := e.challengeForm(header("X-Own", "forty-two"), header("Authorization", "Basic b3du"),
		header("Content-Encoding", "identity"), header("Connection", "keep-alive, X-Hop"), header("X-Hop", "1"),
		header("X-Forwarded-For", "192.0.2.1"), header("X-Antirobot-Mark", "OK"))
	if a.Status != 200 || a.Get("X-Antirobot-Verdict") != "captcha" || !bytes.Contains(a.Body, []byte("is kept")) {
		t.Fatalf("%d\n%s", a.Status, a.Body)
	}
	for _, secret := range []string{"long letter", "long+letter", "session", "L=abc", "draft"} {
		if bytes.Contains(a.Body, []byte(secret)) {
			t.Errorf("%q of the form stands in the page", secret)
		}
	}
	probe := header("Cookie", "session=43; antirobot_probe="+value(cookies(&a)["antirobot_probe"]))
	// A wrong answer first: the form stays.
	a = e.submit(fields, wrong(e.answerOf(fields.Get("key"))), probe)
	if a.Status != 200 || !bytes.Contains(a.Body, []byte("<title>Error:")) || a.Resend != nil {
		t.Fatalf("%d", a.Status)
	}
	again := fieldsOf(t, a.Body)
	if again.Get("saved") != fields.Get("saved") || again.Get("key") == fields.Get("key") {
		t.Error("the form or the key is not as it should be")
	}
	// Another picture, another language: nothing is lost.
	more := url.Values{"new": {"1"}, "saved": again["saved"], "key": again["key"]}
	if a := e.submit(more, "", probe); !bytes.Contains(a.Body, []byte("is kept")) ||
		bytes.Contains(a.Body, []byte("<title>Error:")) {
		t.Error("another picture")
	}
	more = url.Values{"switch": {"ru"}, "saved": again["saved"], "key": again["key"]}
	if a := e.submit(more, "", probe); !bytes.Contains(a.Body, []byte(`lang="ru"`)) ||
		fieldsOf(t, a.Body).Get("saved") != fields.Get("saved") {
		t.Error("another language")
	}
	own := []opt{
		header("Accept", "text/html"), header("Referer", "null"), header("Origin", "null"),
		header("Sec-Fetch-Site", "same-origin"), header("X-Own", "other"), header("Authorization", "Basic other"),
	}
	a = e.submit(again, e.answerOf(again.Get("key")), append(own, probe)...)
	if a.Outcome != OutcomeSolved || cookies(&a)["spravka"] == "" || a.Status != 307 ||
		a.Get("Location") != "https://example.com/letters?draft=1" {
		t.Fatalf("outcome %d, status %d, %v", a.Outcome, a.Status, a.Header)
	}
	a = e.comeBack(again, &a, append(own, probe)...)
	r := a.Resend
	if r == nil {
		t.Fatalf("status %d\n%s", a.Status, a.Body)
	}
	if line := r.Method + " " + r.Target; line != "POST /letters?draft=1" || string(r.Body) != typed {
		t.Errorf("%s %s %q", r.Method, r.Target, r.Body)
	}
	got := map[string]string{}
	for _, f := range r.Header {
		if _, twice := got[f.Name]; twice {
			t.Errorf("%s twice", f.Name)
		}
		got[f.Name] = f.Value
	}
	for name, want := range map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Cookie": "session=42; L=abc", "Origin": "https://example.com", "Referer": "https://example.com/write",
		"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html",
		"X-Own": "forty-two", "Authorization": "Basic b3du", "Content-Encoding": "identity",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"Connection", "X-Hop", "X-Forwarded-For", "X-Antirobot-Mark"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s: %s came with the form", name, v)
		}
	}
	if got["User-Agent"] == "" {
		t.Errorf("%v", got)
	}
}

func TestFormIsSentOnce(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.challengeForm()
	one := fieldsOf(t, e.submit(url.Values{"new": {"1"}, "saved": fields["saved"]}, "").Body)
	two := fieldsOf(t, e.submit(url.Values{"new": {"1"}, "saved": fields["saved"]}, "").Body)
	if a := e.submit(one, e.answerOf(one.Get("key"))); a.Resend == nil {
		t.Fatal("not sent at all")
	}
	e.c = e.newCaptcha(e.c.cfg) // on another node
	a := e.submit(two, e.answerOf(two.Get("key")))
	if a.Resend != nil || a.Status != 409 || !bytes.Contains(a.Body, []byte("sent already")) {
		t.Errorf("status %d", a.Status)
	}
}

// TestReloadOfASentFormIsTold: a visitor who reloads the answer is told that the form was sent, with a link to the page
// that contained it, and is not challenged first; with or without a right answer.
func TestReloadOfASentFormIsTold(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.challengeForm()
	rep := e.answerOf(fields.Get("key"))
	if a := e.submit(fields, rep); a.Resend == nil {
		t.Fatal("not sent at all")
	}
	e.c = e.newCaptcha(e.c.cfg) // on another node
	for _, answer := range []string{rep, wrong(rep), ""} {
		a := e.submit(fields, answer)
		if a.Resend != nil || a.Status != 409 || !bytes.Contains(a.Body, []byte(`href="https://example.com/write"`)) ||
			bytes.Contains(a.Body, []byte(`name="rep"`)) {
			t.Errorf("%q: status %d\n%s", answer, a.Status, a.Body)
		}
	}
	q := e.request("POST", "https://example.com/checkcaptcha")
	for referer, want := range map[string]string{
		"https://example.com/guestbook?page=2": "https://example.com/guestbook?page=2",
		"https://evil.example/":                "https://example.com/", "https://example.com.evil/": "https://example.com/", "": "https://example.com/",
		"javascript:alert(1)": "https://example.com/", "https://example.com@evil.example/": "https://example.com/",
	} {
		s := saved{request: SavedRequest{Header: []HeaderField{{"Referer", referer}}}}
		if got := s.cameFrom(q); got != want {
			t.Errorf("from %q: %q", referer, got)
		}
	}
}

// TestFormIsSentOnlyForItsSender: somebody else's page can't make a visitor's browser send the attacker's form.
func TestFormIsSentOnlyForItsSender(t *testing.T) {
	e := newEnv(t, nil)
	a, fields := e.challengeForm(from("198.51.100.66")) // the attacker's
	attackersMark := value(cookies(&a)["antirobot_probe"])
	rep := e.answerOf(fields.Get("key"))
	refuse := func(what string, a Response) {
		t.Helper()
		if a.Resend != nil || a.Status != 410 {
			t.Errorf("%s: status %d, sent on: %v", what, a.Status, a.Resend != nil)
		}
	}
	refuse("a visitor", e.submit(fields, rep))
	refuse(
		"a visitor with a probe", e.submit(fields, rep, header("Cookie", "antirobot_probe=AAAAAAAAAAAAAAAAAAAAAA.0")),
	)
	refuse("cross-site", e.submit(fields, rep, from("198.51.100.66"), header("Sec-Fetch-Site", "cross-site")))
	other := e.newService("other", DefaultServiceConfig(), identity.DefaultServiceConfig())
	refuse("another service", e.submit(fields, rep, from("198.51.100.66"), service(other)))
	bad := url.Values{"key": fields["key"], "saved": {fields.Get("saved") + "A"}}
	refuse("an altered form", e.submit(bad, rep, from("198.51.100.66")))
	// The actual sender, whose network changed: the page and the key recognize the browser's mark.
	moved := []opt{from("2001:db8::5"), header("Cookie", "antirobot_probe="+attackersMark)}
	if a := e.submit(fields, rep, moved...); a.Resend == nil {
		t.Errorf("status %d", a.Status)
	}
	_, fields = e.challengeForm()
	e.pass(2 * time.Hour)
	refuse("too old", e.submit(fields, "1"))
}

// TestPitfall21TooLargeIsToldBefore: the visitor is told that a form can't be carried before solving anything.
func TestPitfall21TooLargeIsToldBefore(t *testing.T) {
	e := newEnv(t, nil)
	const told = "larger than 64 KB"
	_, fields := e.challengeForm(func(q *Request) { q.Body = bytes.Repeat([]byte("x"), 64<<10) })
	if fields.Get("saved") == "" {
		t.Error("64 KB are not carried")
	}
	if n := int64(len(fields.Get("saved"))); n > e.c.CheckBodyLimit() {
		t.Errorf("the sealed form has %d bytes, more than an answer may have", n)
	}
	for what, o := range map[string]opt{
		"body":     func(q *Request) { q.Body = bytes.Repeat([]byte("x"), 64<<10+1) },
		"not read": func(q *Request) { q.BodyTooLarge, q.Body = true, nil },
		"cookies":  header("Cookie", strings.Repeat("x", 20<<10)),
	} {
		a, fields := e.challengeForm(o)
		if !bytes.Contains(a.Body, []byte(told)) || fields.Get("saved") != "" || a.Status != 200 {
			t.Errorf("%s: not told", what)
		}
		b := e.submit(fields, wrong(e.answerOf(fields.Get("key"))))
		if !bytes.Contains(b.Body, []byte(told)) || !bytes.Contains(b.Body, []byte("<title>Error:")) {
			t.Errorf("%s: not told after a wrong answer", what)
		}
		fields = fieldsOf(t, b.Body)
		b = e.submit(fields, e.answerOf(fields.Get("key")))
		if b.Outcome != OutcomeSolved || !bytes.Contains(b.Body, []byte("go back in your browser")) ||
			cookies(&b)["spravka"] == "" {
			t.Errorf("%s: after the right answer %d\n%s", what, b.Status, b.Body)
		}
	}
}

func FuzzSaved(f *testing.F) {
	s := saved{
		mark:    "m",
		request: SavedRequest{Method: "POST", Target: "/", Header: []HeaderField{{"a", "b"}}, Body: []byte("x")},
	}
	f.Add(s.append(nil))
	f.Add(bytes.Repeat([]byte{1}, 40))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSaved(b)
		if err != nil {
			return
		}
		again, err := parseSaved(s.append(nil))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%v\n%+v\n%+v", err, again, s)
		}
	})
}

func FuzzKey(f *testing.F) {
	k := key{kind: digitsCode, channel: channelPage, addr: addr("203.0.113.7"), secret: []byte{1, 2, 3}}
	f.Add(k.append(nil))
	k.way = wayScript
	f.Add(k.append(nil))
	f.Add(bytes.Repeat([]byte{1}, keyFixed))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, ok := parseKey(b)
		if ok && !bytes.Equal(k.append(nil), b) {
			t.Fatalf("%x is read as %+v", b, k)
		}
	})
}

// FuzzCheck sends arbitrary queries, bodies and cookies to the check: none may crash it, earn a pass, or redirect
// elsewhere.
func FuzzCheck(f *testing.F) {
	f.Add("key=a&rep=1", "saved=x", "application/x-www-form-urlencoded", "antirobot_probe=AAAAAAAAAAAAAAAAAAAAAA.0")
	f.Add("format=json", "--b\r\nContent-Disposition: form-data; name=key\r\n\r\nx\r\n--b--",
		"multipart/form-data; boundary=b", "")
	f.Add("%&&=&key", "rep=%zz", "text/plain", ";;=;a")
	e := newEnv(f, nil, manyChecks)
	f.Fuzz(func(t *testing.T, query, text, contentType, cookie string) {
		for _, method := range []string{"GET", "POST"} {
			q := e.request(method, "https://example.com/checkcaptcha", body(contentType, text),
				header("Cookie", cookie))
			q.View.Query = []byte(query)
			a := e.c.Check(q)
			if a.Outcome == OutcomeSolved || a.Resend != nil || cookies(&a)["spravka"] != "" {
				t.Fatal("solved")
			}
			if loc := a.Get("Location"); loc != "" && !strings.HasPrefix(loc, "https://example.com/showcaptcha?") {
				t.Fatalf("leads to %q", loc)
			}
			e.c.XCheck(q)
			e.c.Page(q)
			e.c.Image(q)
		}
	})
}
