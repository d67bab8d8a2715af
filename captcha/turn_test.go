package captcha

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// retry presses the button of a page that asks to wait, after the wait.
func (e *env) retry(a *Response, opts ...opt) Response {
	e.t.Helper()
	wait, err := strconv.Atoi(a.Get("Retry-After"))
	if a.Status != 429 || a.Outcome != OutcomeLimited || err != nil ||
		!strings.Contains(string(a.Body), `<form method="post" action="/checkcaptcha">`) {
		e.t.Fatalf("status %d, Retry-After %q\n%s", a.Status, a.Get("Retry-After"), a.Body)
	}
	e.pass(time.Duration(wait) * time.Second)
	fields := fieldsOf(e.t, a.Body)
	return e.submit(fields, fields.Get("rep"), opts...)
}

// TestAFormWaitsForItsTurn: at an address that has to wait, a form is carried on: before anything was answered, and
// with a right answer, which is not asked for again.
func TestAFormWaitsForItsTurn(t *testing.T) {
	e := newEnv(t, digitsOnly)
	page, fields := e.challengeForm()
	browser := []opt{
		header("Cookie", "antirobot_probe="+value(cookies(&page)["antirobot_probe"])),
		header("Sec-Fetch-Site", "same-origin"),
	}
	e.exhaust(time.Minute)
	a := e.submit(fields, e.answerOf(fields.Get("key")), browser...)
	if to := fieldsOf(t, a.Body); to.Get("saved") != fields.Get("saved") || to.Get("rep") == "" {
		t.Errorf("the answered form is not carried on: %v", to)
	}
	if more := e.submit(url.Values{"saved": fields["saved"], "new": {"1"}}, "", browser...); fieldsOf(
		t, more.Body,
	).Get("new") !=
		"1" {
		t.Errorf("another picture: status %d", more.Status)
	}
	if a = e.retry(&a, browser...); a.Status != 307 || a.Outcome != OutcomeSolved {
		t.Fatalf("status %d, outcome %d\n%s", a.Status, a.Outcome, a.Body)
	}
	if sent := e.comeBack(fields, &a, browser...); sent.Resend == nil || string(sent.Resend.Body) != typed {
		t.Errorf("status %d", sent.Status)
	}
	e.exhaust(time.Minute)
	late, _ := e.challengeForm(browser[0])
	e.pass(time.Hour)
	if fields = fieldsOf(t, e.retry(&late, browser...).Body); fields.Get("saved") == "" || fields.Get("key") == "" {
		t.Errorf("a form that came while there was no turn has the fields %v", fields)
	}
}

// withPass is a browser that brings the pass of an answer.
func withPass(solved *Response) opt {
	return func(q *Request) { q.ID.Passes[0], q.ID.NPasses = solved.Pass, 1 }
}

// TestPressingTwice: whoever answers again with the pass that the answer earned is led on, also where no turn is
// left; without the pass, or with another one, nobody is.
func TestPressingTwice(t *testing.T) {
	for _, exhausted := range []bool{false, true} {
		e := newEnv(t, digitsOnly, manyChecks)
		_, fields := e.visit("https://example.com/a")
		rep := e.answerOf(fields.Get("key"))
		e.pass(3 * time.Second)
		first := e.submit(fields, rep)
		e.pass(keptFor + time.Second)
		other := e.solve()
		if exhausted {
			e.exhaust(time.Minute)
		}
		if a := e.submit(fields, rep, withPass(&first)); a.Status != 303 ||
			a.Get("Location") != "https://example.com/a" || a.Outcome != OutcomeNone || cookies(&a)["spravka"] != "" {
			t.Errorf("exhausted %v: status %d to %s", exhausted, a.Status, a.Get("Location"))
		}
		if a := e.submit(fields, rep, withPass(&first), header("Accept", "application/json")); a.Status != 200 ||
			string(a.Body) == solvedJSON {
			t.Errorf("exhausted %v, a script, which knows what it did: %d %s", exhausted, a.Status, a.Body)
		}
		for _, o := range []opt{withPass(&other), header("X-Nothing", "")} {
			a := e.submit(fields, rep, o)
			if a.Status != 303 || a.Outcome != OutcomeFailed {
				t.Errorf("exhausted %v: without its pass: status %d, outcome %d", exhausted, a.Status, a.Outcome)
			}
			failed := e.c.Page(e.request("GET", a.Get("Location"), withPass(&first))) // the pass came in between
			if failed.Status != 302 || failed.Get("Location") != "https://example.com/a" {
				t.Errorf("exhausted %v: the page: status %d to %s", exhausted, failed.Status, failed.Get("Location"))
			}
		}
	}
}

