package captcha

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// comeBack follows the redirect of a right answer, as a browser does: it repeats the form at the new address.
func (e *env) comeBack(fields url.Values, a *Response, opts ...opt) Response {
	e.t.Helper()
	all := append([]opt{
		body(
			"application/x-www-form-urlencoded", fields.Encode(),
		), header("Cookie", formCookie+"="+value(cookies(a)[formCookie])),
	}, opts...)
	q := e.request("POST", a.Get("Location"), all...)
	if !e.c.CarriesForm(q.View) {
		e.t.Fatalf("the gateway does not look at the form at %s", a.Get("Location"))
	}
	a2, ok := e.c.Resume(q)
	if !ok {
		e.t.Fatal("the form was taken for the service's own")
	}
	return a2
}

// TestFormEndsAtItsOwnAddress: after the right answer the browser is at the service's URL; a reload there, also after a
// restart, says that the form was sent, and asks nobody.
func TestFormEndsAtItsOwnAddress(t *testing.T) {
	e := newEnv(t, nil)
	a, fields := e.challengeForm()
	browser := []opt{
		header("Cookie", "antirobot_probe="+value(cookies(&a)["antirobot_probe"])),
		header("Sec-Fetch-Site", "same-origin"),
	}
	a = e.submit(fields, e.answerOf(fields.Get("key")), browser...)
	if a.Status != 307 || a.Resend != nil {
		t.Fatalf("status %d", a.Status)
	}
	if c := cookies(&a)[formCookie]; !strings.Contains(c, "; Path=/letters;") || !strings.Contains(c, "HttpOnly") {
		t.Errorf("cookie %q", c)
	}
	sent := e.comeBack(fields, &a, browser...)
	if sent.Resend == nil || string(sent.Resend.Body) != typed {
		t.Fatalf("status %d", sent.Status)
	}
	e.c = e.newCaptcha(e.c.cfg)
	again := e.comeBack(fields, &a, browser...)
	if again.Resend != nil || again.Status != 409 ||
		!strings.Contains(string(again.Body), `href="https://example.com/write"`) ||
		strings.Contains(string(again.Body), `name="rep"`) {
		t.Errorf("reloaded: status %d\n%s", again.Status, again.Body)
	}
}

// TestFormComesBackOnlyAnswered: without the cookie of a right answer, with that of another form, from elsewhere or at
// another address nothing is sent on; and a form of the service itself is left alone.
func TestFormComesBackOnlyAnswered(t *testing.T) {
	e := newEnv(t, nil)
	page, fields := e.challengeForm()
	_, other := e.challengeForm(header("Cookie", "antirobot_probe="+value(cookies(&page)["antirobot_probe"])))
	probe := header("Cookie", "antirobot_probe="+value(cookies(&page)["antirobot_probe"]))
	own := header("Sec-Fetch-Site", "same-origin")
	right := e.submit(fields, e.answerOf(fields.Get("key")), probe, own)
	f := func(what string, status int, a Response) {
		t.Helper()
		if a.Resend != nil || a.Status != status {
			t.Errorf("%s: status %d, want %d, sent on: %v", what, a.Status, status, a.Resend != nil)
		}
	}
	f("another form", 200, e.comeBack(other, &right, probe, own))
	f("from another site", 410, e.comeBack(fields, &right, probe, header("Sec-Fetch-Site", "cross-site")))
	f("from somebody else", 410, e.comeBack(fields, &right, own, from("198.51.100.66")))
	elsewhere := right
	elsewhere.Header = append([]HeaderField{{"Location", "https://example.com/letters?draft=2"}}, right.Header...)
	f("at another address", 410, e.comeBack(fields, &elsewhere, probe, own))
	forged := right
	forged.Header = []HeaderField{{"Location", right.Get("Location")}, {"Set-Cookie", formCookie + "=AAAA"}}
	f("with a made-up cookie", 200, e.comeBack(fields, &forged, probe, own))
	cookie := header("Cookie", formCookie+"="+value(cookies(&right)[formCookie]))
	for _, text := range []string{typed, "saved=mine&key=1", "key=1", ""} {
		if _, ok := e.c.Resume(e.request("POST", right.Get("Location"), body("application/x-www-form-urlencoded", text), cookie, probe, own)); ok {
			t.Errorf("the service's own form %q is taken for a carried one", text)
		}
	}
	if q := e.request("POST", right.Get("Location"), body("multipart/form-data; boundary=x", ""), cookie); e.c.CarriesForm(
		q.View,
	) {
		t.Error("a form of another kind is read")
	}
	e.pass(3 * time.Hour)
	f("too late", 410, e.comeBack(fields, &right, probe, own))
}

// TestFormIsSentAtOnceWithoutCookies: a browser that keeps none gets the service's answer where it is.
func TestFormIsSentAtOnceWithoutCookies(t *testing.T) {
	e := newEnv(t, nil)
	_, fields := e.challengeForm()
	if a := e.submit(fields, e.answerOf(fields.Get("key")), header("Sec-Fetch-Site", "same-origin")); a.Resend == nil {
		t.Errorf("status %d", a.Status)
	}
	if !plainPath("/") || !plainPath("/a/b.c/") || plainPath("/a;b") || plainPath("/a/../b") || plainPath("//a") ||
		plainPath("/a%2f") {
		t.Error("the wrong paths stand in cookies")
	}
}
