package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// consoleServices is a shop with comments, which are judged and logged; some wait for a person.
const consoleServices = `
services:
  - name: shop
    upstream: {urls: [%q]}
    messages: {routes: [{route: POST /comments, trace: true, sources: [{attribute: text, from: form, key: words}]}]}
message:
  partners:
    - name: default
      domain:
        properties:
          - {name: messageAnalyzer, class: Firewall, rules: "do regexpCheck(regexp=\"maybe\") mark sure\nif not sure stop as QUEUE\ndo modelClassify() mark spam do messageLogPut() stop as OK"}
          - {name: model, class: BayesModel}
          - {name: messageLog, class: MessageLog}
`

// TestConsole does what an operator does when somebody calls with the number on their page: a person is stopped, found by that
// number, and let through in three clicks; a viewer sees the same and has no button. The pages are without findings of axe, at the
// width of a desk and of a telephone.
func TestConsole(t *testing.T) {
	t.Parallel()
	_, made := command(t, "tokens", "make", "vera", "--role", "viewer")
	token, entry, found := strings.Cut(made, "Its entry in the configuration:")
	if !found {
		t.Fatalf("tokens make printed %s", made)
	}
	token = strings.TrimSpace(token[strings.Index(token, "\n"):])
	g := start(t, "serve", "--config", configFile(t, "%s\njournal: {humans: 1}\nidentity: {trusted_proxies: [127.0.0.1]}\n%s", entry, fmt.Sprintf(consoleServices, site(t).URL)),
		"--captcha-test-answer", testAnswer)
	g.ban("ip:203.0.113.77", "10m")
	person := from(t, "203.0.113.77")
	stopped := person.get(g.url+"/goods", "Accept", "text/html").must(t, 302, "")
	number := idOn(t, person.get(stopped.Header.Get("Location")))

	ctx := browser(t)
	source := axe(t)
	page := func(name string, width int64) {
		t.Helper()
		run(t, ctx, name, chromedp.EmulateViewport(width, 900))
		checkAxe(t, ctx, source, name)
		if !value[bool](t, ctx, `document.documentElement.scrollWidth <= innerWidth`) {
			t.Errorf("%s is wider than %d", name, width)
		}
		screen(t, ctx, "console-"+name)
	}
	signIn := func(token string) {
		t.Helper()
		run(t, ctx, "sign in", chromedp.Navigate(g.admin+"/console/"), chromedp.SendKeys("#secret", token+"\r"), chromedp.WaitVisible("#q"))
	}
	signIn(token)
	eventually(t, "the journal has the request", func() bool {
		run(t, ctx, "look", chromedp.Navigate(g.admin+"/console/requests?q=path:/goods"), chromedp.WaitVisible("#rows"))
		return value[int](t, ctx, `document.querySelectorAll('#rows tr').length`) > 0
	})
	page("requests", 1280)
	for _, path := range []string{"", "requests/" + number, "subjects/ip:203.0.113.77", "challenges", "lists", "messages"} {
		run(t, ctx, "open "+path, chromedp.Navigate(g.admin+"/console/"+path), chromedp.WaitVisible("main h1"))
		page("viewer "+path, 390)
		if n := value[int](t, ctx, `document.querySelectorAll('form[action="/console/act"], .go, #apply').length`); n != 0 {
			t.Errorf("%s shows a viewer %d forms", path, n)
		}
	}
	run(t, ctx, "sign out", chromedp.Click(`form[action="/console/signout"] button`), chromedp.WaitVisible("#secret"))
	page("sign-in", 390)

	signIn(g.token)
	page("now", 1280)
	walk(t, ctx, "now")
	run(t, ctx, "find", chromedp.SendKeys("#q", strings.ToLower(number)+"\r"), chromedp.WaitVisible("#let"))
	page("request", 1280)
	walk(t, ctx, "request")
	for _, button := range []string{"#unban", "#let"} { // each leads to the page again
		press(t, ctx, button)
		run(t, ctx, "done", chromedp.WaitVisible(`[role=status]`))
	}
	person.get(g.url+"/goods").must(t, 200, "")
	run(t, ctx, "lists", chromedp.Navigate(g.admin+"/console/lists"), chromedp.WaitVisible(`//td[contains(.,"203.0.113.77")]`))
	page("lists", 390) // the buttons of rows have names for those who do not see them, which must not widen the page
	teachInConsole(t, ctx, g, page)
	if code, out := command(t, "tail", "kind:act", "--follow=false", "--admin", g.admin, "--data-dir", g.dir); code != 0 || !strings.Contains(out, "unban") || !strings.Contains(out, "by admin.token") ||
		!strings.Contains(out, "unteach bad") {
		t.Errorf("tail: %d %s", code, out)
	}
}

// walk goes through a page by the tabulator, from its beginning until it is left: everything that can be used is come to once, in the
// order in which it stands, and what has the focus is seen to have it.
func walk(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	const all = `[...document.querySelectorAll('a[href],button,input:not([type=hidden]),select,textarea,summary,[tabindex="0"]')].filter(e => !e.disabled && e.checkVisibility())`
	run(t, ctx, name, chromedp.Evaluate(`window.walked = []; document.activeElement.blur(); getSelection().removeAllRanges();
		document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')`, nil))
	want := value[int](t, ctx, all+`.length`)
	for range want {
		run(t, ctx, name, chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`(() => {
			const e = document.activeElement, s = getComputedStyle(e)
			walked.push({at: `+all+`.indexOf(e), seen: e.matches(':focus-visible') && (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== 'none'), is: e.outerHTML.slice(0, 80)})
		})()`, nil))
	}
	if wrong := value[[]string](t, ctx, `walked.filter((w, i) => w.at !== i || !w.seen).map(w => JSON.stringify(w))`); len(wrong) > 0 || want < 10 {
		t.Errorf("%s: by the keyboard through %d: %q", name, want, wrong)
	}
}

// press presses a button and waits for the page that it leads to.
func press(t *testing.T, ctx context.Context, button string) {
	t.Helper()
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(waiting, chromedp.Click(button)); err != nil {
		t.Fatalf("%s: %v", button, err)
	}
}

// teachInConsole teaches the model a comment, and undoes it; another comment, which waits, is let through.
func teachInConsole(t *testing.T, ctx context.Context, g *gateway, page func(name string, width int64)) {
	t.Helper()
	person := from(t, "203.0.113.79")
	say := func(text string, status int) {
		person.do("POST", g.url+"/comments", "words="+text, "Content-Type", "application/x-www-form-urlencoded").must(t, status, "")
	}
	say("blue+umbrellas+for+everybody+at+the+corner", 200)
	say("maybe+this+is+fine", 202)
	at := g.admin + "/console/messages"
	eventually(t, "the log has the comment", func() bool {
		run(t, ctx, "look", chromedp.Navigate(at), chromedp.WaitVisible("main h1"))
		return value[int](t, ctx, `document.querySelectorAll('button[value=bad]').length`) > 0
	})
	page("messages", 1280)
	for _, each := range []struct{ button, then string }{
		{`button[value=bad]`, `#undo`}, {`#undo`, `[role=status]`}, {`button[value=approve]`, `[role=status]`},
	} {
		press(t, ctx, each.button)
		run(t, ctx, "done", chromedp.WaitVisible(each.then))
	}
	page("messages-done", 390)
	if n := value[int](t, ctx, `document.querySelectorAll('button[value=approve], #undo').length`); n != 0 {
		t.Errorf("%d are left to be decided", n)
	}
}
