package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

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
	g := start(t, "serve", "--config", configFile(t, "%s\nidentity: {trusted_proxies: [127.0.0.1]}\nservices: [{name: shop, upstream: {urls: [%q]}}]\n", entry, site(t).URL),
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
	for _, path := range []string{"", "requests/" + number, "subjects/ip:203.0.113.77", "challenges", "lists"} {
		run(t, ctx, "open "+path, chromedp.Navigate(g.admin+"/console/"+path), chromedp.WaitVisible("main h1"))
		page("viewer "+path, 390)
		if n := value[int](t, ctx, `document.querySelectorAll('form[action="/console/act"]').length`); n != 0 {
			t.Errorf("%s shows a viewer %d forms", path, n)
		}
	}
	run(t, ctx, "sign out", chromedp.Click(`form[action="/console/signout"] button`), chromedp.WaitVisible("#secret"))
	page("sign-in", 390)

	signIn(g.token)
	page("now", 1280)
	run(t, ctx, "find", chromedp.SendKeys("#q", strings.ToLower(number)+"\r"), chromedp.WaitVisible("#let"))
	page("request", 1280)
	for _, button := range []string{"#unban", "#let"} { // each leads to the page again
		waiting, cancel := context.WithTimeout(ctx, patience)
		if _, err := chromedp.RunResponse(waiting, chromedp.Click(button)); err != nil {
			t.Fatalf("%s: %v", button, err)
		}
		cancel()
		run(t, ctx, "done", chromedp.WaitVisible(`[role=status]`))
	}
	person.get(g.url+"/goods").must(t, 200, "")
	run(t, ctx, "lists", chromedp.Navigate(g.admin+"/console/lists"), chromedp.WaitVisible(`//td[contains(.,"203.0.113.77")]`))
	page("lists", 1280)
	if code, out := command(t, "tail", "kind:act", "--follow=false", "--admin", g.admin, "--data-dir", g.dir); code != 0 || !strings.Contains(out, "unban") || !strings.Contains(out, "by admin.token") {
		t.Errorf("tail: %d %s", code, out)
	}
}