// TestAFormPressedTwice goes on once, and only with the pass of its own answer.
func TestAFormPressedTwice(t *testing.T) {
	e := newEnv(t, digitsOnly)
	page, fields := e.challengeForm()
	_, second := e.challengeForm(header("Cookie", "antirobot_probe="+value(cookies(&page)["antirobot_probe"])))
	browser := []opt{
		header("Cookie", "antirobot_probe="+value(cookies(&page)["antirobot_probe"])),
		header("Sec-Fetch-Site", "same-origin"),
	}
	rep := e.answerOf(fields.Get("key"))
	e.pass(3 * time.Second)
	first := e.submit(fields, rep, browser...)
	browser = append(browser, withPass(&first))
	again := e.submit(fields, rep, browser...)
	if again.Status != 307 {
		t.Fatalf("pressed twice: status %d", again.Status)
	}
	if a := e.comeBack(fields, &again, browser...); a.Resend == nil {
		t.Errorf("status %d", a.Status)
	}
	if a := e.comeBack(fields, &first, browser...); a.Resend != nil || a.Status != 409 {
		t.Errorf("the first press after the second: status %d", a.Status)
	}
	e.submit(second, "1", browser...)
	if a := e.submit(second, e.answerOf(second.Get("key")), browser...); a.Status != 200 || a.Resend != nil {
		t.Errorf("another form goes on with the first one's pass: status %d", a.Status)
	}
}

// TestThePageLeadsOnWithAPass: to the return URL, or where there is none of ours to the start page, also within the
// second in which the question came; the page itself is told so. Who was stopped with this very pass, as it is spent
// or more is asked for, gets the question, and after the next answer is led on again.
func TestThePageLeadsOnWithAPass(t *testing.T) {
	e := newEnv(t, digitsOnly)
	linked := func(o ...opt) string {
		a := e.c.Redirect(e.request("GET", "https://example.com/a", o...))
		return a.Get("Location")
	}
	f := func(where, want string, o ...opt) {
		t.Helper()
		status, asks := 302, 302
		if want == "" {
			status, asks = 200, 204
		}
		if a := e.c.Page(e.request("GET", where, o...)); a.Status != status || a.Get("Location") != want {
			t.Errorf("%s: status %d to %q", where, a.Status, a.Get("Location"))
		}
		sep := "&"
		if !strings.Contains(where, "?") {
			sep = "?"
		}
		shown := e.c.Challenges().Total.Shown
		if a := e.c.Page(e.request("GET", where+sep+"format=json", o...)); a.Status != asks || len(a.Body) > 0 ||
			e.c.Challenges().Total.Shown != shown {
			t.Errorf("%s: the page is told %d", where, a.Status)
		}
	}
	const there, start = "https://example.com/a", "https://example.com/"
	link := linked()
	f(link, "")
	f("https://example.com/showcaptcha", "")
	solved := e.solve()
	has := withPass(&solved)
	f(link, there, has)
	f(linked(), there, has) // a tab whose question came without the cookie
	f(link+"0", start, has)
	f("https://example.com/showcaptcha", start, has)
	again := linked(has)
	f(again, "", has)
	more := e.solve()
	f(again, there, withPass(&more))
	f(again, there, func(q *Request) { q.ID.Passes[0], q.ID.Passes[1], q.ID.NPasses = solved.Pass, more.Pass, 2 })
}

// TestChecksForWhatWasRead: for what its network has read an address is checked silently, then by a button, and then asked
// for digits, by another browser too; for another reason it is still checked.
func TestChecksForWhatWasRead(t *testing.T) {
	e := newEnv(t, nil)
	unsure := func(q *Request) { q.Unsure = true }
	read := func(q *Request) { q.Unsure, q.Read = true, true }
	open := func(why opt) (page Response, browser opt) {
		t.Helper()
		sent := e.c.Redirect(e.request("GET", "https://example.com/page", why))
		browser = keeping(&sent)
		page, _ = e.open(sent.Get("Location"), browser, why)
		return page, browser
	}
	for n := range letChecks + letPresses {
		page, browser := open(read)
		want := stepSilent
		if n >= letChecks {
			want = stepPress
		}
		fields, rep := e.pageAnswer(&page, browser)
		if a := e.submit(fields, rep, browser, read); a.Outcome != OutcomeSolved || a.Pass.Step != uint8(want) {
			t.Fatalf("check %d: outcome %d, step %d", n+1, a.Outcome, a.Pass.Step)
		}
		e.pass(stepFades) // so that none is asked for more
	}
	if page, _ := open(read); !strings.Contains(string(page.Body), "<img") {
		t.Errorf("still checked: %s", page.Body)
	}
	if page, _ := open(unsure); strings.Contains(string(page.Body), "<img") {
		t.Error("for another reason, digits are asked for")
	}
	e.pass(letFades)
	if page, _ := open(read); strings.Contains(string(page.Body), "<img") {
		t.Error("digits are still asked for when a check has been forgotten")
	}
}
