package captcha

import (
	"strings"
	"testing"

	"antirobot/identity"
	"antirobot/templates"
)

func because(r templates.Reason) opt { return func(q *Request) { q.Reason = r } }

// TestChallengesSayWhy: on the page behind a redirect, also after a wrong answer, on the page of a form, and in JSON.
func TestChallengesSayWhy(t *testing.T) {
	e := newEnv(t, nil)
	const pace, message = "a lot of pages in a short time", "looks like a message that programs send"
	page, fields := e.visit("https://example.com/", because(templates.ReasonPace))
	if !strings.Contains(string(page.Body), pace) {
		t.Errorf("the page does not say why:\n%s", page.Body)
	}
	a := e.submit(fields, wrong(e.answerOf(fields.Get("key"))))
	if page, _ := e.open(a.Get("Location")); !strings.Contains(string(page.Body), pace) {
		t.Errorf("after a wrong answer the page does not say why:\n%s", page.Body)
	}
	a, fields = e.challengeForm(because(templates.ReasonMessage))
	if !strings.Contains(string(a.Body), message) {
		t.Errorf("the page of a form does not say why:\n%s", a.Body)
	}
	if a := e.submit(fields, wrong(e.answerOf(fields.Get("key")))); !strings.Contains(string(a.Body), message) {
		t.Errorf("after a wrong answer the page of a form does not say why:\n%s", a.Body)
	}
	a = e.c.ChallengeJSON(e.request("GET", "https://example.com/api", because(templates.ReasonLoad)))
	if !strings.Contains(string(a.Body), `"reason":"load"`) {
		t.Errorf("%s", a.Body)
	}
}

func wrote(text string) opt { return func(q *Request) { q.Written = text } }

// TestWrittenIsShownAgain: who is asked because of what they wrote sees it on each page that carries it, as text, and
// nobody else does.
func TestWrittenIsShownAgain(t *testing.T) {
	e := newEnv(t, nil)
	const text, shown = "Buy <b>pills</b>\nnow & here", "Buy &lt;b&gt;pills&lt;/b&gt;\nnow &amp; here"
	a, fields := e.challengeForm(because(templates.ReasonMessage), wrote(text))
	if !strings.Contains(string(a.Body), shown) ||
		strings.Contains(string(a.Body), "Many requests have come from your address") {
		t.Errorf("%s", a.Body)
	}
	if a := e.submit(fields, wrong(e.answerOf(fields.Get("key")))); !strings.Contains(string(a.Body), shown) {
		t.Errorf("after a wrong answer:\n%s", a.Body)
	}
	if a := e.submit(fields, e.answerOf(fields.Get("key")), from("198.51.100.77")); a.Status != 410 ||
		strings.Contains(string(a.Body), "pills") {
		t.Errorf("another visitor with the sealed form gets %d:\n%s", a.Status, a.Body)
	}
	if a, _ = e.challengeForm(because(templates.ReasonMessage)); strings.Contains(string(a.Body), "blockquote") {
		t.Errorf("nothing was written, and a page shows it:\n%s", a.Body)
	}
	a, _ = e.challengeForm(because(templates.ReasonMessage), wrote(strings.Repeat("ж", 5000)))
	if n := strings.Count(string(a.Body), "ж"); n < 900 || n > maxWritten/2 ||
		!strings.Contains(string(a.Body), "ж…</blockquote>") {
		t.Errorf("%d letters of a long text are shown", n)
	}
}

// TestBlockedPageSpeaksTheirLanguage: the switch on the page of a blocked visitor leads to the same page in that
// language, which is remembered, and leads back; the way to the owner is on both.
func TestBlockedPageSpeaksTheirLanguage(t *testing.T) {
	e := newEnv(
		t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Branding.Contact = "help@example.com" },
	)
	way := func(a *Response) {
		t.Helper()
		if !strings.Contains(string(a.Body), `href="mailto:help@example.com?subject=req-`) {
			t.Errorf("no way to the owner:\n%s", a.Body)
		}
	}
	a := e.c.Blocked(e.request("GET", "https://example.com/news?page=2"), ReadsPage)
	way(&a)
	fields := fieldsOf(t, a.Body)
	if a.Status != 403 || fields.Get("retpath") != "https://example.com/news?page=2" {
		t.Fatalf("%d, %v", a.Status, fields)
	}
	fields.Set("switch", "it")
	a = e.c.BlockedPage(e.request("GET", "https://example.com/showcaptcha?"+fields.Encode()))
	way(&a)
	again := fieldsOf(t, a.Body)
	if a.Status != 403 || a.Get("X-Antirobot-Verdict") != "blocked" ||
		!strings.Contains(string(a.Body), `<html lang="it"`) {
		t.Errorf("%d\n%s", a.Status, a.Body)
	}
	if again.Get("retpath") != fields.Get("retpath") || value(cookies(&a)["antirobot_lang"]) != "it" {
		t.Errorf("retpath %q, language %q", again.Get("retpath"), cookies(&a)["antirobot_lang"])
	}
	fields.Set("retpath", "https://evil.example/")
	a = e.c.BlockedPage(e.request("GET", "https://example.com/showcaptcha?"+fields.Encode()))
	if got := fieldsOf(t, a.Body).Get("retpath"); got != "https://example.com/" {
		t.Errorf("a changed link leads to %q", got)
	}
	// Once unblocked, the same link leads to the captcha page, in that language.
	fields.Set("retpath", again.Get("retpath"))
	if a := e.c.Page(e.request("GET", "https://example.com/showcaptcha?"+fields.Encode())); !strings.Contains(
		string(a.Body), `<html lang="it"`,
	) {
		t.Errorf("%s", a.Body)
	}
}
